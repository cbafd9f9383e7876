"""Who may give a role: each scope of a key and each role of a person, at each address that writes groups or rights."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from mcphub.features.scim.models import ProvisionedGroup
from mcphub.groups import ROLES
from sessions_app.history import deciding
from sessions_app.models import ApiKey, McpWorkspace
from tests.factories import UserFactory
from tests.rest import by_token

pytestmark = pytest.mark.django_db

OWN = "Own"
"""A group of the caller's own, without permissions."""
KEYS = [*ApiKey.Scope.values, "all scopes"]
PEOPLE = [*ROLES, "nobody"]


def key_of(which: str) -> Client:
    scopes = list(ApiKey.Scope.values) if which == "all scopes" else [which]
    group, _made = Group.objects.get_or_create(name=OWN)
    return by_token(ApiKey.issue("a key", scopes=scopes, groups=[group], created_by=UserFactory())[1])


def person_of(role: str) -> Client:
    user: Any = UserFactory(username="mallory", is_staff=True)
    user.groups.set(Group.objects.filter(name__in=[role]) | Group.objects.filter(name=OWN))
    client = Client()
    client.force_login(user)
    return client


def sent(client: Client, method: str, path: str, body: Any) -> int:
    kind = "application/scim+json" if path.startswith("/scim/") else "application/json"
    return int(client.generic(method, path, json.dumps(body), content_type=kind).status_code)


def scim(path: str, *operations: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    return (
        "PATCH",
        f"/scim/v2/{path}",
        {"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"], "Operations": list(operations)},
    )


def _into(name: str) -> Callable[[User], tuple[str, str, Any]]:
    def ask(victim: User) -> tuple[str, str, Any]:
        number = Group.objects.get(name=name).pk
        return scim(f"Groups/{number}", {"op": "add", "path": "members", "value": [{"value": str(victim.pk)}]})

    return ask


WAYS: dict[str, Callable[[User], tuple[str, str, Any]]] = {
    "members of a workspace": lambda _: ("PATCH", "/api/workspaces/team/", {"members": [OWN]}),
    "auditors of a workspace": lambda _: ("PATCH", "/api/workspaces/team/", {"auditors": [OWN]}),
    "operators of a workspace": lambda _: ("PATCH", "/api/workspaces/team/", {"operators": [OWN]}),
    "a new workspace with auditors": lambda _: ("POST", "/api/workspaces/", {"slug": "new", "auditors": [OWN]}),
    "a role of a person": lambda victim: ("PATCH", f"/api/people/{victim.username}/", {"groups": ["Operator"]}),
    "permissions of a group": lambda _: ("PATCH", f"/api/groups/{OWN}/", {"permissions": ["auth.change_user"]}),
    "a new group with permissions": lambda _: (
        "POST",
        "/api/groups/",
        {"name": "fresh", "permissions": ["invocations.read_bodies"]},
    ),
    "a key with a role's group": lambda _: ("POST", "/api/keys/", {"name": "k", "groups": ["Upstream manager"]}),
    "a role by SCIM": _into("Operator"),
    "a role that was a directory's group by SCIM": _into("Grown"),
    "groups of a user by SCIM": lambda victim: scim(
        f"Users/{victim.pk}", {"op": "replace", "path": "groups", "value": [{"value": "1"}]}
    ),
    "roles of a user by SCIM": lambda victim: scim(
        f"Users/{victim.pk}", {"op": "add", "path": "roles", "value": [{"value": "admin"}]}
    ),
}


def standing() -> object:
    """Return all that gives roles: rights of groups and people, who is in which group, and roles of workspaces."""
    through = (Group.permissions.through, User.user_permissions.through, User.groups.through)
    rows = [sorted(model._default_manager.values_list()) for model in through]
    roles = [getattr(McpWorkspace, role).through for role in ("members", "auditors", "operators")]
    roles.append(ApiKey.groups.through)
    rows += [sorted(model._default_manager.values_list()) for model in roles]
    return rows, sorted(User.objects.filter(is_staff=True).values_list("pk")), Group.objects.count()


@pytest.fixture
def victim() -> User:
    McpWorkspace.objects.create(slug="team")
    Group.objects.get_or_create(name=OWN)
    grown = Group.objects.create(name="Grown")  # a directory made it, and a superuser gave it permissions since
    grown.permissions.add(Permission.objects.get(codename="read_bodies"))
    ProvisionedGroup.objects.create(group=grown, is_made_here=True)
    user: User = UserFactory(username="victim")
    return user


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("who", [*KEYS, *PEOPLE])
def test_no_key_and_no_role_that_ships_gives_a_role(who: str, way: str, victim: User) -> None:
    client = key_of(who) if who in KEYS else person_of(who)
    method, path, body = WAYS[way](victim)
    before = standing()
    status = sent(client, method, path, body)
    assert standing() == before, (who, way, status)


@pytest.mark.parametrize("way", ["auditors of a workspace", "a role of a person", "permissions of a group"])
def test_a_superuser_gives_each(way: str, victim: User) -> None:
    client = Client()
    client.force_login(UserFactory(is_superuser=True, is_staff=True))
    method, path, body = WAYS[way](victim)
    before = standing()
    assert sent(client, method, path, body) == 200
    assert standing() != before


def test_a_directory_fills_a_role_that_its_key_has_and_no_other(victim: User) -> None:
    role = Group.objects.get(name="Operator")
    client = by_token(ApiKey.issue("Directory", scopes=["people:write"], groups=[role], created_by=UserFactory())[1])
    assert sent(client, *_into("Operator")(victim)) in (200, 204)
    assert victim.groups.filter(name="Operator").exists()
    assert sent(client, *_into("Grown")(victim)) == 400
    assert not victim.groups.filter(name="Grown").exists()


def test_roles_of_a_workspace_wait_for_a_second_person(victim: User) -> None:
    client = person_of("Operator")
    user = User.objects.get(username="mallory")
    for codename in ("view_mcpworkspace", "change_mcpworkspace"):
        user.user_permissions.add(Permission.objects.get(codename=codename))
    team = McpWorkspace.objects.get(slug="team")
    for role in ("members", "auditors", "operators"):
        assert sent(client, "PATCH", "/api/workspaces/team/", {role: [OWN]}) == 202
        assert not getattr(team, role).exists()


def test_one_person_takes_a_group_out_of_a_workspace_and_two_let_another_in(victim: User) -> None:
    team, was = McpWorkspace.objects.get(slug="team"), Group.objects.create(name="was")
    team.members.set([was, Group.objects.create(name="stays")])
    client = key_of("people:write")
    answer = client.patch(
        "/api/workspaces/team/", json.dumps({"members": ["stays", OWN]}), content_type="application/json"
    )
    assert (answer.status_code, answer.json()["fields_held"]) == (202, ["members"])
    assert [group.name for group in team.members.all()] == ["stays"]
    deciding.confirm(answer.json()["waiting_change"], UserFactory(is_superuser=True, is_staff=True), "")
    assert sorted(group.name for group in team.members.all()) == [OWN, "stays"]
    assert sent(client, "PATCH", "/api/workspaces/team/", {"members": ["stays"]}) == 200
    assert [group.name for group in team.members.all()] == ["stays"]
