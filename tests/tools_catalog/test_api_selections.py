"""/api/services/ and /api/toolsets/: changed by the rules of the admin, shown to whom they are open."""

from __future__ import annotations

import pytest

from sessions_app.history.reading import events_about, history_of
from tests.factories import GroupFactory, HttpServiceFactory, McpToolDefinitionFactory, McpToolsetFactory
from tests.rest import by_key, by_person, error_of
from tools_catalog.catalog.snapshot import Catalog
from tools_catalog.models import HttpService, McpToolset

pytestmark = pytest.mark.django_db

SERVICES, TOOLSETS = "/api/services/", "/api/toolsets/"
SERVICE = {
    "slug": "git",
    "url": "https://git.example/rest",
    "headers": {"Authorization": "Bearer {secret:git}"},
    "kind": "git",
    "version": "8.2",
}
TOOLSET = {"slug": "few", "mode": "search", "patterns": "git.* tickets.?", "tools": ["read"]}


@pytest.fixture
def operator():
    McpToolDefinitionFactory(name="read")
    return by_key("catalog:write", "tools:list")


def post(client, address, body):
    return client.post(address, body, content_type="application/json")


def patch(client, address, body):
    return client.patch(address, body, content_type="application/json")


@pytest.mark.parametrize(
    ("address", "body", "model"), [(SERVICES, SERVICE, HttpService), (TOOLSETS, TOOLSET, McpToolset)]
)
def test_a_row_is_added_changed_and_kept_in_the_history(operator, address, body, model):
    response = post(operator, address, {**body, "reason": "wanted"})
    assert response.status_code == 201, response.content
    shown = response.json()
    one = f"{address}{body['slug']}/"
    assert operator.get(one).json() == shown == shown | body
    row = model.objects.get()
    assert history_of(row).first().reason.endswith("wanted")
    assert "auditor" in history_of(row).first().reason
    changed = patch(operator, one, {"enabled": False, "title": "Ours"})
    assert (changed.status_code, changed.json()["enabled"], changed.json()["title"]) == (200, False, "Ours")
    assert operator.get(address, {"enabled": "true"}).json()["results"] == []


def test_a_toolset_serves_what_it_was_given_over_rest(operator):
    post(operator, TOOLSETS, TOOLSET)
    assert {name for name, each in Catalog.load().toolsets.items() if each} == {"few"}
    patch(operator, f"{TOOLSETS}few/", {"tools": []})
    assert operator.get(f"{TOOLSETS}few/").json()["tools"] == []
    assert operator.get(f"{TOOLSETS}few/").json()["path"] == "/mcp/s/few"
    assert operator.delete(f"{TOOLSETS}few/").status_code == 204
    assert events_about(McpToolset).first().deed == "deleted"
    assert Catalog.load().toolsets == {}


@pytest.mark.parametrize(
    ("address", "body", "field", "status"),
    [
        (SERVICES, {**SERVICE, "url": "http://10.0.0.1/"}, "url", 409),
        (SERVICES, {**SERVICE, "url": "https://user:pass@git.example/"}, "url", 409),
        (SERVICES, {**SERVICE, "headers": {"X": "{argument}"}}, "headers", 409),
        (SERVICES, {**SERVICE, "headers": []}, "headers", 400),
        (SERVICES, {**SERVICE, "version": "8.x"}, "version", 400),
        (SERVICES, {**SERVICE, "password": "x"}, "password", 400),
        (TOOLSETS, {**TOOLSET, "slug": "Two words"}, "slug", 400),
        (TOOLSETS, {**TOOLSET, "patterns": "a/b"}, "patterns", 409),
        (TOOLSETS, {**TOOLSET, "mode": "all"}, "mode", 400),
        (TOOLSETS, {**TOOLSET, "tools": ["nowhere"]}, "tools", 409),
        (TOOLSETS, {**TOOLSET, "groups": ["nobody"]}, "groups", 409),
        (TOOLSETS, {**TOOLSET, "tools": [0]}, "tools", 400),
        (TOOLSETS, {**TOOLSET, "prompts": [True]}, "prompts", 400),
    ],
)
def test_what_is_wrong_is_said_at_its_field(operator, address, body, field, status):
    error = error_of(post(operator, address, body), status, "conflict" if status == 409 else "invalid_params")
    assert field in error["details"]["fields"]
    assert not HttpService.objects.exists()
    assert not McpToolset.objects.exists()


def test_the_name_of_a_service_stays_and_nothing_is_deleted(operator):
    HttpServiceFactory(slug="git")
    assert patch(operator, f"{SERVICES}git/", {"slug": "other"}).status_code == 409
    error_of(operator.delete(f"{SERVICES}git/"), 405, "method_not_allowed")


def test_a_key_sees_the_toolsets_of_its_groups_and_of_them_the_tools_that_it_may_see():
    staff = GroupFactory(name="staff")
    hidden, tool = McpToolDefinitionFactory(name="hidden"), McpToolDefinitionFactory(name="open")
    hidden.groups.add(staff)
    McpToolsetFactory(slug="all", patterns="hidden").tools.add(hidden, tool)
    McpToolsetFactory(slug="inner").groups.add(staff)
    stranger, member = by_key("tools:list"), by_key("tools:list", groups=(staff,))
    [row] = stranger.get(TOOLSETS).json()["results"]
    assert (row["slug"], row["tools"], row["patterns"]) == ("all", ["open"], None)
    assert [row["slug"] for row in member.get(TOOLSETS).json()["results"]] == ["all", "inner"]
    assert member.get(f"{TOOLSETS}all/").json()["tools"] == ["hidden", "open"]
    error_of(stranger.get(f"{TOOLSETS}inner/"), 404, "not_found")


def test_services_are_for_those_who_run_the_catalogue():
    HttpServiceFactory()
    error_of(by_key("tools:list", "tools:call").get(SERVICES), 403, "forbidden")
    assert by_person("tools_catalog.view_httpservice").get(SERVICES).status_code == 200
    error_of(by_person("tools_catalog.view_mcptoolset").get(SERVICES), 403, "forbidden")


@pytest.mark.parametrize("body", [SERVICE, TOOLSET])
def test_writing_takes_the_scope_or_the_permission(body):
    address = SERVICES if body is SERVICE else TOOLSETS
    error_of(post(by_key("tools:list", "tools:call"), address, body), 403, "forbidden")
    reader = by_person("tools_catalog.view_httpservice", "tools_catalog.view_mcptoolset")
    assert post(reader, address, body).status_code == 403


def test_removing_takes_a_permission_of_its_own():
    McpToolsetFactory(slug="few")
    editor = by_person("tools_catalog.view_mcptoolset", "tools_catalog.change_mcptoolset")
    error_of(editor.delete(f"{TOOLSETS}few/"), 403, "forbidden")
    assert McpToolset.objects.exists()
