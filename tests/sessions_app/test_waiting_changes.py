"""What one person alone must not change: it waits, and a second person brings it into force."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.test import Client, RequestFactory
from django.utils import timezone

from mcphub.features.approvals.models import McpToolApproval
from sessions_app.history import deciding, guarding
from sessions_app.history.deciding import ConfirmationRefused
from sessions_app.history.reading import history_of
from sessions_app.history.source import ADMIN, edits_via
from sessions_app.models import ApiKey, AuditEvent, WaitingChange
from tests.factories import GroupFactory, McpToolDefinitionFactory, UserFactory
from tests.rest import by_key, by_person, by_token, error_of
from tools_catalog.bundles import bundle
from tools_catalog.models import McpConnection, McpToolDefinition, McpToolset

pytestmark = pytest.mark.django_db

TOOLS = "/api/tool-definitions/"
OTHER_ADDRESS = {"url": "https://api.example.org/other"}


def operator(name: str) -> Any:
    person = UserFactory(username=name, is_staff=True)
    person.groups.add(Group.objects.get(name="Operator"))
    return person


def editing(user: Any) -> Any:
    """Let the edits inside be those of a person at a page of the admin."""
    request = RequestFactory().get("/admin/")
    request.user = user
    return edits_via(ADMIN, request)


@pytest.fixture
def tool() -> McpToolDefinition:
    row: McpToolDefinition = McpToolDefinitionFactory(name="weather")
    return row


@pytest.fixture
def key() -> Client:
    return by_key("catalog:write", "tools:list", created_by=UserFactory())


def patch(client: Client, path: str = f"{TOOLS}weather/", **body: Any) -> Any:
    return client.patch(path, body, content_type="application/json")


def waiting() -> WaitingChange:
    change: WaitingChange = WaitingChange.objects.get(state="waiting")
    return change


# What is held back -----------------------------------------------------------------------------------------


def test_a_key_marks_no_tool_alone_and_the_rest_of_its_request_is_saved(key: Client, tool: McpToolDefinition) -> None:
    answer = patch(key, read_only=True, destructive=False, title="Weather", reason="it reads")
    assert answer.status_code == 202, answer.content
    body = answer.json()
    assert body["fields_held"] == ["read_only", "destructive"]
    assert "second person" in body["detail"]
    tool.refresh_from_db()
    assert (tool.read_only, tool.destructive, tool.title) == (False, True, "Weather")
    shown = key.get(f"/api/waiting-changes/{body['waiting_change']}/").json()
    assert shown["state"] == "waiting"
    assert shown["after"] == {"read_only": True, "destructive": False}
    assert "it reads" in shown["reason"]
    assert key.get("/api/waiting-changes/", {"state": "waiting"}).json()["results"] == [shown]


def test_a_tool_that_a_key_adds_begins_with_the_careful_marks(key: Client) -> None:
    new = {"name": "new", "description": "x", "input_schema": {"type": "object"}, "backend": "http"}
    new |= {"configuration": OTHER_ADDRESS, "read_only": True, "destructive": False}
    answer = key.post(TOOLS, new, content_type="application/json")
    assert answer.status_code == 202, answer.content
    row = McpToolDefinition.objects.get(name="new")
    assert (row.read_only, row.destructive) == (False, True)
    assert row.versions.get().definition["read_only"] is False


@pytest.mark.parametrize("given", [["ours"], []])
def test_who_may_see_a_tool_waits(key: Client, tool: McpToolDefinition, given: list[str]) -> None:
    GroupFactory(name="ours")
    tool.groups.add(GroupFactory(name="theirs"))
    answer = patch(key, groups=given)
    assert (answer.status_code, answer.json()["fields_held"]) == (202, ["groups"])
    assert [group.name for group in tool.groups.all()] == ["theirs"]


def test_groups_are_said_freely_by_who_adds_the_row(key: Client) -> None:
    GroupFactory(name="ours")
    answer = key.post("/api/toolsets/", {"slug": "few", "groups": ["ours"]}, content_type="application/json")
    assert answer.status_code == 201, answer.content
    assert [group.name for group in McpToolset.objects.get(slug="few").groups.all()] == ["ours"]
    answer = patch(key, "/api/toolsets/few/", groups=[])
    assert (answer.status_code, McpToolset.objects.get(slug="few").groups.count()) == (202, 1)


def test_no_key_trusts_a_connection_alone(key: Client) -> None:
    new = {"slug": "git", "transport": "streamable-http", "url": "https://mcp.example.org/mcp", "policy": "trust"}
    answer = key.post("/api/connections/", new, content_type="application/json")
    assert (answer.status_code, answer.json()["fields_held"]) == (202, ["policy"])
    assert McpConnection.objects.get(slug="git").policy == "hold_all"


@pytest.mark.parametrize("account", ["behalf", "exchange"])
def test_no_key_lets_the_hub_speak_for_people_alone(key: Client, account: str) -> None:
    """By the hub's word every caller is somebody at the issuer: to begin that, or to turn it elsewhere, takes two."""
    new = {"slug": "hr", "transport": "streamable-http", "url": "https://mcp.example.org/mcp", "account": account}
    new |= {"client_id": "hub", "client_secret": "hub-key"}
    answer = key.post("/api/connections/", new, content_type="application/json")
    assert (answer.status_code, answer.json()["fields_held"]) == (202, ["account"]), answer.content
    row = McpConnection.objects.get(slug="hr")
    assert (row.account, row.client_id) == ("none", "hub")
    deciding.confirm(waiting().pk, operator("second"), "it is ours")
    row.refresh_from_db()
    assert row.account == account
    moved = {"url": "https://other.example.org/mcp", "account_scopes": "admin", "title": "People"}
    moved["issuer"] = "https://other.example.org"
    held = ["url", "account_scopes", "issuer"]
    answer = patch(key, "/api/connections/hr/", **moved)
    assert (answer.status_code, answer.json()["fields_held"]) == (202, held), answer.content
    row.refresh_from_db()
    assert (row.url, row.account_scopes, row.title) == ("https://mcp.example.org/mcp", "", "People")
    # The careful value, and what is no word of the hub, is anybody's.
    assert patch(key, "/api/connections/hr/", account="personal").status_code == 200
    assert patch(key, "/api/connections/hr/", url="https://other.example.org/mcp").status_code == 200


def test_no_key_lets_the_hub_speak_for_people_to_an_api_alone(key: Client) -> None:
    new = {"slug": "hr", "url": "https://api.example.org", "account": "behalf", "issuer": "https://id.example.org"}
    new |= {"client_id": "hub", "client_secret": "hub-key"}
    answer = key.post("/api/services/", new, content_type="application/json")
    assert (answer.status_code, answer.json()["fields_held"]) == (202, ["account"]), answer.content
    deciding.confirm(waiting().pk, operator("second"), "it is ours")
    answer = patch(key, "/api/services/hr/", issuer="https://evil.example.org")
    assert (answer.status_code, answer.json()["fields_held"]) == (202, ["issuer"]), answer.content


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("keeps_serving", True),
        ("may_ask_secrets", True),
        ("may_sample", True),
        ("may_list_roots", True),
        ("extensions", ["com.example/search"]),
    ],
)
def test_no_key_lets_an_upstream_do_more_alone(key: Client, field: str, value: object) -> None:
    new = {"slug": "git", "transport": "streamable-http", "url": "https://mcp.example.org/mcp", field: value}
    answer = key.post("/api/connections/", new, content_type="application/json")
    assert (answer.status_code, answer.json()["fields_held"]) == (202, [field])
    assert not getattr(McpConnection.objects.get(slug="git"), field)


def test_the_careful_value_needs_nobody_else(key: Client, tool: McpToolDefinition) -> None:
    McpToolDefinition.objects.filter(pk=tool.pk).update(read_only=True, destructive=False)
    assert patch(key, read_only=False, destructive=True).status_code == 200
    assert not WaitingChange.objects.exists()


def test_a_mark_falls_where_what_it_was_judged_by_changes(key: Client, tool: McpToolDefinition) -> None:
    McpToolDefinition.objects.filter(pk=tool.pk).update(read_only=True, destructive=False)
    assert patch(key, configuration=OTHER_ADDRESS).status_code == 202
    tool.refresh_from_db()
    assert (tool.read_only, tool.destructive, tool.configuration) == (False, True, OTHER_ADDRESS)
    assert waiting().after == {"read_only": True, "destructive": False}


def test_a_superuser_and_the_machine_need_nobody_else(tool: McpToolDefinition) -> None:
    client = by_person(is_superuser=True)
    assert patch(client, read_only=True, destructive=False).status_code == 200
    tool.refresh_from_db()
    assert tool.read_only
    tool.read_only = False
    tool.save()
    assert not WaitingChange.objects.exists()


def test_neither_a_bundle_nor_an_old_version_gets_past(tool: McpToolDefinition) -> None:
    tool.read_only, tool.destructive = True, False
    tool.save()
    marked = tool.versions.first()
    tool.read_only = False
    tool.save()
    document = bundle.dump()
    document["tools"][0]["read_only"] = True
    with editing(operator("olga")):
        tool.restore(marked)
        assert bundle.load(document, reason="bundle", overwrite=True).changed == ["weather"]
    tool.refresh_from_db()
    assert tool.read_only is False
    assert [change.after["read_only"] for change in WaitingChange.objects.all()] == [True, True]


def test_the_policy_of_approvals_begins_strict(tool: McpToolDefinition) -> None:
    with editing(operator("olga")):
        McpToolApproval.objects.create(tool=tool, policy="never")
    assert McpToolApproval.objects.get().policy == "always"
    assert waiting().after == {"policy": "never"}


def test_links_that_are_set_past_the_row_are_refused(tool: McpToolDefinition) -> None:
    group = GroupFactory(name="theirs")
    with editing(operator("olga")), pytest.raises(PermissionDenied):
        McpToolDefinition.objects.get(pk=tool.pk).groups.add(group)


def test_a_later_change_of_the_same_row_replaces_what_waits(key: Client, tool: McpToolDefinition) -> None:
    patch(key, destructive=False)
    patch(key, read_only=True, destructive=False)
    assert [change.state for change in WaitingChange.objects.order_by("id")] == ["replaced", "waiting"]


def test_the_oldest_changes_of_one_proposer_expire_beyond_a_bound(key: Client, tool: McpToolDefinition) -> None:
    patch(key, destructive=False)
    one = waiting()
    one.subject_id = "0"
    WaitingChange.objects.bulk_create(
        WaitingChange(**{**{field.name: getattr(one, field.name) for field in one._meta.fields}, "id": None})
        for _ in range(guarding.MOST_WAITING)
    )
    patch(key, read_only=True, destructive=False)
    still = WaitingChange.objects.filter(state="waiting", expires_at__gt=timezone.now())
    assert still.count() == guarding.MOST_WAITING


# The second person -----------------------------------------------------------------------------------------


def test_another_person_brings_it_into_force_and_both_are_on_record(tool: McpToolDefinition) -> None:
    olga, oleg = operator("olga"), operator("oleg")
    with editing(olga):
        tool.read_only, tool.destructive, tool.change_reason = True, False, "it reads"
        tool.save()
    with editing(oleg):
        deciding.confirm(waiting().pk, oleg, "seen")
    tool.refresh_from_db()
    assert (tool.read_only, tool.destructive) == (True, False)
    newest = history_of(tool).first()
    assert newest is not None
    assert (newest.actor_label, newest.after["read_only"]) == ("oleg", True)
    assert "Proposed by olga, confirmed by oleg" in newest.reason
    kinds = AuditEvent.objects.filter(kind__startswith="waitingchange.").order_by("id")
    assert list(kinds.values_list("kind", "actor_label")) == [
        ("waitingchange.proposed", "olga"),
        ("waitingchange.confirmed", "oleg"),
    ]


def test_groups_come_into_force_by_a_second_person(tool: McpToolDefinition) -> None:
    tool.groups.add(GroupFactory(name="theirs"))
    GroupFactory(name="ours")
    patch(by_key("catalog:write", created_by=UserFactory()), groups=["ours"])
    deciding.confirm(waiting().pk, operator("oleg"), "")
    assert [group.name for group in tool.groups.all()] == ["ours"]


def test_nobody_confirms_his_own_change_nor_that_of_his_own_key(tool: McpToolDefinition) -> None:
    olga = operator("olga")
    _key, token = ApiKey.issue("robot", scopes=["catalog:write"], created_by=olga)
    patch(by_token(token), destructive=False)
    with pytest.raises(ConfirmationRefused, match="Another person"):
        deciding.confirm(waiting().pk, olga, "")
    deciding.reject(waiting().pk, olga, "thought better of it")
    tool.refresh_from_db()
    assert tool.destructive is True


def test_who_may_not_change_the_row_does_not_decide(tool: McpToolDefinition) -> None:
    patch(by_key("catalog:write", created_by=UserFactory()), destructive=False)
    viewer = UserFactory(is_staff=True)
    viewer.groups.add(Group.objects.get(name="Viewer"))
    for decide in (deciding.confirm, deciding.reject):
        with pytest.raises(ConfirmationRefused, match="permission"):
            decide(waiting().pk, viewer, "")


def test_a_row_that_changed_meanwhile_is_looked_at_anew(tool: McpToolDefinition) -> None:
    patch(by_key("catalog:write", created_by=UserFactory()), destructive=False)
    tool.refresh_from_db()
    tool.configuration = OTHER_ADDRESS
    tool.save()
    with pytest.raises(ConfirmationRefused, match="has changed since"):
        deciding.confirm(waiting().pk, operator("oleg"), "")


def test_what_nobody_decided_within_its_time_is_over(key: Client, tool: McpToolDefinition) -> None:
    number = patch(key, destructive=False).json()["waiting_change"]
    WaitingChange.objects.update(expires_at=timezone.now())
    with pytest.raises(ConfirmationRefused, match="no longer"):
        deciding.confirm(number, operator("oleg"), "")
    assert key.get(f"/api/waiting-changes/{number}/").json()["state"] == "expired"
    assert key.get("/api/waiting-changes/", {"state": "expired"}).json()["results"]


def test_changes_are_decided_by_people_only(key: Client, tool: McpToolDefinition) -> None:
    number = patch(key, destructive=False).json()["waiting_change"]
    error_of(patch(key, f"/api/waiting-changes/{number}/", state="confirmed"), 405, "method_not_allowed")
    error_of(by_key("tools:list").get("/api/waiting-changes/"), 403, "forbidden")
