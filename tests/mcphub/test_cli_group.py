"""`mcphub group` as an operator types it: the rules of REST and the console about groups."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from sessions_app.history.models import AuditEvent
from tests import template
from tests.factories import McpToolDefinitionFactory
from tests.in_process import inside, run

pytestmark = pytest.mark.program


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("groups")
    template.copy_to(folder / "hub.sqlite3")
    with inside(folder):
        User.objects.create_user("ada")
        User.objects.create_user("eve")
        McpToolDefinitionFactory(name="crm.find").groups.add(Group.objects.create(name="Sales"))
    return folder


def told(home: Path, *words: str) -> Any:
    ended = run(home, "group", *words, "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


def is_staff(home: Path, name: str) -> bool:
    with inside(home):
        return User.objects.get(username=name).is_staff


def test_a_group_with_rights_opens_the_console_to_its_people_until_they_leave(home: Path) -> None:
    [made] = told(home, "create", "On call", "--permission", "invocations.view_mcptoolinvocation")
    assert (made["people"], made["permissions"]) == (0, ["invocations.view_mcptoolinvocation"])
    joined = told(home, "add-person", "On call", "ada", "eve", "--reason", "rota")
    assert (joined["people"], joined["members"]) == (2, ["ada", "eve"])
    assert is_staff(home, "ada")
    assert "eve was in On call before" in run(home, "group", "add-person", "On call", "eve").stdout
    assert "ada has left On call" in run(home, "group", "remove-person", "On call", "ada").stdout
    assert not is_staff(home, "ada")
    assert told(home, "show", "On call")["members"] == ["eve"]
    assert "On call is removed" in run(home, "group", "remove", "On call", "--reason", "no rota").stdout
    with inside(home):
        assert not Group.objects.filter(name="On call").exists()
        assert AuditEvent.objects.filter(kind="group.deleted", via="cli", reason="no rota").exists()
        assert AuditEvent.objects.filter(kind__startswith="user.", via="cli", reason="rota").exists()


@pytest.mark.parametrize(
    ("words", "status", "answer"),
    [
        (["remove", "Sales"], 1, "Sales stays. Reserved to this group: crm.find. Open them to others"),
        (["add-person", "Sales", "ada", "nobody"], 1, "there is no person 'nobody'"),
        (["add-person", "Sale", "ada"], 1, "there is no group 'Sale'. The nearest: Sales"),
        (["create", "Sales"], 2, "NAME: Group with this Name already exists"),
        (["create", "New", "--permission", "auth.view_usr"], 1, "The nearest: auth.view_user"),
    ],
)
def test_a_mistake_is_named_and_changes_nothing(words: list[str], status: int, answer: str, home: Path) -> None:
    ended = run(home, "group", *words)
    assert (ended.returncode, ended.stdout) == (status, "")
    assert answer in ended.stderr
    with inside(home):
        assert not User.objects.get(username="ada").groups.exists()
        assert not Group.objects.filter(name="New").exists()
