"""`mcphub audit search` as an operator and an auditor type it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.features.archive.recording import hub_with_archive
from tests.features.archive.tampering import rewrite
from tests.in_process import run

pytestmark = pytest.mark.program


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("hub")
    hub_with_archive(home)
    return home


def test_calls_are_found_with_month_and_file_and_the_next_page_is_named(home: Path) -> None:
    done = run(home, "audit", "search", "tool:pay -workspace:blue", "--limit", "2")
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [(line[3], line[6][:20]) for line in lines] == [("pay", "2026-09/part-0000000")] * 2
    assert "Calls found: 2. Files read: " in done.stderr
    before = done.stderr.strip().rpartition("--before ")[2].rstrip(".")
    assert lines[-1][6].endswith(f":{before}")
    again = run(home, "audit", "search", "tool:pay -workspace:blue", "--before", before)
    assert (len(again.stdout.splitlines()), "--before" in again.stderr) == (1, False)


def test_json_has_the_members_of_rest_without_bodies_and_a_found_call_is_that_of_the_database(home: Path) -> None:
    told = json.loads(run(home, "audit", "search", "tool:late", "--json").stdout)
    (call,) = told["results"]
    assert (told["next"], told["read"]["months"], told["read"]["files"]) == (None, ["2026-10", "2026-09"], 3)
    place = call.pop("archived")
    assert (place["month"], len(place["leaf"])) == ("2026-10", 64)
    assert (call["arguments"], call["bodies_hidden"]) == (None, True)
    assert json.loads(run(home, "audit", "show", call["invocation_id"], "--json").stdout) == call


def test_an_archive_is_searched_without_its_hub(home: Path, tmp_path: Path) -> None:
    archive, keys = str(home / "audit" / "archive"), str(home / "audit" / "public.keys")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = run(elsewhere, "audit", "search", "caller:key:2", "--archive", archive, "--key", keys)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1), done.stderr
    named = run(elsewhere, "audit", "search", "caller:Ann", "--archive", archive, "--key", keys)
    assert (named.returncode, "write caller:key:1" in named.stderr) == (2, True)


def test_a_tampered_file_is_named_and_nothing_found(home: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(home / "audit" / "archive", tmp_path / "archive"))
    part = min((folder / "2026-09").glob("*.parquet"))
    rewrite(part, "SELECT * REPLACE ('other' AS tool_name)")
    done = run(home, "audit", "search", "tool:pay time:2026-09-05", "--archive", str(folder))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"BAD: The file 2026-09/{part.name} was changed after it was archived" in done.stderr


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["colour:red"], "Unknown key “colour”. Available keys: allowed_client, arguments,"),
        (["incomplete:yes"], "Unknown key “incomplete”"),
        (["tool:x", "--archive", "/nowhere"], "/nowhere: There is no archived month"),
        (["tool:x", "--key", "/nowhere"], "No such file"),
        (["tool:x", "--limit", "501"], "is not a number of calls"),
        (["tool:x", "--before", "x"], "is not a position"),
    ],
)
def test_what_cannot_be_done_is_named(home: Path, words: list[str], answer: str) -> None:
    done = run(home, "audit", "search", *words)
    assert (done.returncode, answer in done.stderr) == (2, True), done.stderr
