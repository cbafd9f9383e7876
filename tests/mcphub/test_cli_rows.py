"""Commands about rows as a script meets them: `list`, `show` and the deeds, `--json`, exit statuses, nearest names."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from mcphub.features.call_rules.models import McpPolicyRule
from mcphub.features.guardrails.models import McpGuardrail
from mcphub.features.quotas.models import McpQuota
from sessions_app.models import ApiKey
from tests import factories as make
from tests import template
from tests.in_process import inside, run

SWITCHED = {"tool": "weather", "connection": "tracker", "policy": "large", "guardrail": "cards", "quota": "daily"}


def _fill() -> None:
    make.McpToolDefinitionFactory(name="weather", enabled=True)
    make.McpToolDefinitionFactory(name="weather.tomorrow", enabled=True)
    make.McpConnectionFactory(slug="tracker", enabled=True)
    ada = User.objects.create_user("ada", "ada@example.org", first_name="Ada")
    User.objects.create_superuser("root")
    ApiKey.issue("of ada", owner=ada)
    make.McpSessionFactory(session_id="SESSION-1", principal=f"user:{ada.pk}", state="initialized")
    make.McpSessionFactory(session_id="SESSION-2", state="initialized")
    make.McpToolInvocationFactory(
        invocation_id="CALL-1", tool_name="weather", arguments={"city": "Oslo"}, client_name="\x1b[31mred"
    )
    make.McpToolInvocationFactory(invocation_id="CALL-2", tool_name="echo", failed=True)
    McpPolicyRule.objects.create(name="large", effect="deny", applies_to="all", condition="true", words="No.")
    McpGuardrail.objects.create(name="cards", applies_to="all", detectors="card", action="inspect")
    McpQuota.objects.create(name="daily", hard_limit=10, per="all", unit="calls", period="day", applies_to="all")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows")
    template.copy_to(path / "hub.sqlite3")
    with inside(path):
        _fill()
    return path


def told(home: Path, *words: str) -> Any:
    ended = run(home, *words, "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


def history(home: Path) -> list[tuple[str, str, str, str]]:
    """Kind, actor, way and reason of each edit, oldest first."""
    with closing(sqlite3.connect(home / "hub.sqlite3")) as database:
        rows = database.execute("SELECT kind, actor, via, reason FROM sessions_app_auditevent ORDER BY id")
        return list(rows)


@pytest.mark.parametrize(("command", "name"), SWITCHED.items())
def test_rows_are_shown_and_switched_by_name_and_the_history_says_by_whom(command: str, name: str, home: Path) -> None:
    shown = told(home, command, "show", name)
    assert shown["enabled"] is True
    assert name in shown.values()
    assert "enabled:\ttrue\n" in run(home, command, "show", name).stdout
    assert name in run(home, command, "list").stdout
    ended = run(home, command, "disable", name, "--reason", "out of order")
    assert (ended.returncode, ended.stdout) == (0, f"{name} is disabled.\n")
    kind, actor, via, reason = history(home)[-1]
    assert kind.endswith(".changed") or "disabled" in kind
    assert (actor, via, reason) == ("machine", "cli", "out of order")
    [row] = told(home, command, "enable", name)
    assert row == {**shown, "enabled": True, **{key: row[key] for key in row if key in ("updated_at", "version")}}


@pytest.mark.parametrize("command", SWITCHED)
def test_an_unknown_name_is_answered_with_the_nearest(command: str, home: Path) -> None:
    wrong = SWITCHED[command][:-1] + "x"
    ended = run(home, command, "show", wrong)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"mcphub {command}: there is no ")
    assert f"The nearest: {SWITCHED[command]}" in ended.stderr
    assert f"`mcphub {command} list` names them." in ended.stderr
    switched = run(home, command, "disable", SWITCHED[command], wrong)
    assert switched.returncode == (2 if command == "connection" else 1)
    assert told(home, command, "show", SWITCHED[command])["enabled"] is True, "nothing is done where a name is wrong"


@pytest.mark.parametrize("words", [["show"], ["show", "a", "b"], ["disable"], ["dance", "a"], ["list", "--jsn"]])
def test_what_is_written_wrongly_is_status_2(words: list[str], home: Path) -> None:
    ended = run(home, "tool", *words)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)


def test_tools_are_listed_as_rest_gives_them(home: Path) -> None:
    rows = {row["name"]: row for row in told(home, "tool", "list")}
    assert {"weather", "weather.tomorrow"} <= set(rows)
    assert {"input_schema", "configuration", "groups", "aliases"} <= set(rows["weather"])
    assert "weather\tenabled\t" in run(home, "tool", "list", "--enabled").stdout
    assert "weather\t" not in run(home, "tool", "list", "--disabled").stdout


def live(home: Path, *flags: str) -> set[str]:
    return {row["session_id"] for row in told(home, "session", "list", *flags)}


def test_sessions_are_listed_and_ended(home: Path) -> None:
    assert {"SESSION-1", "SESSION-2"} <= live(home)
    assert told(home, "session", "show", "SESSION-2")["state"] == "initialized"
    assert run(home, "session", "end", "SESSION-2", "--reason", "too long").stdout == "SESSION-2 is ended.\n"
    assert history(home)[-1] == ("session.ended", "machine", "cli", "too long")
    assert run(home, "session", "end", "SESSION-2").stdout == "SESSION-2 had ended before.\n"
    assert told(home, "session", "show", "SESSION-2")["state"] == "closed"
    assert "SESSION-1" in live(home)
    assert "SESSION-2" not in live(home)
    assert "SESSION-2" in live(home, "--all")
    assert run(home, "session", "show", "SESSION").returncode == 1


def test_calls_are_listed_without_bodies_and_reading_bodies_is_on_record(home: Path) -> None:
    rows = told(home, "audit", "list")
    assert [row["invocation_id"] for row in rows] == ["CALL-2", "CALL-1"]
    assert all(row["bodies_hidden"] and row["arguments"] is None for row in rows)
    assert [row["invocation_id"] for row in told(home, "audit", "list", "--status", "error")] == ["CALL-2"]
    assert [row["invocation_id"] for row in told(home, "audit", "list", "--tool", "weather")] == ["CALL-1"]
    assert told(home, "audit", "list", "--until", "2001-01-01") == []
    assert run(home, "audit", "list", "--limit", "501").returncode == 2
    before = len(history(home))
    assert told(home, "audit", "show", "CALL-1")["arguments"] is None
    assert len(history(home)) == before
    assert told(home, "audit", "show", "CALL-1", "--bodies")["arguments"] == {"city": "Oslo"}
    assert history(home)[before:] == [("bodies.read", "machine", "cli", "")]
    assert "\x1b" not in run(home, "audit", "show", "CALL-1").stdout


def test_the_rest_of_the_audit_speaks_json(home: Path) -> None:
    assert told(home, "audit", "verify")["ok"] is True
    assert set(told(home, "audit", "policy")) == {"rows_days", "bodies_days"}
    run(home, "audit", "hold", "set", "case", "--tool", "weather", "--reason", "a case")
    [held] = told(home, "audit", "hold", "list")
    assert (held["name"], held["state"], held["reason"]) == ("case", "holds", "a case")
    assert told(home, "audit", "retain", "--dry-run")["rows"] == 0
    assert told(home, "audit", "ship", "list") == []


def test_keys_are_made_shown_rotated_and_revoked_in_json(home: Path) -> None:
    made = told(home, "token", "create", "robot", "--scope", "tools:list")
    assert made["text"].startswith(f"{made['prefix']}_")
    assert told(home, "token", "show", made["text"])["state"] == "valid"
    assert "text" not in told(home, "token", "show", made["prefix"])
    assert told(home, "token", "rotate", made["prefix"])["text"] != made["text"]
    [revoked] = told(home, "token", "revoke", made["prefix"])
    assert revoked["state"] == "revoked"
    ended = run(home, "token", "show", made["prefix"][:-1])
    assert ended.returncode == 1
    assert made["prefix"] in ended.stderr


def test_an_approval_is_shown_by_its_id_and_an_unknown_one_is_refused(home: Path) -> None:
    assert told(home, "approval", "list") == []
    ended = run(home, "approval", "show", "nothing")
    assert (ended.returncode, ended.stderr) == (
        1,
        "mcphub approval: there is no approval 'nothing'. `mcphub approval list` names them.\n",
    )


def test_people_are_shown_disabled_and_their_access_ends(home: Path) -> None:
    ada = told(home, "person", "show", "ada")
    assert (ada["state"], ada["keys"], ada["sessions"], ada["email"]) == ("active", 1, 1, "ada@example.org")
    assert run(home, "person", "disable", "ada", "--reason", "left").stdout == "ada is disabled.\n"
    gone = told(home, "person", "show", "ada")
    assert (gone["state"], gone["keys"]) == ("disabled", 0)
    assert ("machine", "cli", "left") in {entry[1:] for entry in history(home)}
    assert [row["name"] for row in told(home, "person", "list", "--disabled")] == ["ada"]
    assert run(home, "person", "enable", "ada").stdout == "ada is enabled.\n"
    assert told(home, "person", "show", "ada")["keys"] == 0
    assert run(home, "person", "end", "ada").stdout == "ada has no access open any more.\n"
    assert history(home)[-1][0] == "user.ended"


def test_the_last_superuser_stays(home: Path) -> None:
    ended = run(home, "person", "disable", "root")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "is the last superuser who can log in" in ended.stderr
    assert told(home, "person", "show", "root")["state"] == "active"


def test_workspaces_are_made_and_say_whose_groups_belong_to_them(home: Path) -> None:
    (made,) = told(
        home, "workspace", "make", "team-1", "--title", "Team", "--members", "Viewer", "--operators", "Operator"
    )
    assert (made["path"], made["members"], made["operators"]) == ("/w/team-1/mcp", ["Viewer"], ["Operator"])
    (changed,) = told(
        home, "workspace", "set", "team-1", "--members", "Auditor", "--members", "Viewer", "--reason", "more"
    )
    assert changed["members"] == ["Auditor", "Viewer"]
    assert changed["operators"] == ["Operator"]  # what is not named stays
    assert told(home, "workspace", "show", "team-1") == {**changed, "updated_at": changed["updated_at"]}
    assert [row["slug"] for row in told(home, "workspace", "list")] == ["team-1"]
    for words, status, said in (
        (["make", "Team!"], 2, "lowercase letters"),
        (["make", "team-1"], 2, "already exists"),
        (["make", "team-2", "--members", "Viewers"], 1, "The nearest: Viewer"),
        (["set", "team", "--members", "Viewer"], 1, "The nearest: team-1"),
    ):
        ended = run(home, "workspace", *words)
        assert ended.returncode == status, words
        assert said in ended.stderr
        assert "Traceback" not in ended.stderr
    assert ("workspace.created", "cli") in [(kind, via) for kind, _actor, via, _reason in history(home)]
    made = told(home, "token", "create", "of the team", "--workspace", "team-1")
    assert made["workspace"] == "team-1"
    ended = run(home, "token", "create", "of nobody", "--workspace", "team-9")
    assert ended.returncode == 2
    assert "there is no workspace 'team-9'" in ended.stderr
    ended = run(home, "token", "create", "too much", "--workspace", "team-1", "--scope", "catalog:write")
    assert ended.returncode == 2
    assert "covers the whole hub" in ended.stderr
