"""Data of an unknown version, or none at all: each command says one true sentence and changes nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests import template
from tests.in_process import run
from tests.mcphub import running
from tests.servers import free_port

pytestmark = pytest.mark.program

COMMANDS = [
    ["serve", "--port", "PORT"],
    ["stdio"],
    ["doctor"],
    ["audit", "verify"],
    ["catalog", "dump"],
    ["token", "create", "x"],
]


def said(data: Path, words: list[str], status: tuple[int, ...] = (1,)) -> str:
    """What a command that stops says; one line, or for doctor its findings."""
    command = running.run if words[0] in ("serve", "stdio") else run
    ended = command(data, *(str(free_port()) if word == "PORT" else word for word in words))
    assert ended.returncode in status, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr
    if words != ["doctor"]:
        assert len(ended.stderr.splitlines()) == 1, ended.stderr
    return ended.stdout + ended.stderr


def whole(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as database:
        return list(database.iterdump())


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("behind", [False, True], ids=["all of ours applied", "some of ours too few"])
def test_data_of_a_newer_version_is_left_as_it_is(tmp_path: Path, words: list[str], behind: bool) -> None:
    template.copy_to(tmp_path / "hub.sqlite3")
    if behind:
        assert run(tmp_path, "migrate", "sessions", "zero", "--verbosity", "0").returncode == 0
    with closing(sqlite3.connect(tmp_path / "hub.sqlite3")) as database:
        database.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('invocations', '0099_later', '2031-01-01')"
        )
        database.commit()
    before = whole(tmp_path / "hub.sqlite3")
    told = said(tmp_path, words)
    assert "perhaps newer version" in told
    assert "invocations.0099_later" in told
    assert "mcphub migrate" not in told
    assert whole(tmp_path / "hub.sqlite3") == before


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_database_of_something_else_is_left_as_it_is(tmp_path: Path, words: list[str]) -> None:
    with closing(sqlite3.connect(tmp_path / "hub.sqlite3")) as database:
        database.execute("CREATE TABLE tools_catalog_mcptoolset (id integer)")
        database.commit()
    before = whole(tmp_path / "hub.sqlite3")
    assert "tools_catalog_mcptoolset that no migration of the hub made" in said(tmp_path, words)
    assert whole(tmp_path / "hub.sqlite3") == before


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_file_in_place_of_the_data_folder_is_told_with_the_next_step(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "data").write_text("a file")
    for place in (tmp_path / "data", tmp_path / "data" / "below"):
        told = said(place, words, (1, 2))
        assert f"{tmp_path / 'data'} is a file. Name a folder with --data-dir" in told
    assert (tmp_path / "data").read_text() == "a file"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_file_that_is_no_database_is_told_so(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "hub.sqlite3").write_text("no database, and long enough to have a header of its own" * 40)
    assert "file is not a database" in said(tmp_path, words)
