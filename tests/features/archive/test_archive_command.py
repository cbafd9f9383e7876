"""`mcphub audit archive` as an operator and an auditor type it."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from tests import forking
from tests.features.archive.recording import hub_of_blocks
from tests.features.archive.tampering import rewrite
from tests.in_process import environment, run
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.program


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hub with three blocks of September and one of October 2025."""
    folder = tmp_path_factory.mktemp("hub")
    hub_of_blocks(folder)
    return folder


def test_a_killed_run_is_continued_and_the_archive_is_verified_with_the_database(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    killed = forking.run("tests.features.archive.killed", str(folder), env=environment(home), timeout=PATIENCE_SECONDS)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (part,) = (folder / "2025-09.draft").glob("part-*.parquet")
    kept = part.stat().st_ino
    assert "no archived month" in run(home, "audit", "verify", "--archive", str(folder)).stderr

    done = run(home, "audit", "archive", "--to", str(folder))
    assert done.returncode == 0, done.stderr
    assert [line[:7] for line in done.stdout.splitlines()] == ["2025-09", "2025-10"]
    assert (folder / "2025-09" / part.name).stat().st_ino == kept, "the whole file of the killed run stays"
    assert not list(folder.glob("*.draft"))
    again = run(home, "audit", "archive", "--to", str(folder))
    assert (again.returncode, again.stdout) == (0, "")
    assert "No closed month is missing" in again.stderr

    verified = run(home, "audit", "verify", "--archive", str(folder))
    assert verified.returncode == 0, verified.stderr
    assert "In the archive: " in verified.stdout
    assert " rows in 4 blocks are as they were sealed" in verified.stdout
    figures = json.loads(run(home, "audit", "verify", "--archive", str(folder), "--json").stdout)
    assert figures["archive"]["blocks"] == 4

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    keys = str(home / "audit" / "public.keys")
    alone = run(elsewhere, "audit", "archive", "--check", str(folder), "--key", keys)
    assert (alone.returncode, " rows in 4 blocks" in alone.stdout) == (0, True), alone.stderr
    rewrite(folder / "2025-09" / part.name, "SELECT * REPLACE ('other' AS tool_name)")
    for words in (["verify", "--archive", str(folder)], ["archive", "--check", str(folder), "--key", keys]):
        bad = run(home, "audit", *words)
        assert (bad.returncode, f"BAD: 2025-09/{part.name}: " in bad.stderr) == (1, True), bad.stderr
    shutil.rmtree(folder)


def test_without_a_folder_the_archive_of_the_hub_is_meant(home: Path) -> None:
    assert run(home, "audit", "archive").returncode == 0
    for words in (["verify", "--archive"], ["archive", "--check"]):
        done = run(home, "audit", *words)
        assert (done.returncode, "rows in 4 blocks are as they were sealed" in done.stdout) == (0, True), done.stderr
    (home / "audit" / "archive" / "2025-10").rename(home / "kept")
    missing = run(home, "audit", "verify", "--archive")
    assert (missing.returncode, "The month 2025-10 is missing" in missing.stderr) == (1, True), missing.stderr


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["archive", "--until", "October"], "'October' is not a month such as 2026-10"),
        (["archive", "--to", "/dev/null/x"], "/dev/null"),
        (["archive", "--check", "/nowhere", "--key", "/nowhere"], "No such file"),
        (["verify", "x.jsonl", "--archive", "/nowhere"], "--archive goes with the database, not with a file"),
    ],
)
def test_what_cannot_be_done_is_named(home: Path, words: list[str], answer: str) -> None:
    done = run(home, "audit", *words)
    assert (done.returncode, answer in done.stderr) == (2, True), done.stderr
