"""`mcphub alert` as an operator types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcphub.features.alerts.models import Alert
from sessions_app.history.models import AuditEvent
from tests import template
from tests.factories import McpToolDefinitionFactory
from tests.in_process import inside, run

pytestmark = pytest.mark.program


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alerts")
    template.copy_to(folder / "hub.sqlite3")
    with inside(folder):
        McpToolDefinitionFactory(name="crm.find")
    return folder


def told(home: Path, *words: str) -> Any:
    ended = run(home, "alert", *words, "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


def test_an_alert_is_tried_added_switched_and_removed(home: Path) -> None:
    wanted = ["add", "CRM fails", "errors", "--limit", "10", "--tool", "crm.find", "--minutes", "60"]
    assert told(home, *wanted, "--dry-run") == {"fired": 0, "share": 0.0}
    assert told(home, "list") == []
    added = run(home, "alert", *wanted, "--reason", "on call")
    assert (added.returncode, added.stderr) == (0, "")
    assert "10 % errors or more within 1 hour, of crm.find" in added.stdout
    assert "would have fired 0 times" in added.stdout
    [row] = told(home, "list")
    assert (row["tool"], row["window_minutes"], row["least_calls"]) == ("crm.find", 60, 20)
    assert told(home, "preview", "CRM fails") == {"fired": 0, "share": 0.0}
    assert told(home, "disable", "CRM fails")[0]["enabled"] is False
    assert "is enabled" in run(home, "alert", "enable", "CRM fails").stdout
    assert told(home, "remove", "CRM fails", "--reason", "replaced")[0]["name"] == "CRM fails"
    with inside(home):
        assert not Alert.objects.exists()
        rows = AuditEvent.objects.filter(kind__startswith="alert.").order_by("id")
        events = list(rows.values_list("kind", "via", "reason"))
        assert events[0] == ("alert.created", "cli", "on call")
        assert events[-1] == ("alert.deleted", "cli", "replaced")


@pytest.mark.parametrize(
    ("words", "status", "answer"),
    [
        (["add", "x", "errors"], 2, "--limit: Enter a threshold of at least 1"),
        (["add", "x", "errors", "--limit", "101"], 2, "--limit: Enter a percentage from 1 to 100"),
        (["add", "x", "quiet", "--minutes", "7"], 2, "--minutes: "),
        (["add", "x", "quiet", "--tool", "crm.fnd"], 1, "there is no tool 'crm.fnd'. The nearest: crm.find"),
        (["preview", "x"], 1, "there is no alert 'x'. `mcphub alert list` names them"),
    ],
)
def test_a_mistake_is_named_and_adds_nothing(words: list[str], status: int, answer: str, home: Path) -> None:
    ended = run(home, "alert", *words)
    assert (ended.returncode, ended.stdout) == (status, "")
    assert answer in ended.stderr
