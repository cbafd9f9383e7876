"""Workspaces over the console and REST: a member of one sees, finds, lists and changes nothing of another's."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.urls import NoReverseMatch, reverse

from invocations import tools
from mcphub.features.quotas.models import McpQuota
from sessions_app.caller import Caller
from sessions_app.models import ApiKey, AuditEvent, McpWorkspace, SavedView
from sessions_app.workspaces import scope
from sessions_app.workspaces.acting import PAGES
from sessions_app.workspaces.scope import InWorkspace, Scope
from tests.factories import McpPromptFactory, UserFactory
from tests.mcphub.two_workspaces import OTHERS, person, two_workspaces
from tests.rest import by_token, error_of
from tests.tools_catalog.backends.backend_peers import ScriptedContext, reference_of, run_tool
from tools_catalog.backends.offered import prompt, prompts
from tools_catalog.backends.python import tool
from tools_catalog.models import McpConnection, McpToolDefinition, McpToolset

pytestmark = pytest.mark.django_db


@pytest.fixture
def two() -> SimpleNamespace:
    return two_workspaces()


LISTS = (
    "invocations_mcptoolinvocation",
    "tools_catalog_mcptooldefinition",
    "tools_catalog_mcptoolset",
    "tools_catalog_mcpconnection",
    "tools_catalog_mcppolicyrule",
    "sessions_app_apikey",
    "invocations_mcpapproval",
)


def _has_theirs(answer: Any) -> bool:
    text = answer.content.decode()
    return OTHERS in text or OTHERS.replace("-", "_") in text


@pytest.mark.parametrize("role", ["auditors", "operators"])
@pytest.mark.parametrize("page", LISTS)
def test_a_list_shows_what_is_of_the_workspace(two: SimpleNamespace, role: str, page: str) -> None:
    client = person(f"ours {role}")
    answer = client.get(reverse(f"admin:{page}_changelist"))
    assert answer.status_code == 200
    assert not _has_theirs(answer)
    assert "hub caller" not in answer.content.decode()


def test_who_acts_in_a_workspace_sees_its_calls_first(two: SimpleNamespace) -> None:
    client = person("ours auditors")
    start = client.get(reverse("admin:index"), follow=True)
    assert start.redirect_chain[-1][0] == reverse("admin:invocations_mcptoolinvocation_changelist")
    assert "ours.tool" in start.content.decode()
    assert 'id="hub-workspace"' in start.content.decode()
    assert client.get(reverse("admin:invocations_mcptoolinvocation_change", args=[two.ours.call.pk])).status_code == 200


def test_every_row_of_another_workspace_is_missing_under_its_address(two: SimpleNamespace) -> None:
    for role in ("auditors", "operators"):
        client = person(f"ours {role}")
        for name, model in (
            ("tool", "tools_catalog_mcptooldefinition"),
            ("toolset", "tools_catalog_mcptoolset"),
            ("rule", "tools_catalog_mcppolicyrule"),
            ("key", "sessions_app_apikey"),
            ("call", "invocations_mcptoolinvocation"),
        ):
            pk = getattr(two.theirs, name).pk
            answer = client.get(reverse(f"admin:{model}_change", args=[pk]))
            assert answer.status_code == 302, (role, name)  # to the list, which says that there is no such row
            assert client.get(reverse(f"admin:{model}_change", args=[getattr(two.ours, name).pk])).status_code == 200


def _addresses() -> list[tuple[str, str]]:
    """Return every address of the console with what stands for its parameters."""
    from django.contrib import admin

    reverse("admin:index")  # loads the addresses, and with them the console's pages
    found = []
    for pattern in admin.site.urls[0]:
        for each in [pattern, *getattr(pattern, "url_patterns", [])]:
            if name := getattr(each, "name", None):
                found.append((name, each))
    return [(name, each.pattern.regex.pattern) for name, each in found]


def test_every_other_page_of_the_console_is_refused_and_says_why(two: SimpleNamespace) -> None:
    client = person("ours operators", "ours auditors")
    tried = 0
    for name, _pattern in _addresses():
        if name in PAGES or name in ("login", "logout"):
            continue
        for arguments in ([], [1], [1, 1], ["x", 1]):
            try:
                address = reverse(f"admin:{name}", args=arguments)
            except NoReverseMatch:
                continue
            answer = client.get(address)
            assert answer.status_code == 403, (name, answer.status_code)
            assert "workspace ours" in answer.content.decode(), name
            tried += 1
    assert tried > 150


def test_the_pages_beside_the_admin_are_refused_too(two: SimpleNamespace) -> None:
    client = person("ours operators")
    for name in ("connect", "tool_try", "tool_calls", "key_calls", "invocation_replay", "palette", "notices_state"):
        try:
            address = reverse(name)
        except NoReverseMatch:
            address = reverse(name, args=[two.ours.tool.pk])
        if address.startswith("/admin/"):
            assert client.get(address).status_code == 403, name


def test_a_member_without_another_role_has_no_console(two: SimpleNamespace) -> None:
    client = person("ours members")
    assert client.get(reverse("admin:invocations_mcptoolinvocation_changelist")).status_code == 302  # to the login
    page = client.get(reverse("my-access")).content.decode()
    assert "/w/ours/mcp" in page
    assert OTHERS not in page


def test_a_search_and_a_filter_find_nothing_of_another_workspace(two: SimpleNamespace) -> None:
    client = person("ours auditors")
    calls = reverse("admin:invocations_mcptoolinvocation_changelist")
    theirs = two.theirs.call
    for query in (
        {"q": theirs.invocation_id},
        {"q": f"tool:{theirs.tool_name}"},
        {"q": "-status:error"},
        {"q": f"workspace:{OTHERS}"},
        {"q": theirs.trace_id or "nothing"},
    ):
        answer = client.get(calls, query)
        assert answer.status_code == 200, query
        assert f"/{theirs.pk}/change/" not in answer.content.decode()
        assert "caller</" not in answer.content.decode().replace("ours caller", "")
    for part in ("facets", "histogram"):
        assert not _has_theirs(client.get(reverse(f"admin:invocation_{part}")))


def test_a_key_of_a_workspace_reads_its_calls_over_rest_and_no_others(two: SimpleNamespace) -> None:
    _, token = ApiKey.issue("auditor", scopes=["audit:read"], workspace=two.ours.workspace)
    client = by_token(token)
    rows = client.get("/api/invocations/").json()["results"]
    assert {row["workspace"] for row in rows} == {"ours"}
    error_of(client.get(f"/api/invocations/{two.theirs.call.invocation_id}/"), 404, "not_found")
    assert client.get(f"/api/invocations/{two.ours.call.invocation_id}/").status_code == 200
    assert not _has_theirs(client.get(f"/api/invocations/?workspace={OTHERS}"))
    assert not _has_theirs(client.get("/api/invocations/facets/"))
    counted = client.get("/api/invocations/statistics/?by=tool").json()["groups"]
    assert [each["group"] for each in counted] == ["ours.tool"]
    assert [row["name"] for row in client.get("/api/keys/").json()["results"]] == ["auditor", "ours key"]


def test_no_key_gives_a_role_in_a_workspace(two: SimpleNamespace) -> None:
    """A directory's key would put a group of its own among people who read bodies and decide about calls."""
    _, token = ApiKey.issue("directory", scopes=["people:write"])
    client = by_token(token)
    Group.objects.create(name="mine")
    at = f"/api/workspaces/{two.ours.workspace.slug}/"
    for role in ("auditors", "operators"):
        error_of(client.patch(at, {role: ["mine"]}, content_type="application/json"), 403, "forbidden")
    assert client.patch(at, {"members": ["mine"]}, content_type="application/json").status_code == 202
    made = {"slug": "made", "operators": ["mine"]}
    error_of(client.post("/api/workspaces/", made, content_type="application/json"), 403, "forbidden")
    assert not McpWorkspace.objects.filter(slug="made").exists()


def test_every_other_resource_is_refused_to_a_key_of_a_workspace(two: SimpleNamespace) -> None:
    _, token = ApiKey.issue("all", scopes=["audit:read", "tools:list"], workspace=two.ours.workspace)
    client = by_token(token)
    listed = {each["name"] for each in client.get("/api/").json()["resources"]}
    refused = 0
    for each in client.get("/api/schema", headers={"accept": "application/json"}).json()["paths"]:
        name = each.removeprefix("/api/").strip("/")
        if "{" in each or not each.startswith("/api/") or name in ("", "query", "session", "tools", "health"):
            continue
        answer = client.get(each)
        if answer.status_code == 200:
            known = {*listed, "tool-definitions", "toolsets", "keys", "approvals"}
            assert known & {name, name.partition("/")[0]}, each
            assert not _has_theirs(answer), each
        else:
            assert answer.status_code in (400, 403, 404, 405, 503), each
            refused += answer.status_code == 403
    assert refused > 15


def test_what_is_made_in_a_workspace_belongs_to_it(two: SimpleNamespace) -> None:
    client = person("ours operators")
    sent = {"slug": "made-here", "mode": "list", "reads": "all", "patterns": "*", "enabled": "on"}
    answer = client.post(reverse("admin:tools_catalog_mcptoolset_add"), sent)
    assert answer.status_code == 302, answer.content
    made = McpToolset.objects.get(slug="made-here")
    assert made.workspace == two.ours.workspace
    page = client.get(reverse("admin:tools_catalog_mcptoolset_change", args=[made.pk]))
    assert "everybodys.tool" in page.content.decode()
    assert not _has_theirs(page)
    # The name of a toolset is one in the whole hub.
    again = client.post(reverse("admin:tools_catalog_mcptoolset_add"), {**sent, "slug": two.theirs.toolset.slug})
    assert again.status_code == 200
    assert McpToolset.objects.filter(slug=two.theirs.toolset.slug).count() == 1


def test_what_is_everybodys_is_read_and_not_changed_in_a_workspace(two: SimpleNamespace) -> None:
    from django.core.exceptions import PermissionDenied

    with scope.acting_in(Scope(two.ours.workspace.pk, "ours")):
        row = McpToolDefinition.objects.get(name="everybodys.tool")
        row.title = "Taken"
        with pytest.raises(PermissionDenied):
            row.save()
        assert McpToolDefinition.objects.filter(name="everybodys.tool").update(title="Taken") == 0
        assert not McpToolDefinition.objects.filter(name=f"{OTHERS.replace('-', '_')}.tool").exists()
        assert McpToolDefinition.objects.count() == 2
    assert McpToolDefinition.objects.get(name="everybodys.tool").title != "Taken"


def test_every_model_that_may_belong_to_a_workspace_is_narrowed_by_its_manager() -> None:
    from django.apps import apps

    found = [model for model in apps.get_models() if issubclass(model, InWorkspace)]
    assert len(found) >= 9
    with scope.acting_in(Scope(1, "nobodys")):
        for model in found:
            sql = str(model._default_manager.all().query)
            assert "workspace" in sql.partition("WHERE")[2], model
            assert "workspace" in str(model._default_manager.order_by("pk").values("pk").query).partition("WHERE")[2]


def test_a_right_that_is_taken_away_ends_the_pages_at_once(two: SimpleNamespace) -> None:
    client = person("ours auditors")
    calls = reverse("admin:invocations_mcptoolinvocation_changelist")
    assert client.get(calls).status_code == 200
    client.user.groups.clear()  # type: ignore[attr-defined]
    assert client.get(calls).status_code == 302


def test_operators_read_no_bodies_and_auditors_change_nothing(two: SimpleNamespace) -> None:
    operator, auditor = person("ours operators"), person("ours auditors")
    page = reverse("admin:invocations_mcptoolinvocation_change", args=[two.ours.call.pk])
    assert "read bodies" in operator.get(page).content.decode()
    assert "read bodies" not in auditor.get(page).content.decode()
    assert auditor.get(reverse("admin:tools_catalog_mcptoolset_add")).status_code == 403
    change = reverse("admin:tools_catalog_mcptooldefinition_change", args=[two.ours.tool.pk])
    assert operator.post(change, {"title": "Taken"}).status_code == 403


def test_who_has_a_role_in_two_chooses_one(two: SimpleNamespace) -> None:
    client = person("ours auditors", f"{OTHERS} operators")
    assert client.post(reverse("choose-workspace"), {"workspace": OTHERS}).status_code == 302
    rows = client.get(reverse("admin:invocations_mcptoolinvocation_changelist")).content.decode()
    assert "ours.tool" not in rows
    assert "theirs_alone.tool" in rows
    assert client.get(reverse("admin:tools_catalog_mcptoolset_add")).status_code == 200
    client.post(reverse("choose-workspace"), {"workspace": "ours"})
    assert client.get(reverse("admin:tools_catalog_mcptoolset_add")).status_code == 403
    assert client.post(reverse("choose-workspace"), {"workspace": "none"}).status_code == 404


def test_what_a_toolset_may_choose_is_found_and_nothing_of_another_workspace(two: SimpleNamespace) -> None:
    for own in (two.ours, two.theirs):
        McpPromptFactory(name=f"{own.tool.name}.prompt", workspace=own.workspace)
    client = person("ours operators")
    for field, name in (("tools", "ours.tool"), ("prompts", "ours.tool.prompt")):
        asked = {"app_label": "tools_catalog", "model_name": "mcptoolset", "field_name": field}
        answer = client.get(reverse("admin:autocomplete"), asked)
        assert answer.status_code == 200, field
        assert name in answer.content.decode()
        assert not _has_theirs(answer)


def test_views_that_others_share_are_not_offered_in_a_workspace(two: SimpleNamespace) -> None:
    page = "invocations.mcptoolinvocation"
    SavedView.objects.create(owner=UserFactory(), page=page, name=OTHERS, query="status__exact=error", is_shared=True)
    client = person("ours auditors")
    assert not _has_theirs(client.get(reverse("admin:invocations_mcptoolinvocation_changelist")))
    SavedView.objects.create(owner=client.user, page=page, name="my own", query="status__exact=error")  # type: ignore[attr-defined]
    assert "my own" in client.get(reverse("admin:invocations_mcptoolinvocation_changelist")).content.decode()


def test_a_row_is_moved_by_who_may_change_workspaces_alone(two: SimpleNamespace) -> None:
    tool = reverse("admin:tools_catalog_mcptooldefinition_change", args=[two.ours.tool.pk])
    address = f"/api/tool-definitions/{two.ours.tool.name}/"
    operator = person("Operator", is_staff=True)
    assert operator.get(tool).status_code == 200
    assert "disabled" in operator.get(tool).content.decode().partition('id="id_workspace"')[0].rpartition("<select")[2]
    refused = operator.patch(address, {"workspace": None}, content_type="application/json")
    error_of(refused, 403, "forbidden")
    admin = person(is_superuser=True, is_staff=True)
    assert admin.patch(address, {"workspace": None}, content_type="application/json").status_code == 200
    assert McpToolDefinition.objects.get(pk=two.ours.tool.pk).workspace is None


def test_who_acts_in_a_workspace_logs_out(two: SimpleNamespace) -> None:
    client = person("ours auditors")
    assert client.get(reverse("admin:index")).status_code == 302
    assert client.post(reverse("admin:logout")).status_code in (200, 302)
    assert client.get(reverse("admin:invocations_mcptoolinvocation_changelist")).status_code == 302
    assert client.get(reverse("my-access")).status_code == 302  # to the login


# What tools read -------------------------------------------------------------------------------------------


@tool(description="Says in which workspace it reads.")
def reads_in() -> str:
    return str(scope.current())


@tool(description="Says the same, in the loop.")
async def reads_in_the_loop() -> str:
    await asyncio.sleep(0)
    return str(scope.current())


@prompt(description="Says the same, to a prompt.")
def prompt_reads_in() -> str:
    return str(scope.current())


@pytest.mark.parametrize("function", [reads_in, reads_in_the_loop])
def test_a_tool_reads_in_the_workspace_that_its_caller_came_by(function: Any) -> None:
    ours = Scope(3, "ours")
    assert run_tool(function, context=ScriptedContext(workspace=ours)).content[0]["text"] == str(ours)
    assert run_tool(function, context=ScriptedContext()).content[0]["text"] == "None"
    assert scope.current() is None


def test_a_prompt_reads_in_the_workspace_that_its_caller_came_by() -> None:
    ours = Scope(3, "ours")
    entry = prompts[reference_of(prompt_reads_in)]
    assert asyncio.run(entry.call({}, ScriptedContext(workspace=ours))) == str(ours)


def test_tools_of_the_hub_itself_show_calls_of_the_workspace_alone(two: SimpleNamespace) -> None:
    context: Any = ScriptedContext(caller_scopes=frozenset({"tools:call", "audit:read"}))

    def read() -> str:
        recent, counted = tools.recent_invocations(context), tools.tool_statistics(context)
        return recent.model_dump_json() + counted.model_dump_json()

    with scope.acting_in(Scope(two.ours.workspace.pk, "ours")):
        within = read()
    assert within.count("ours.tool") == 2
    assert "theirs" not in within
    assert "everybodys" not in within
    assert "theirs_alone.tool" in read()


def test_a_call_says_by_which_workspace_its_caller_came() -> None:
    came = Caller(principal="key:1", label="", scopes=frozenset(), workspace=3, workspace_slug="ours")
    assert scope.of_caller(came) == Scope(3, "ours")
    assert scope.of_caller(replace(came, workspace=0, workspace_slug="")) == Scope(0, "")
    assert scope.of_caller(replace(came, workspace=None)) is None


# Histories -------------------------------------------------------------------------------------------------

OWNED = ("tool", "toolset", "rule", "key")


def _history_of(row: Any) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_history", args=[row.pk])


@pytest.mark.parametrize("role", ["auditors", "operators"])
@pytest.mark.parametrize("kind", OWNED)
def test_the_history_of_a_row_is_shown_where_the_row_is(two: SimpleNamespace, role: str, kind: str) -> None:
    client = person(f"ours {role}")
    theirs, ours = getattr(two.theirs, kind), getattr(two.ours, kind)
    for each in AuditEvent.objects.filter(subject_model=theirs._meta.label_lower, subject_id=theirs.pk):
        assert client.get(f"{_history_of(theirs)}{each.pk}/").status_code in (403, 404)
    answer = client.get(_history_of(theirs))
    assert answer.status_code in (302, 403, 404)
    assert not _has_theirs(answer)
    own = client.get(_history_of(ours))
    assert own.status_code in (200, 403)
    if own.status_code == 200:
        assert f"{_history_of(ours)}" in own.content.decode()
    if kind in ("toolset", "rule"):
        address = _history_of(theirs)
        theirs.delete()
        assert not _has_theirs(client.get(address))


def test_what_a_row_was_before_it_moved_is_not_shown_in_its_workspace(two: SimpleNamespace) -> None:
    row = McpToolset.objects.get(pk=two.theirs.toolset.pk)
    row.title, row.workspace = "moved here", two.ours.workspace
    row.save()
    row.description = "of ours"
    row.save()
    client = person("ours operators")
    page = client.get(_history_of(row)).content.decode()
    assert "of ours" in page
    assert "moved here" not in page
    first = AuditEvent.objects.filter(subject_model=row._meta.label_lower, subject_id=row.pk).order_by("pk").first()
    assert first is not None
    assert client.get(f"{_history_of(row)}{first.pk}/").status_code == 404


# Names -----------------------------------------------------------------------------------------------------


def test_who_acts_in_a_workspace_does_not_learn_which_people_and_groups_there_are(two: SimpleNamespace) -> None:
    client = person("ours operators")
    UserFactory(username="somebody-there")

    def said(**members: Any) -> str:
        sent = {"name": "made", "scopes": ["tools:list"], **members}
        answer = client.post("/api/keys/", sent, content_type="application/json")
        assert answer.status_code in (409, 422), answer.content
        text: str = answer.content.decode()
        return text

    for member, there, nobody in (
        ("owner", "somebody-there", "somebody-else"),
        ("groups", [f"{OTHERS} auditors"], ["no-such-group"]),
    ):
        name, missing = (there[0], nobody[0]) if isinstance(there, list) else (there, nobody)
        assert said(**{member: there}).replace(name, "N") == said(**{member: nobody}).replace(missing, "N")


def test_my_access_shows_no_quota_on_tools_that_the_person_does_not_see(two: SimpleNamespace) -> None:
    client = person("ours members")
    McpConnection.objects.create(
        slug=OTHERS, transport="streamable-http", url="https://x.example/mcp", workspace=two.theirs.workspace
    )
    for name, applies_to, target in (
        ("theirs one", "tool", "theirs_alone.*"),
        ("theirs two", "toolset", two.theirs.toolset.slug),
        ("theirs three", "connection", OTHERS),
        ("theirs four", "tag", OTHERS),
        ("ours", "tool", "ours.tool everybodys.*"),
        ("sets", "toolset", two.ours.toolset.slug),
    ):
        McpQuota.objects.create(name=name, hard_limit=5, applies_to=applies_to, target=target, words=f"words {name}")
    page = client.get(reverse("my-access")).content.decode()
    assert "words ours" in page
    assert "words sets" in page
    assert "theirs" not in page


def test_an_address_to_connect_an_account_does_not_tell_whether_the_name_is_there(two: SimpleNamespace) -> None:
    McpConnection.objects.create(
        slug=OTHERS, transport="streamable-http", url="https://x.example/mcp", account="personal", enabled=True
    )
    client = person("ours members")
    there, missing = client.get(f"/connect/to/{OTHERS}/"), client.get("/connect/to/nothing/")
    assert there.status_code == missing.status_code == 404
    assert there.content == missing.content.replace(b"nothing", OTHERS.encode())


@pytest.mark.parametrize("role", ["auditors", "operators"])
def test_the_page_of_a_tool_links_to_no_history_that_a_workspace_does_not_have(two: SimpleNamespace, role: str) -> None:
    two.ours.tool.title = "Changed"
    two.ours.tool.save()
    page = reverse("admin:tools_catalog_mcptooldefinition_change", args=[two.ours.tool.pk])
    html = person(f"ours {role}").get(page).content.decode()
    links = re.findall('href="([^"]*)"', html)
    assert "hub-page-history" in html
    assert [link for link in links if not link or "/history/" in link] == []
