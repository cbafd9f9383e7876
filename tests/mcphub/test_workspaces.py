"""Workspaces over the console and REST: a member of one sees, finds, lists and changes nothing of another's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import NoReverseMatch, reverse

from sessions_app.models import ApiKey, McpWorkspace, SavedView
from sessions_app.workspaces import scope
from sessions_app.workspaces.acting import PAGES
from sessions_app.workspaces.scope import InWorkspace, Scope
from tests.factories import (
    McpPromptFactory,
    McpToolDefinitionFactory,
    McpToolInvocationFactory,
    McpToolsetFactory,
    UserFactory,
)
from tests.rest import by_token, error_of
from tools_catalog.models import McpPolicyRule, McpToolDefinition, McpToolset

pytestmark = pytest.mark.django_db

OTHERS = "theirs-alone"
"""Stands in the name of everything that belongs to the other workspace."""


def workspace(slug: str) -> McpWorkspace:
    row = McpWorkspace.objects.create(slug=slug)
    for role in ("members", "auditors", "operators"):
        getattr(row, role).add(Group.objects.create(name=f"{slug} {role}"))
    return row


def person(*groups: str, **fields: Any) -> Client:
    user = UserFactory(**fields)
    user.groups.set(Group.objects.filter(name__in=groups))
    client = Client()
    client.force_login(user)
    client.user = user  # type: ignore[attr-defined]
    return client


@pytest.fixture
def two() -> SimpleNamespace:
    """Two workspaces with a row of each kind, and rows of none."""
    rows: dict[str, Any] = {}
    for slug, word in (("ours", "ours"), (OTHERS, OTHERS)):
        own = workspace(slug)
        mark = word.replace("-", "_")
        rows[slug] = SimpleNamespace(
            workspace=own,
            tool=McpToolDefinitionFactory(name=f"{mark}.tool", workspace=own),
            toolset=McpToolsetFactory(slug=f"{word}-set", workspace=own, patterns="*"),
            rule=McpPolicyRule.objects.create(name=f"{word}-rule", effect="deny", workspace=own),
            key=ApiKey.issue(f"{word} key", workspace=own)[0],
            call=McpToolInvocationFactory(tool_name=f"{mark}.tool", workspace=own.slug, caller_label=f"{word} caller"),
        )
    McpToolDefinitionFactory(name="everybodys.tool")
    McpToolsetFactory(slug="hub-set", patterns="*")
    McpToolInvocationFactory(tool_name="everybodys.tool", caller_label="hub caller")
    return SimpleNamespace(ours=rows["ours"], theirs=rows[OTHERS])


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
    """Give every address of the console with what stands for its parameters."""
    from django.contrib import admin

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
            assert name.partition("/")[0] in {*listed, "tool-definitions", "toolsets", "keys", "approvals"}, each
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
    assert "may not read bodies" in operator.get(page).content.decode()
    assert "may not read bodies" not in auditor.get(page).content.decode()
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
