"""`mcphub token` as a script meets it: keys listed, rotated and revoked by their prefixes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import template
from tests.in_process import run


@pytest.fixture
def home(tmp_path: Path) -> Path:
    template.copy_to(tmp_path / "hub.sqlite3")
    return tmp_path


def keys(home: Path) -> list[dict[str, Any]]:
    return [key for key in json.loads(run(home, "token", "list", "--json").stdout) if key["name"] == "robot"]


def test_a_key_is_listed_rotated_and_revoked_by_its_prefix(home: Path) -> None:
    text = run(home, "token", "create", "robot", "--scope", "tools:call").stdout.strip()
    prefix = "_".join(text.split("_")[:2])
    (key,) = keys(home)
    assert (key["prefix"], key["scopes"], key["state"]) == (prefix, ["tools:call"], "valid")
    assert text not in run(home, "token", "list").stdout
    rotated = run(home, "token", "rotate", prefix, "--overlap", "24", "--reason", "yearly")
    assert rotated.stdout.startswith(f"{prefix}_")
    assert rotated.stdout.strip() != text
    assert "works for 24 more hours" in rotated.stderr
    assert run(home, "token", "revoke", text).stdout == f"{prefix} (robot) is revoked.\n"
    assert keys(home)[0]["state"] == "revoked"
    assert "was revoked before" in run(home, "token", "revoke", prefix).stdout
    again = run(home, "token", "rotate", prefix)
    assert (again.returncode, "was revoked" in again.stderr) == (2, True)


@pytest.mark.parametrize("words", [["revoke", "mcph_00000000"], ["rotate", "x"], ["rotate", "x", "--overlap", "999"]])
def test_what_is_wrong_is_one_sentence(words: list[str], home: Path) -> None:
    ended = run(home, "token", *words)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)
