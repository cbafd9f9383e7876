"""No edit of the catalogue takes a tool from under a policy in force alone: by kind of edit, of policy and of door."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.urls import reverse

from mcphub.features.approvals.models import McpToolApproval
from mcphub.features.call_rules.models import McpPolicyRule
from mcphub.features.call_rules.rule import ToolPolicy
from mcphub.features.guardrails.guardrail import ToolGuardrails
from mcphub.features.guardrails.models import McpGuardrail
from mcphub.features.quotas.load import load_quotas
from mcphub.features.quotas.models import McpQuota
from sessions_app.history import deciding
from sessions_app.history.models import WaitingChange
from sessions_app.workspaces.models import McpWorkspace
from sessions_app.workspaces.scope import Scope, acting_in
from tests.factories import (
    HttpServiceFactory,
    McpConnectionFactory,
    McpToolDefinitionFactory,
    McpToolsetFactory,
    UserFactory,
)
from tests.rest import by_key, by_person, error_of
from tests.sessions_app.test_waiting_changes import editing, operator
from tests.tools_catalog.proposals import definition, offer
from tools_catalog.bundles import bundle
from tools_catalog.catalog.snapshot import Catalog, Tool
from tools_catalog.discovery import reconcile
from tools_catalog.kinds.registry import KINDS
from tools_catalog.models import McpAlias, McpToolDefinition, McpToolset, reach

pytestmark = pytest.mark.django_db

TOOLS, TOOLSETS = "/api/tool-definitions/", "/api/toolsets/"
PAY = {"method": "POST", "url": "https://bank.example.org/pay/{to}"}
SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}, "path": {"type": "string"}}, "required": ["to"]}


def a_bundle(*tools: dict[str, Any]) -> dict[str, Any]:
    return {**{kind: [] for kind in bundle.dump()}, "format": "mcphub-bundle/1", "tools": list(tools)}


def a_rule(scope: tuple[str, str], **more: Any) -> object:
    return McpPolicyRule.objects.create(name="p", applies_to=scope[0], target=scope[1], **more)


def a_guardrail(scope: tuple[str, str]) -> object:
    row = {"detectors": "email", "action": "refuse"}
    return McpGuardrail.objects.create(name="p", applies_to=scope[0], target=scope[1], **row)


def a_quota(scope: tuple[str, str]) -> object:
    return McpQuota.objects.create(name="p", applies_to=scope[0], target=scope[1], hard_limit=5)


POLICIES: dict[str, Callable[[tuple[str, str]], object]] = {"rule": a_rule, "guardrail": a_guardrail, "quota": a_quota}


def covers(name: str) -> bool:
    """Return whether calls by the name are judged by the policy, whichever kind it is."""
    catalog = Catalog.load()
    tool: Tool = catalog.tools[catalog.real_name(name)]
    policy = tool.checks.get("call_rules")
    rules = [rule.name for rule in policy.rules] if isinstance(policy, ToolPolicy) else []
    found = tool.checks.get("guardrails")
    guardrails = [each.name for each in found.arguments] if isinstance(found, ToolGuardrails) else []
    return "p" in [*rules, *guardrails, *(quota.name for quota in load_quotas(catalog).of_tool(tool))]


@dataclass(frozen=True)
class Edit:
    """One way out from under a policy with this scope."""

    scope: tuple[str, str]
    fields: dict[str, Any] = field(default_factory=dict)
    """Of the tool, as REST and bundles name them; under `meta` as the form has it, too."""
    toolset: dict[str, Any] = field(default_factory=dict)
    held: str = ""


EDITS = {
    "another name": Edit(("tool", "pay"), {"name": "disburse"}, held="name"),
    "a name outside of the pattern": Edit(("tool", "p*"), {"name": "disburse"}, held="name"),
    "no tag": Edit(("tag", "money"), {"meta": {}}, held="meta"),
    "another tag": Edit(("tag", "money"), {"meta": {"tags": ["fun"]}}, held="meta"),
    "another annotation": Edit(("annotation", "openWorldHint"), {"open_world": False}, held="open_world"),
    "a careful annotation": Edit(("annotation", "idempotentHint=false"), {"idempotent": True}, held="idempotent"),
    "a choice less": Edit(("toolset", "till"), toolset={"tools": ["other"]}, held="tools"),
    "a pattern less": Edit(("toolset", "desk"), toolset={"patterns": "other*"}, held="patterns"),
    "a toolset off": Edit(("toolset", "till"), toolset={"enabled": False}, held="enabled"),
    "a name outside of a toolset": Edit(("toolset", "desk"), {"name": "disburse"}, held="name"),
}


def by_rest(edit: Edit) -> list[str]:
    client = by_key("catalog:write", "tools:list")
    path = f"{TOOLSETS}{edit.scope[1]}/" if edit.toolset else f"{TOOLS}pay/"
    answer = client.patch(path, edit.toolset or edit.fields, content_type="application/json")
    assert answer.status_code == 202, answer.content
    assert " p" in answer.json()["detail"].rpartition(":")[2]
    return list(answer.json()["fields_held"])


def by_bundle(edit: Edit) -> list[str]:
    document = bundle.dump()
    if edit.toolset:
        (entry,) = (each for each in document["toolsets"] if each["slug"] == edit.scope[1])
        entry |= edit.toolset
    else:
        (entry,) = (each for each in document["tools"] if each["name"] == "pay")
        entry |= {{"meta": "_meta"}.get(name, name): value for name, value in edit.fields.items()}
    with editing(operator("olga")):
        report = bundle.load(document, reason="bundle", overwrite=True)
    assert not report.refused
    return list(WaitingChange.objects.get().after)


def by_console(edit: Edit) -> list[str]:
    client = Client()
    client.force_login(operator("olga"))
    if edit.toolset:
        row: Any = McpToolset.objects.get(slug=edit.scope[1])
        names = edit.toolset.get("tools", [tool.name for tool in row.tools.all()])
        data: dict[str, Any] = {
            "mode": "list",
            "reads": "all",
            "tools": [McpToolDefinition.objects.get(name=name).pk for name in names],
            "patterns": edit.toolset.get("patterns", row.patterns),
            **({"enabled": "on"} if edit.toolset.get("enabled", True) else {}),
        }
    else:
        row = McpToolDefinition.objects.get(name="pay")
        wanted = {name: edit.fields.get(name, getattr(row, name)) for name in FORM}
        data = {name: json.dumps(value) if isinstance(value, dict) else value for name, value in wanted.items()}
        marks = {name: edit.fields.get(name, getattr(row, name)) for name in MARKS}
        data |= {"function": "", "change_reason": ""} | {name: "on" for name, value in marks.items() if value}
    page = reverse(f"admin:tools_catalog_{row._meta.model_name}_change", args=[row.pk])
    answer = client.post(page, data)
    assert answer.status_code == 302, answer.context["errors"]
    return list(WaitingChange.objects.get().after)


FORM = (
    *("name", "title", "description", "input_schema", "output_schema", "backend", "configuration"),
    *("timeout_seconds", "meta", "task_support", "requirements"),
)
MARKS = ("enabled", "read_only", "destructive", "idempotent", "open_world", "retry_safe")
DOORS: dict[str, Callable[[Edit], list[str]]] = {"rest": by_rest, "bundle": by_bundle, "console": by_console}

BY_DOOR = [(what, door) for what in EDITS for door in DOORS if door != "bundle" or "name" not in EDITS[what].fields]
"""A bundle knows tools by their names: another name is another tool."""


@pytest.fixture
def catalogue() -> None:
    McpToolDefinitionFactory(name="pay", input_schema=SCHEMA, configuration=PAY, meta={"tags": ["money"]})
    McpToolDefinitionFactory(name="other")
    McpToolsetFactory(slug="till").tools.set(McpToolDefinition.objects.filter(name="pay"))
    McpToolsetFactory(slug="desk", patterns="pa?")


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize(("what", "door"), BY_DOOR)
def test_an_edit_that_takes_a_tool_out_of_reach_waits(catalogue: None, what: str, kind: str, door: str) -> None:
    edit = EDITS[what]
    POLICIES[kind](edit.scope)
    assert covers("pay")
    assert DOORS[door](edit) == [edit.held]
    assert covers("pay")
    change = WaitingChange.objects.get()
    assert f"{kind if kind != 'rule' else 'call rule'} p" in change.reason
    second = UserFactory(username="second", is_superuser=True)
    with editing(second):
        deciding.confirm(change.pk, second, "seen")
    McpAlias.objects.all().delete()
    assert not covers(edit.fields.get("name", "pay"))


def test_a_superuser_and_the_machine_need_nobody_else(catalogue: None) -> None:
    a_rule(("tag", "money"))
    answer = by_person(is_superuser=True).patch(f"{TOOLS}pay/", {"meta": {}}, content_type="application/json")
    assert answer.status_code == 200
    assert not covers("pay")


HARMLESS: dict[str, tuple[tuple[str, str], dict[str, Any]]] = {
    "another name within the pattern": (("tool", "p*"), {"name": "payout"}),
    "a tag more": (("tag", "money"), {"meta": {"tags": ["money", "fun"]}}),
    "words": (("tool", "pay"), {"description": "Pays."}),
    "a rule that covers another": (("tool", "other"), {"name": "disburse", "meta": {}}),
}


@pytest.mark.parametrize("what", HARMLESS)
def test_what_stays_in_reach_waits_for_nobody(catalogue: None, what: str) -> None:
    scope, fields = HARMLESS[what]
    a_rule(scope)
    answer = by_key("catalog:write").patch(f"{TOOLS}pay/", fields, content_type="application/json")
    assert answer.status_code == 200, answer.content


@pytest.mark.parametrize("state", [{"enabled": False}, {"watching": True}, {"valid_until": "2020-01-01T00:00:00Z"}])
def test_a_rule_that_is_not_in_force_holds_nothing_back(catalogue: None, state: dict[str, Any]) -> None:
    a_rule(("tag", "money"), **state)
    answer = by_key("catalog:write").patch(f"{TOOLS}pay/", {"meta": {}}, content_type="application/json")
    assert answer.status_code == 200, answer.content


@pytest.mark.parametrize(
    ("condition", "fields"),
    [
        ('tool.name == "pay"', {"name": "disburse"}),
        ('"money" in tool.tags', {"meta": {}}),
        ("tool.annotations.openWorldHint", {"open_world": False}),
        ('tool["name"].startsWith("pay")', {"name": "disburse"}),
    ],
)
def test_what_a_condition_reads_of_the_tool_is_its_reach_too(
    catalogue: None, condition: str, fields: dict[str, Any]
) -> None:
    a_rule(("all", ""), condition=condition)
    answer = by_key("catalog:write").patch(f"{TOOLS}pay/", fields, content_type="application/json")
    assert (answer.status_code, answer.json()["fields_held"]) == (202, list(fields))


def test_a_tool_gets_no_further_allow_alone(catalogue: None) -> None:
    a_rule(("tool", "pay"), effect="allow", condition="args.n > 1")
    McpPolicyRule.objects.create(name="open", applies_to="tag", target="fun", effect="allow")
    answer = by_key("catalog:write").patch(
        f"{TOOLS}pay/", {"meta": {"tags": ["money", "fun"]}}, content_type="application/json"
    )
    assert answer.json()["fields_held"] == ["meta"]


def test_no_way_puts_a_tool_alone_into_a_toolset_that_an_allow_names(catalogue: None) -> None:
    a_rule(("tool", "pay"), effect="allow", condition="args.n > 1")
    McpPolicyRule.objects.create(name="open", applies_to="toolset", target="desk-open", effect="allow")
    toolset = McpToolsetFactory(slug="desk-open")
    client = Client()
    client.force_login(operator("olga"))
    body = {
        "action": "add_to_toolset",
        "_selected_action": list(McpToolDefinition.objects.values_list("pk", flat=True)),
        "toolset": toolset.pk,
        "reason": "tidy",
        "confirmed": "yes",
    }
    assert client.post(reverse("admin:tools_catalog_mcptooldefinition_changelist"), body).status_code in (200, 302)
    assert McpToolset.objects.get(slug="desk-open").names() == ["other"]
    assert list(WaitingChange.objects.get().after) == ["tools"]
    with editing(operator("otto")), pytest.raises(PermissionDenied):
        McpToolset.objects.get(slug="desk-open").tools.add(*McpToolDefinition.objects.filter(name="pay"))


# Former names --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", POLICIES)
def test_a_policy_on_a_former_name_covers_the_tool_under_both(catalogue: None, kind: str) -> None:
    row = McpToolDefinition.objects.get(name="pay")
    row.name = "disburse"
    row.save()
    POLICIES[kind](("tool", "pay"))
    assert covers("pay")
    assert covers("disburse")
    answer = by_key("catalog:write").patch(f"{TOOLS}disburse/", {"aliases": []}, content_type="application/json")
    error_of(answer, 409, "conflict")
    document = a_bundle({**bundle.dump()["tools"][0], "name": "pay"})
    with editing(operator("olga")):
        assert "former name" in str(bundle.load(document, reason="b").refused)
    assert covers("disburse")


@pytest.mark.parametrize("kind", POLICIES)
def test_a_policy_follows_the_prefix_of_its_connection(kind: str) -> None:
    connection = McpConnectionFactory(slug="bank", policy="trust", prefix="bank_")
    offer(connection, definition("pay"))
    POLICIES[kind](("tool", "bank_p*"))
    with editing(operator("olga")):
        connection.prefix = "till_"
        connection.full_clean()
        connection.save()
    McpAlias.objects.all().delete()
    assert covers("till_pay")
    assert not WaitingChange.objects.exists()


# Copies ----------------------------------------------------------------------------------------------

COPIES: dict[str, dict[str, Any]] = {
    "the same": PAY,
    "another query": {**PAY, "query": {"a": "1"}},
    "another body": {**PAY, "body": {"to": "{to}"}},
    "a literal in place of an argument": {**PAY, "url": "https://bank.example.org/pay/me"},
    "an argument in place of a literal": {**PAY, "url": "https://bank.example.org/{path}/{to}"},
    "arguments for the whole path": {**PAY, "url": "https://bank.example.org/{+path}"},
    "slashes": {**PAY, "url": "https://bank.example.org//pay//{to}"},
    "an escape": {**PAY, "url": "https://bank.example.org/%70ay/{to}"},
    "the port": {**PAY, "url": "https://bank.example.org:443/pay/{to}"},
    "by its service": {"service": "bank", "method": "POST", "url": "/pay/{to}"},
}
NO_COPIES: dict[str, dict[str, Any]] = {
    "another host": {**PAY, "url": "https://shop.example.org/pay/{to}"},
    "another path": {**PAY, "url": "https://bank.example.org/balance/{to}"},
    "another method": {**PAY, "method": "GET"},
}


def entry(**configuration: Any) -> dict[str, Any]:
    row = {"name": "copy", "description": "Copies.", "input_schema": SCHEMA, "backend": "http"}
    return {**row, "configuration": configuration}


def demands(_scope: tuple[str, str]) -> None:
    McpToolApproval.objects.create(tool=McpToolDefinition.objects.get(name="pay"), policy="always")


@pytest.mark.parametrize("kind", [*POLICIES, "approval policy"])
@pytest.mark.parametrize("what", COPIES)
def test_a_copy_of_a_covered_tool_is_switched_on_by_two(catalogue: None, what: str, kind: str) -> None:
    HttpServiceFactory(slug="bank", url="https://bank.example.org")
    {**POLICIES, "approval policy": demands}[kind](("tool", "pay"))
    client = by_key("catalog:write")
    answer = client.post(TOOLS, entry(**COPIES[what]), content_type="application/json")
    assert (answer.status_code, answer.json().get("fields_held")) == (202, ["enabled"]), answer.content
    again = client.patch(f"{TOOLS}copy/", {"enabled": True}, content_type="application/json")
    assert again.json()["fields_held"] == ["enabled"]
    assert not McpToolDefinition.objects.get(name="copy").enabled


@pytest.mark.parametrize("what", NO_COPIES)
def test_a_tool_that_does_something_else_waits_for_nobody(catalogue: None, what: str) -> None:
    a_rule(("tool", "pay"))
    answer = by_key("catalog:write").post(TOOLS, entry(**NO_COPIES[what]), content_type="application/json")
    assert answer.status_code == 201, answer.content


def test_a_copy_that_the_policy_covers_too_waits_for_nobody(catalogue: None) -> None:
    a_rule(("tag", "money"))
    tagged = {**entry(**PAY), "meta": {"tags": ["money"]}}
    assert by_key("catalog:write").post(TOOLS, tagged, content_type="application/json").status_code == 201


@pytest.mark.parametrize("door", ["rest", "bundle"])
def test_a_tool_does_not_become_a_copy_alone(catalogue: None, door: str) -> None:
    a_rule(("tool", "pay"))
    change = {"input_schema": SCHEMA, "configuration": PAY}
    if door == "rest":
        by_key("catalog:write").patch(f"{TOOLS}other/", change, content_type="application/json")
    else:
        document = bundle.dump()
        document["tools"][0] |= {"inputSchema": SCHEMA, "configuration": PAY}
        with editing(operator("olga")):
            bundle.load(document, reason="b", overwrite=True)
    assert McpToolDefinition.objects.get(name="other").configuration != PAY
    assert list(WaitingChange.objects.get().after) == ["configuration"]


def test_a_copy_in_a_bundle_is_switched_on_by_two(catalogue: None) -> None:
    a_rule(("tool", "pay"))
    document = a_bundle({**bundle.dump()["tools"][1], "name": "copy"})
    with editing(operator("olga")):
        assert bundle.load(document, reason="b").created == ["copy"]
    assert not McpToolDefinition.objects.get(name="copy").enabled


# Places ----------------------------------------------------------------------------------------------

OWN = {"service": "shop", "method": "POST", "url": "/pay/{to}"}


def move(path: str, url: str) -> Any:
    return by_key("catalog:write").patch(path, {"url": url}, content_type="application/json")


@pytest.mark.parametrize("kind", [*POLICIES, "approval policy"])
def test_a_service_does_not_move_to_where_a_covered_tool_calls(catalogue: None, kind: str) -> None:
    shop = HttpServiceFactory(slug="shop", url="https://shop.example.org")
    McpToolDefinitionFactory(name="copy", input_schema=SCHEMA, configuration=OWN)
    {**POLICIES, "approval policy": demands}[kind](("tool", "pay"))
    answer = move("/api/services/shop/", "https://bank.example.org/")
    assert (answer.status_code, answer.json().get("fields_held")) == (202, ["url"]), answer.content
    shop.refresh_from_db()
    assert shop.url == "https://shop.example.org"
    second = UserFactory(username="second", is_superuser=True)
    with editing(second):
        deciding.confirm(WaitingChange.objects.get().pk, second, "seen")
    shop.refresh_from_db()
    assert shop.url == "https://bank.example.org/"


def test_a_service_of_a_covered_tool_does_not_move_away_alone(catalogue: None) -> None:
    """Another tool could do then, at the former address, what the covered one did."""
    HttpServiceFactory(slug="shop", url="https://shop.example.org")
    McpToolDefinitionFactory(name="own", input_schema=SCHEMA, configuration=OWN)
    a_rule(("tool", "own"))
    assert move("/api/services/shop/", "https://else.example.org").status_code == 202
    assert move("/api/services/shop/", "https://shop.example.org/").status_code == 200


@pytest.mark.parametrize("url", ["https://else.example.org", "https://bank.example.org/v2"])
def test_a_service_moves_where_no_policy_loses_a_tool(catalogue: None, url: str) -> None:
    HttpServiceFactory(slug="shop", url="https://shop.example.org")
    McpToolDefinitionFactory(name="own", input_schema=SCHEMA, configuration=OWN)
    a_rule(("tool", "pay"))
    McpPolicyRule.objects.create(name="all", applies_to="all", condition="args.to == 'me'")
    assert move("/api/services/shop/", url).status_code == 200


def test_a_covered_tool_does_not_leave_behind_alone_what_it_does(catalogue: None) -> None:
    a_rule(("tool", "pay"))
    client = by_key("catalog:write")
    body = {"configuration": {**PAY, "query": {"a": "1"}}}
    assert client.patch(f"{TOOLS}pay/", body, content_type="application/json").status_code == 200
    body = {"configuration": {**PAY, "url": "https://bank.example.org/noop/{to}"}}
    answer = client.patch(f"{TOOLS}pay/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["fields_held"]) == (202, ["configuration"])


@pytest.mark.parametrize("kind", POLICIES)
def test_a_connection_does_not_move_to_the_server_of_a_covered_tool(kind: str) -> None:
    bank = McpConnectionFactory(slug="bank", url="https://bank.example.org/mcp", policy="trust", prefix="bank_")
    offer(bank, definition("pay"))
    shop = McpConnectionFactory(slug="shop", url="https://shop.example.org/mcp", policy="trust", prefix="shop_")
    offer(shop, definition("pay"))
    POLICIES[kind](("connection", "bank"))
    for row, url in ((shop, "https://bank.example.org/sse"), (bank, "https://else.example.org/mcp")):
        with editing(operator("olga" if row is shop else "oleg")):
            row.url = url
            row.full_clean()
            row.save()
        assert list(row.waiting_change.after) == ["url"]
    with editing(operator("otto")):
        shop.url = "https://fair.example.org/mcp"
        shop.save()
    shop.refresh_from_db()
    assert shop.url == "https://fair.example.org/mcp"


def test_a_second_connection_to_the_server_of_a_covered_tool_gets_no_copy_by_one_person() -> None:
    bank = McpConnectionFactory(slug="bank", url="https://bank.example.org/mcp", policy="trust", prefix="bank_")
    offer(bank, definition("pay"))
    a_rule(("connection", "bank"))
    again = McpConnectionFactory(slug="again", url="https://bank.example.org/sse", policy="hold_all", prefix="a_")
    row = offer(again, definition("pay"))["pay"]
    with editing(operator("olga")), pytest.raises(reconcile.ApprovalRefused, match="call rule p"):
        reconcile.approve(row, author=None)


# Toolsets, workspaces, upstreams ---------------------------------------------------------------------


def test_a_toolset_that_a_policy_names_is_removed_by_a_superuser(catalogue: None) -> None:
    a_rule(("toolset", "till"))
    error_of(by_key("catalog:write").delete(f"{TOOLSETS}till/"), 409, "conflict")
    client = Client()
    client.force_login(operator("olga"))
    page = reverse("admin:tools_catalog_mcptoolset_delete", args=[McpToolset.objects.get(slug="till").pk])
    assert client.post(page, {"post": "yes"}).status_code == 403
    assert by_person(is_superuser=True).delete(f"{TOOLSETS}till/").status_code == 204


def test_choice_and_pattern_that_cover_a_tool_together_do_not_go_together(catalogue: None) -> None:
    row = McpToolset.objects.get(slug="till")
    row.patterns = "pay"
    row.save()
    a_rule(("toolset", "till"))
    body = {"tools": [], "patterns": ""}
    answer = by_key("catalog:write").patch(f"{TOOLSETS}till/", body, content_type="application/json")
    assert answer.status_code == 202
    assert covers("pay")


def test_a_toolset_may_get_tools_while_others_are_held(catalogue: None) -> None:
    a_rule(("toolset", "till"))
    by_key("catalog:write").patch(f"{TOOLSETS}till/", {"tools": ["other"]}, content_type="application/json")
    assert McpToolset.objects.get(slug="till").names() == ["other", "pay"]


def test_a_tool_leaves_the_workspace_of_a_rule_by_two(catalogue: None) -> None:
    team = McpWorkspace.objects.create(slug="team")
    row = McpToolDefinition.objects.get(name="pay")
    row.workspace = team
    row.save()
    a_rule(("all", ""), workspace=team)
    olga = operator("olga")
    olga.user_permissions.add(Permission.objects.get(codename="change_mcpworkspace"))
    with editing(olga):
        row.workspace = None
        row.save()
    row.refresh_from_db()
    assert row.workspace == team
    assert WaitingChange.objects.get().after == {"workspace_id": None}


@pytest.mark.parametrize("kind", POLICIES)
def test_whoever_acts_in_a_workspace_does_not_evade_policies_of_the_whole_hub(catalogue: None, kind: str) -> None:
    team = McpWorkspace.objects.create(slug="team")
    row = McpToolDefinition.objects.get(name="pay")
    row.workspace = team
    row.save()
    POLICIES[kind](("tag", "money"))
    with editing(operator("olga")), acting_in(Scope(team.pk, team.slug)):
        row.meta = {}
        row.save()
    row.refresh_from_db()
    assert row.meta == {"tags": ["money"]}


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize(
    ("scope", "change"),
    [
        (("tag", "money"), {"_meta": {}}),
        (("annotation", "idempotentHint=false"), {"annotations": {"idempotentHint": True}}),
        (("tool", "bank_pay"), {"name": "disburse"}),
    ],
)
def test_no_upstream_takes_its_tool_out_of_reach(kind: str, scope: tuple[str, str], change: dict[str, Any]) -> None:
    connection = McpConnectionFactory(slug="bank", policy="trust", prefix="bank_")
    before = definition("pay", _meta={"tags": ["money"]})
    offer(connection, before)
    POLICIES[kind](scope)
    offered = offer(connection, {**before, **change})
    row = offered[change.get("name", "pay")]
    assert "reach of" in row.refusal
    assert row.approved_digest != row.seen_digest
    with editing(operator("olga")), pytest.raises(reconcile.ApprovalRefused):
        reconcile.approve(row, author=None)
    with editing(UserFactory(is_superuser=True)):
        reconcile.approve(row, author=None)


# The console -----------------------------------------------------------------------------------------


def test_the_page_of_a_tool_names_the_policies_that_cover_it(catalogue: None) -> None:
    a_rule(("tag", "money"))
    client = Client()
    client.force_login(operator("olga"))
    row = McpToolDefinition.objects.get(name="pay")
    page = client.get(reverse("admin:tools_catalog_mcptooldefinition_change", args=[row.pk])).content.decode()
    assert "call rule p" in page
    assert reach.covering(row) == ["approval policy", "call rule p"]
    toolset = McpToolset.objects.get(slug="till")
    page = reverse("admin:tools_catalog_mcptoolset_change", args=[toolset.pk])
    assert "call rule q" not in client.get(page).content.decode()
    McpPolicyRule.objects.create(name="q", applies_to="toolset", target="till desk")
    assert "call rule q" in client.get(page).content.decode()


@pytest.mark.parametrize(
    ("name", "met"),
    [("pay", 1), ('pay"\\', 1), ("a_b", 1), ("%", 1), ("выплата", 4)],
    ids=["plain", "quote", "_", "%", "Cyrillic"],
)
def test_few_rows_are_read_to_find_tools_that_do_the_same(name: str, met: int) -> None:
    """A listing of thousands of tools is approved in one go, so each must not read all others."""
    for tool in (name, "axb", "other", "payment"):
        row = McpToolDefinitionFactory()
        configuration = {"connection": "bank", "tool": tool}
        McpToolDefinition.objects.filter(pk=row.pk).update(backend="upstream", configuration=configuration)
    kind, wanted = KINDS["upstream"], {"connection": "bank", "tool": name}
    rows = McpToolDefinition.objects.filter(kind.narrowed(wanted), backend="upstream")
    is_alike = kind.likeness(wanted)
    assert len(rows) == met
    assert [row.configuration["tool"] for row in rows if is_alike(row.configuration)] == [name]
