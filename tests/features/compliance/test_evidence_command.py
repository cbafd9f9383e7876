"""`mcphub audit evidence` as an operator and an auditor type it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import template
from tests.in_process import run

pytestmark = pytest.mark.program


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    template.copy_to(folder / "hub.sqlite3")
    assert run(folder, "audit", "checkpoint").returncode == 0
    return folder


def test_an_archive_is_written_and_checked_with_the_public_keys_alone(home: Path, tmp_path: Path) -> None:
    archive = tmp_path / "e.zip"
    done = run(home, "audit", "evidence", "--from", "2026-01-01", "-o", str(archive))
    assert done.returncode == 0, done.stderr
    keys = str(home / "audit" / "public.keys")
    (tmp_path / "elsewhere").mkdir()
    done = run(tmp_path / "elsewhere", "audit", "evidence", "--check", str(archive), "--key", keys)
    assert "14 files of 2026-01-01 to " in done.stdout, done.stderr
    again = run(home, "audit", "evidence", "--from", "2026-01-01", "-o", str(archive))
    assert (again.returncode, "File exists" in again.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ([], "write --from TIME and --output FILE, or --check FILE"),
        (["--from", "2026-02-01", "--until", "2026-01-01", "-o", "x.zip"], "--from is not before --until"),
        (["--from", "yesterday", "-o", "x.zip"], "'yesterday' is not a time such as"),
        (["--from", "2026-01-01", "-o", "x.zip", "--workspace", "none"], "`mcphub workspace list` lists them"),
        (["--from", "2026-01-01", "-o", "/nowhere/x.zip"], "/nowhere/x.zip"),
        (["--check", "/nowhere/x.zip"], "No such file"),
    ],
)
def test_what_cannot_be_done_is_named(home: Path, words: list[str], answer: str) -> None:
    done = run(home, "audit", "evidence", *words)
    assert done.returncode == 2
    assert answer in done.stderr
