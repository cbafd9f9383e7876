"""No edit of what stands behind a connection or guardrail evades a policy alone: launch profiles, asked services."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from mcphub.features.guardrails.models import McpGuardrail
from sessions_app.history import deciding
from sessions_app.history.models import WaitingChange
from tests.factories import HttpServiceFactory, LaunchProfileFactory, McpConnectionFactory, UserFactory
from tests.rest import by_key, by_person, error_of
from tests.sessions_app.test_waiting_changes import editing, operator
from tests.tools_catalog.policy.test_reach import POLICIES, a_rule
from tests.tools_catalog.proposals import definition, offer
from tools_catalog.bundles import bundle
from tools_catalog.models import LaunchProfile, McpConnection

pytestmark = pytest.mark.django_db

PROFILES, SERVICES = "/api/launch-profiles/", "/api/services/"
EDITS: dict[str, Any] = {
    "command": "mcp-server-else",
    "arguments": ["--account", "else"],
    "environment": {"API": "https://else.example.org"},
    "directory": "/srv/else",
}


def manager(name: str) -> Any:
    person = UserFactory(username=name, is_staff=True)
    person.groups.add(Group.objects.get(name="Upstream manager"))
    return person


def logged_in(person: Any) -> Client:
    client = Client()
    client.force_login(person)
    return client


def child(slug: str, **profile: Any) -> McpConnection:
    """Return a connection that runs a program, with the tool `pay`."""
    row = LaunchProfileFactory(name=slug, **profile)
    trusted = {"policy": "trust", "prefix": f"{slug}_"}
    connection: McpConnection = McpConnectionFactory(slug=slug, transport="stdio", url="", profile=row, **trusted)
    offer(connection, definition("pay"))
    return connection


def by_rest(change: dict[str, Any]) -> None:
    answer = logged_in(manager("mina")).patch(f"{PROFILES}bank/", change, content_type="application/json")
    assert (answer.status_code, answer.json()["fields_held"]) == (202, list(change)), answer.content
    assert " p" in answer.json()["detail"].rpartition(":")[2]


def by_bundle(change: dict[str, Any]) -> None:
    document = bundle.dump(with_programs=True)
    (entry,) = (each for each in document["profiles"] if each["name"] == "bank")
    entry |= change
    with editing(manager("mina")):
        assert not bundle.load(document, reason="b", overwrite=True, with_programs=True).refused


def by_console(change: dict[str, Any]) -> None:
    client = logged_in(manager("mina"))
    page = reverse("admin:tools_catalog_launchprofile_change", args=[LaunchProfile.objects.get(name="bank").pk])
    form = client.get(page).context["adminform"].form
    values = {name: form[name].value() for name in form.fields}
    values |= {name: form[name].field.prepare_value(value) for name, value in change.items()}
    answer = client.post(page, {name: value for name, value in values.items() if value is not None})
    assert answer.status_code == 302, answer.context["errors"]


DOORS = {"rest": by_rest, "bundle": by_bundle, "console": by_console}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("field", EDITS)
def test_what_the_connection_of_a_covered_tool_runs_is_changed_by_two(field: str, door: str) -> None:
    child("bank")
    a_rule(("connection", "bank"))
    before = getattr(LaunchProfile.objects.get(), field)
    DOORS[door]({field: EDITS[field]})
    assert getattr(LaunchProfile.objects.get(), field) == before
    change = WaitingChange.objects.get()
    assert (list(change.after), "call rule p" in change.reason) == ([field], True)
    second = manager("otto")
    with editing(second):
        deciding.confirm(change.pk, second, "seen")
    assert getattr(LaunchProfile.objects.get(), field) == EDITS[field]


@pytest.mark.parametrize("kind", POLICIES)
def test_a_profile_does_not_get_the_program_of_a_covered_tool_alone(kind: str) -> None:
    child("bank", command="bank-server", arguments=["--live"])
    child("shop", command="shop-server")
    POLICIES[kind](("connection", "bank"))
    change = {"command": "bank-server", "arguments": ["--live"]}
    client = logged_in(manager("mina"))
    answer = client.patch(f"{PROFILES}shop/", change, content_type="application/json")
    assert (answer.status_code, answer.json().get("fields_held")) == (202, ["command", "arguments"]), answer.content
    answer = client.patch(f"{PROFILES}shop/", {"command": "fair-server"}, content_type="application/json")
    assert answer.status_code == 200, answer.content


def test_other_edits_of_a_profile_and_those_of_profiles_without_covered_tools_wait_for_nobody() -> None:
    child("bank")
    LaunchProfileFactory(name="spare")
    client = logged_in(manager("mina"))
    assert client.patch(f"{PROFILES}bank/", EDITS, content_type="application/json").status_code == 200
    a_rule(("connection", "bank"))
    for name, change in (("spare", EDITS), ("bank", {"memory_mb": 64, "network": "open"})):
        answer = client.patch(f"{PROFILES}{name}/", change, content_type="application/json")
        assert answer.status_code == 200, answer.content


def test_what_a_profile_would_run_is_shown_whole_and_to_nobody_who_may_not_view_it() -> None:
    child("bank")
    a_rule(("connection", "bank"))
    argument = f"{'x' * 600}-end"
    client = logged_in(manager("mina"))
    client.patch(f"{PROFILES}bank/", {"arguments": [argument]}, content_type="application/json")
    change = WaitingChange.objects.get()
    pages = [
        reverse("admin:sessions_app_waitingchange_change", args=[change.pk]),
        f"/admin/sessions_app/waitingchange/{change.pk}/confirm/",
    ]
    second, stranger = logged_in(manager("otto")), logged_in(operator("olga"))
    for page in pages:
        shown = second.get(page)
        assert (shown.status_code, argument in shown.content.decode()) == (200, True)
        assert argument not in stranger.get(page, follow=True).content.decode()
    path = f"/api/waiting-changes/{change.pk}/"
    assert second.get(path).json()["after"] == {"arguments": [argument]}
    for other in (stranger, by_key("catalog:write")):
        error_of(other.get(path), 404, "not_found")
        assert other.get("/api/waiting-changes/").json()["results"] == []


# Services that answer for guardrails -----------------------------------------------------------------


def guarded_by(on_failure: str, **more: Any) -> None:
    HttpServiceFactory(slug="judge", url="https://judge.example.org", headers={"X-Mode": "strict"})
    row = {"checked_by": "service", "service": "judge", "path": "/look", "action": "refuse"}
    McpGuardrail.objects.create(name="p", on_failure=on_failure, **row, **more)


@pytest.mark.parametrize(
    ("change", "on_failure", "more", "is_held"),
    [
        ({"url": "https://yes.example.org"}, "closed", {}, True),
        ({"url": "https://yes.example.org"}, "closed", {"watching": True}, True),
        ({"url": "https://yes.example.org"}, "closed", {"enabled": False}, False),
        ({"url": "https://judge.example.org/"}, "open", {}, False),
        ({"headers": {"X-Mode": "lax"}}, "closed", {}, True),
        ({"headers": {"X-Mode": "lax"}}, "closed", {"watching": True}, False),
        ({"enabled": False}, "open", {}, True),
        ({"enabled": False}, "closed", {}, False),
        ({"title": "Judge"}, "open", {}, False),
    ],
)
def test_a_service_that_a_guardrail_asks_is_changed_by_two(
    change: dict[str, Any], on_failure: str, more: dict[str, Any], is_held: bool
) -> None:
    guarded_by(on_failure, **more)
    answer = by_key("catalog:write").patch(f"{SERVICES}judge/", change, content_type="application/json")
    assert answer.status_code == (202 if is_held else 200), answer.content
    if is_held:
        assert answer.json()["fields_held"] == list(change)
        assert "guardrail p" in answer.json()["detail"]


def test_a_service_that_a_guardrail_asks_is_switched_on_again_by_one() -> None:
    guarded_by("open")
    root = by_person(is_superuser=True)
    assert root.patch(f"{SERVICES}judge/", {"enabled": False}, content_type="application/json").status_code == 200
    again = by_key("catalog:write").patch(f"{SERVICES}judge/", {"enabled": True}, content_type="application/json")
    assert again.status_code == 200, again.content
