"""Groups over REST: by people, and nobody gives a group what they lack."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group

from sessions_app.history.models import AuditEvent
from tests.factories import GroupFactory, McpToolDefinitionFactory, UserFactory
from tests.rest import by_key, by_person, error_of

pytestmark = pytest.mark.django_db

GROUPS = "/api/groups/"
READS = "invocations.view_mcptoolinvocation"
RIGHTS = [f"auth.{deed}_group" for deed in ("view", "add", "change", "delete")]


def send(client: Any, method: str, where: str, **body: Any) -> Any:
    return getattr(client, method)(where, body, content_type="application/json")


def test_a_group_is_made_read_changed_and_removed() -> None:
    person = by_person(*RIGHTS, READS)
    made = send(person, "post", GROUPS, name="readers", permissions=[READS])
    assert (made.status_code, made.json()) == (201, {"name": "readers", "permissions": [READS], "people": 0})
    UserFactory().groups.add(Group.objects.get(name="readers"))
    assert person.get(f"{GROUPS}readers/").json()["people"] == 1
    assert {"readers", "Viewer"} <= {row["name"] for row in person.get(GROUPS).json()["results"]}
    changed = send(person, "patch", f"{GROUPS}readers/", name="eyes", permissions=[], reason="renamed")
    assert (changed.json()["name"], changed.json()["permissions"]) == ("eyes", [])
    assert "renamed" in AuditEvent.objects.values_list("reason", flat=True)
    assert person.delete(f"{GROUPS}eyes/").status_code == 204
    error_of(person.get(f"{GROUPS}eyes/"), 404, "not_found")


def test_nobody_gives_a_group_what_they_lack() -> None:
    GroupFactory(name="readers")
    person = by_person(*RIGHTS)
    said = error_of(send(person, "patch", f"{GROUPS}readers/", permissions=[READS]), 409, "conflict")
    assert READS in str(said["details"])
    error_of(send(person, "post", GROUPS, name="more", permissions=[READS]), 409, "conflict")
    assert not Group.objects.filter(name="more").exists()
    assert not Group.objects.get(name="readers").permissions.exists()


@pytest.mark.parametrize("code", ["invocations.no_such", "no_such", "", "a.b.c", 7, None, ["x"]])
def test_a_permission_that_is_none_is_named(code: Any) -> None:
    answer = send(by_person(*RIGHTS), "post", GROUPS, name="readers", permissions=[code])
    known = (409, "conflict") if isinstance(code, str) else (400, "invalid_params")
    said = error_of(answer, *known)
    assert "permissions" in said["details"]["fields"]


def test_a_group_that_something_is_reserved_to_stays() -> None:
    group = GroupFactory(name="readers")
    McpToolDefinitionFactory(name="ledger").groups.add(group)
    said = error_of(by_person(*RIGHTS).delete(f"{GROUPS}readers/"), 409, "conflict")
    assert "ledger" in said["message"]
    assert Group.objects.filter(name="readers").exists()


def test_no_key_and_nobody_without_the_permission_reads_or_changes_groups() -> None:
    GroupFactory(name="readers")
    error_of(by_key("people:write", "audit:read").get(GROUPS), 403, "forbidden")
    error_of(by_person().get(GROUPS), 403, "forbidden")
    error_of(send(by_person("auth.view_group"), "patch", f"{GROUPS}readers/", name="x"), 403, "forbidden")
