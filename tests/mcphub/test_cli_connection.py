"""`mcphub connection` as a script meets it: files in, what would run first, then connections."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import template
from tests.features.importers import configurations as told
from tests.in_process import ROOT, run

pytestmark = pytest.mark.program
SMALL = str(ROOT / "tests" / "upstreams" / "peers" / "small.py")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    template.copy_to(tmp_path / "hub.sqlite3")
    return tmp_path


def five() -> dict[str, Any]:
    return {
        "mcpServers": {
            name: {
                "command": sys.executable,
                "args": [SMALL, name, "--wants-token"],
                "env": {"SMALL_TOKEN": "${SMALL}"},
            }
            for name in ("one", "two", "three", "four", "five")
        }
    }


def test_five_servers_become_approved_tools_by_one_command(home: Path) -> None:
    file = home / "mcp.json"
    file.write_text(json.dumps(five()))
    ended = run(home, "connection", "import", str(file), "--from-environment", "--approve", SMALL="a-long-token")
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert "    runs: " in ended.stdout
    assert ended.stdout.count("list ok: greet") == 5
    assert "5 new, 0 there already, 0 left out" in ended.stdout
    assert "a-long-token" not in ended.stdout
    listed = json.loads(run(home, "connection", "list", "--json").stdout)
    assert [(row["name"], row["served"], row["waiting"]) for row in listed] == [
        (name, 1, 0) for name in ("five", "four", "one", "three", "two")
    ]
    again = run(home, "connection", "import", str(file), "--from-environment", SMALL="a-long-token")
    assert "0 new, 5 there already" in again.stdout


def test_a_dry_run_says_what_would_run_and_changes_nothing(home: Path) -> None:
    file = home / "claude.json"
    file.write_text(told.CLAUDE_DESKTOP)
    ended = run(home, "connection", "import", str(file), "--dry-run")
    assert ended.returncode == 0
    assert "    runs: npx -y @modelcontextprotocol/server-filesystem /srv/shared" in ended.stdout
    assert "    GITHUB_TOKEN=••••" in ended.stdout
    assert "    secret: github.GITHUB_TOKEN" in ended.stdout
    assert told.TOKEN not in ended.stdout + ended.stderr
    assert "dry run, nothing was changed" in ended.stdout
    assert "There is no connection" in run(home, "connection", "list").stdout


def test_relative_paths_start_in_the_folder_of_the_file(home: Path) -> None:
    (home / "project").mkdir()
    file = home / "project" / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "./run", "args": ["--root=../data"], "cwd": "tools"}}}))
    ended = run(home, "connection", "import", str(file), "--dry-run")
    assert f"runs: {home}/project/tools/run --root={home}/project/data" in ended.stdout
    assert f"in: {home}/project/tools" in ended.stdout


def test_a_command_is_added_with_the_folder_it_was_typed_in(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program = tmp_path_factory.mktemp("notes") / "server.py"
    program.write_text("")
    where = os.path.relpath(program)
    ended = run(home, "connection", "add", where, "--dry-run", "--read", os.path.relpath(program.parent))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"runs: {program}" in ended.stdout
    ended = run(home, "connection", "add", f"python3 {where} --all", "--dry-run")
    assert f"runs: python3 {program} --all" in ended.stdout
    ended = run(home, "connection", "add", "https://notes.example/mcp", "--dry-run")
    assert "reaches: https://notes.example/mcp" in ended.stdout
    ended = run(home, "connection", "add", "nothing/there")
    assert ended.returncode == 2
    assert "No known server" in ended.stderr


def test_what_is_missing_is_named_and_the_rest_is_saved(home: Path) -> None:
    file = home / "mcp.json"
    file.write_text(told.CURSOR)
    ended = run(home, "connection", "import", str(file))
    assert ended.returncode == 1
    assert "local: left out: workspaceFolder, LOCAL_API_KEY: give it with --set NAME=VALUE" in ended.stderr
    assert "1 new, 0 there already, 1 left out" in ended.stdout
    (home / "key").write_text("a-key-from-a-file\n")
    given = ["--set", "workspaceFolder=/srv", "--set", f"LOCAL_API_KEY=@{home / 'key'}"]
    ended = run(home, "connection", "import", str(file), "--only", "local", *given)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "mcphub connection test --approve local" in ended.stdout


def test_a_connection_is_switched_and_tested_by_its_name(home: Path) -> None:
    file = home / "mcp.json"
    servers = {name: {"command": sys.executable, "args": [SMALL, name]} for name in ("one", "spare")}
    file.write_text(json.dumps({"mcpServers": servers}))
    run(home, "connection", "import", str(file))
    assert run(home, "connection", "disable", "one", "--reason", "later").stdout == "one is disabled.\n"
    assert "one\tdisabled\t" in run(home, "connection", "list").stdout
    assert run(home, "connection", "enable", "one").stdout == "one is enabled.\n"
    assert run(home, "connection", "remove", "spare").stdout == "spare is removed, and its launch profile.\n"
    assert "spare" not in run(home, "profile", "list").stdout
    assert "one was never listed" in run(home, "offer", "approve", "--connection", "one").stderr
    assert run(home, "connection", "remove", "spare").returncode == 2
    tested = run(home, "connection", "test", "one", "--approve")
    assert (tested.returncode, "one: 1 approved" in tested.stdout) == (0, True)
    assert "No offer of one waits" in run(home, "offer", "approve", "--connection", "one").stderr
    kept = run(home, "connection", "remove", "one")
    assert kept.returncode == 1
    assert "connection disable one" in kept.stderr


def test_a_test_that_fails_ends_with_status_1(home: Path) -> None:
    file = home / "mcp.json"
    file.write_text(
        json.dumps({"mcpServers": {"one": {"command": sys.executable, "args": [SMALL, "one", "--wants-token"]}}})
    )
    ended = run(home, "connection", "import", str(file), "--test")
    assert ended.returncode == 1
    assert "one: connect FAILED" in ended.stdout
    assert "SMALL_TOKEN is not set" in ended.stdout


def test_a_known_server_is_added_by_its_name(home: Path) -> None:
    known = run(home, "connection", "known", "issues").stdout
    assert "linear\tLinear: " in known
    ended = run(home, "connection", "add", "linear", "--as", "work", "--set", "LINEAR_API_KEY=a-long-key")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (
        "work\tdisconnected\t0 served, 0 waiting\thttps://mcp.linear.app/mcp" in run(home, "connection", "list").stdout
    )


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["import", "/nowhere/mcp.json"], 2, "cannot be read"),
        (["import", "http://127.0.0.1:1/server.json"], 1, "is not on the public internet"),
        (["import", "-", "--only", "x"], 1, "It is empty"),
        (["add", "githup"], 2, "No known server is named 'githup'"),
        (["add", "./nowhere.py"], 2, "has no file ./nowhere.py. Write the path from the current folder"),
        (["add", "./nowhere.py --all"], 2, "has no file ./nowhere.py"),
        (["add", "linear", "--program"], 2, "has an address only"),
        (["add", "linear", "--set", "X"], 2, "write NAME=VALUE"),
        (["known", "nothing-of-this"], 1, "no known server"),
        (["test", "nothing"], 2, "there is no connection 'nothing'"),
        (["search", "x", "--registry", "ftp://x"], 1, "no address of a registry"),
        (["add", "x/y", "--registry", "http://127.0.0.1:1"], 2, "is not on the public internet"),
    ],
)
def test_what_is_wrong_is_one_sentence(words: list[str], status: int, said: str, home: Path) -> None:
    ended = run(home, "connection", *words)
    assert ended.returncode == status
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
