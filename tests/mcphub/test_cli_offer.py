"""`mcphub offer`, `profile` and `secrets` as a script meets them: what REST gives, and decisions."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests import template
from tests.in_process import ROOT, run

pytestmark = pytest.mark.program
SMALL = str(ROOT / "tests" / "upstreams" / "peers" / "small.py")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    template.copy_to(tmp_path / "hub.sqlite3")
    return tmp_path


def test_what_an_upstream_offers_is_looked_at_and_decided_about(home: Path) -> None:
    (home / "mcp.json").write_text(
        json.dumps(
            {"mcpServers": {name: {"command": sys.executable, "args": [SMALL, name]} for name in ("one", "two")}}
        )
    )
    assert run(home, "connection", "import", str(home / "mcp.json"), "--test").returncode == 0
    profiles = json.loads(run(home, "profile", "list", "--json").stdout)
    assert [(row["name"], row["command"]) for row in profiles] == [("one", sys.executable), ("two", sys.executable)]
    assert f"one\tconfined\tnetwork none\t{sys.executable} {SMALL} one" in run(home, "profile", "list").stdout

    one, two = json.loads(run(home, "offer", "list", "--json").stdout)
    assert (one["connection"], one["state"], one["upstream_name"]) == ("one", "new", "greet")
    assert json.loads(run(home, "offer", "show", str(one["id"])).stdout) == one
    stale = run(home, "offer", "approve", str(one["id"]), "--digest", "0" * 64)
    assert (stale.returncode, stale.stdout) == (1, "")
    assert "another definition" in stale.stderr
    approved = run(home, "offer", "approve", str(one["id"]), "--digest", one["digest"], "--reason", "read it")
    assert (approved.returncode, approved.stdout) == (0, "one: greet is served.\n")
    assert run(home, "offer", "reject", str(two["id"])).stdout == "two: greet is rejected.\n"
    assert run(home, "offer", "list").stderr == "There is no such offer.\n"
    (served,) = json.loads(run(home, "offer", "list", "--state", "approved", "--json").stdout)
    assert (served["decided_by"], served["approved"]) == ("mcphub offer", one["seen"])
    assert run(home, "offer", "approve", "--connection", "two").stdout == ""
    assert run(home, "offer", "approve").returncode == 2
    assert run(home, "offer", "approve", "99").returncode == 2
    assert run(home, "offer", "list", "--connection", "three").returncode == 2


def test_secrets_are_written_by_name_and_their_values_are_never_shown(home: Path) -> None:
    value = home / "value"
    value.write_text("a-long-secret-value\n")
    bound = ("--origins", "https://git.example", "--users", "service:git")
    assert run(home, "secrets", "set", "git", "--file", str(value)).returncode == 2
    assert run(home, "secrets", "set", "git", "--origins", "ftp://x y", "--file", str(value)).returncode == 2
    added = run(home, "secrets", "set", "git", *bound, "--file", str(value))
    assert (added.returncode, added.stdout) == (0, "git is added.\n"), added.stderr
    assert run(home, "secrets", "set", "git", "--keep-value", "--places", "query.key").stdout == "git is changed.\n"
    listed = run(home, "secrets", "list", "--json").stdout
    (row,) = json.loads(listed)
    assert (row["name"], row["origins"], row["places"]) == ("git", "https://git.example", "query.key")
    assert "a-long" not in listed + run(home, "secrets", "list").stdout
    assert run(home, "secrets", "remove", "other").returncode == 2
    assert run(home, "secrets", "remove", "git").stdout == "git is removed.\n"
    assert run(home, "secrets", "list").stdout == ""
