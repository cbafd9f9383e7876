"""/api/resources/ and /api/prompts/: changed by the rules of the admin, shown to whom they are open."""

from __future__ import annotations

import pytest

from sessions_app.history.reading import events_about, history_of
from tests.factories import GroupFactory, McpPromptFactory, McpResourceFactory
from tests.rest import by_key, by_person, error_of
from tools_catalog.models import McpPrompt, McpResource

pytestmark = pytest.mark.django_db

RESOURCES, PROMPTS = "/api/resources/", "/api/prompts/"
RESOURCE = {"uri": "docs://start", "name": "start", "content": "  Begin here.\n"}
PROMPT = {
    "name": "greet",
    "arguments": [{"name": "who", "required": True}],
    "messages": [{"role": "user", "content": "Greet {who}."}],
}


@pytest.fixture
def operator():
    return by_key("catalog:write", "tools:list")


def post(client, address, body):
    return client.post(address, body, content_type="application/json")


@pytest.mark.parametrize(
    ("address", "body", "model"), [(RESOURCES, RESOURCE, McpResource), (PROMPTS, PROMPT, McpPrompt)]
)
def test_a_row_is_added_changed_and_removed_with_its_history(operator, address, body, model):
    response = post(operator, address, {**body, "reason": "wanted"})
    assert response.status_code == 201, response.content
    shown = response.json()
    row = model.objects.get()
    one = f"{address}{row.pk if model is McpResource else row.name}/"
    assert operator.get(one).json() == shown
    assert shown | body == shown  # blanks at the ends are kept
    assert "auditor" in history_of(row).first().reason
    assert history_of(row).first().reason.endswith("wanted")
    changed = operator.patch(one, {"enabled": False}, content_type="application/json")
    assert (changed.status_code, changed.json()["enabled"]) == (200, False)
    assert operator.delete(one).status_code == 204
    assert not model.objects.exists()
    assert events_about(model).first().deed == "deleted"


@pytest.mark.parametrize(
    ("address", "body", "field", "status"),
    [
        (RESOURCES, {**RESOURCE, "uri": "relative"}, "uri", 400),
        (RESOURCES, {**RESOURCE, "uri": "x://{a}{b}"}, "uri", 409),
        (RESOURCES, {**RESOURCE, "content": None}, "content", 400),
        (RESOURCES, {**RESOURCE, "icons": {}}, "icons", 400),
        (RESOURCES, {**RESOURCE, "function": "os:system"}, "*", 409),
        (RESOURCES, {**RESOURCE, "text": "x"}, "text", 400),
        (PROMPTS, {**PROMPT, "messages": []}, "*", 409),
        (PROMPTS, {**PROMPT, "messages": "x"}, "messages", 400),
        (PROMPTS, {**PROMPT, "name": "two words"}, "name", 400),
        (PROMPTS, {**PROMPT, "groups": ["nobody"]}, "groups", 409),
    ],
)
def test_what_is_wrong_is_said_at_its_field(operator, address, body, field, status):
    error = error_of(post(operator, address, body), status, "conflict" if status == 409 else "invalid_params")
    assert field in error["details"]["fields"]


def test_a_key_sees_the_rows_of_its_groups_and_not_what_is_inside():
    staff = GroupFactory(name="staff")
    McpResourceFactory(uri="x://all", content="inner")
    hidden = McpResourceFactory(uri="x://staff")
    hidden.groups.add(staff)
    McpPromptFactory(name="staff").groups.add(staff)
    stranger, member = by_key("tools:list"), by_key("tools:list", groups=(staff,))
    [row] = stranger.get(RESOURCES).json()["results"]
    assert (row["uri"], row["content"], row["function"]) == ("x://all", None, None)
    assert [row["uri"] for row in member.get(RESOURCES).json()["results"]] == ["x://all", "x://staff"]
    error_of(stranger.get(f"{RESOURCES}{hidden.pk}/"), 404, "not_found")
    error_of(stranger.get(f"{PROMPTS}staff/"), 404, "not_found")
    [prompt] = member.get(PROMPTS).json()["results"]
    assert (prompt["messages"], prompt["groups"]) == (None, ["staff"])


@pytest.mark.parametrize(
    ("address", "query", "found"),
    [
        (RESOURCES, {}, 2),
        (RESOURCES, {"uri": "x://a"}, 1),
        (RESOURCES, {"backend": "blob"}, 1),
        (RESOURCES, {"enabled": "false"}, 1),
        (PROMPTS, {"enabled": "true"}, 1),
        (PROMPTS, {"backend": "python"}, 0),
    ],
)
def test_each_filter_finds_its_rows(operator, address, query, found):
    McpResourceFactory(uri="x://a")
    McpResourceFactory(uri="x://b", backend="blob", content="AAAA", enabled=False)
    McpPromptFactory()
    assert len(operator.get(address, query).json()["results"]) == found


def test_writing_takes_the_scope_or_the_permission():
    error_of(post(by_key("tools:list", "tools:call"), RESOURCES, RESOURCE), 403, "forbidden")
    error_of(by_key("audit:read").get(PROMPTS), 403, "forbidden")
    person = by_person("tools_catalog.view_mcpresource")
    assert person.get(RESOURCES).status_code == 200
    error_of(person.get(PROMPTS), 403, "forbidden")
