"""Tools in the admin: edits make versions, switches ask first, old versions come back."""

from __future__ import annotations

import json
from html import escape

import pytest
from django.urls import reverse

from sessions_app.history.reading import history_of
from tests.factories import GroupFactory, McpToolDefinitionFactory
from tools_catalog.models import McpToolDefinition, Secret

LIST = "admin:tools_catalog_mcptooldefinition_changelist"
ADD = "admin:tools_catalog_mcptooldefinition_add"


def change(tool):
    return reverse("admin:tools_catalog_mcptooldefinition_change", args=[tool.pk])


def form_of(tool, **changes):
    function = tool.configuration.get("function", "")
    data = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "input_schema": json.dumps(tool.input_schema),
        "output_schema": json.dumps(tool.output_schema),
        "backend": tool.backend,
        "function": function,
        "configuration": json.dumps(tool.configuration),
        "timeout_seconds": "30",
        "meta": "{}",
        "task_support": "forbidden",
        "requirements": "{}",
        "enabled": "on",
        "change_reason": "",
        **{flag: "on" for flag in ("read_only", "destructive", "idempotent", "open_world") if getattr(tool, flag)},
    }
    return {**data, **changes}


def test_an_edit_makes_the_next_version_with_author_and_reason(log_in, echo):
    client = log_in("Operator")
    response = client.post(change(echo), form_of(echo, description="Says it again.", change_reason="clearer"))
    assert response.status_code == 302, response.context["errors"]
    version = echo.versions.first()
    assert (version.version, version.reason, version.author) == ("2", "clearer", client.user)
    assert version.definition["description"] == "Says it again."
    record = history_of(echo).first()
    assert (record.actor, record.reason) == (f"user:{client.user.pk}", "clearer")


def test_an_edit_without_a_change_makes_no_version(log_in, echo):
    assert log_in("Operator").post(change(echo), form_of(echo)).status_code == 302
    assert echo.versions.count() == 1


def test_key_order_of_a_schema_is_kept(log_in, echo):
    text = '{"type": "object", "properties": {"z": {}, "200": {}, "a": {}}, "required": []}'
    response = log_in("Operator").post(change(echo), form_of(echo, input_schema=text))
    assert response.status_code == 302, response.context["errors"]
    stored = McpToolDefinition.objects.get(pk=echo.pk).input_schema
    assert json.dumps(stored) == text
    page = log_in("Operator").get(change(echo)).content.decode()
    assert page.index("&quot;z&quot;") < page.index("&quot;200&quot;") < page.index("&quot;a&quot;")


@pytest.mark.parametrize(
    ("field", "text", "told"),
    [
        ("input_schema", '{"type": "object",', "line 1"),
        ("input_schema", '{"type": "object", "type": "object"}', "type"),
        ("input_schema", '{"type": "string"}', "object"),
        ("output_schema", '{"type": "nonsense"}', "schema"),
        ("meta", "[]", "object"),
        ("name", "no blanks", "characters"),
        ("configuration", '{"function": "os:system"}', "function"),
    ],
)
def test_errors_stand_at_their_field(field, text, told, log_in, echo):
    changes = {field: text, **({"function": ""} if field == "configuration" else {})}
    response = log_in("Operator").post(change(echo), form_of(echo, **changes))
    assert response.status_code == 200
    errors = response.context["adminform"].form.errors
    assert told in str(errors[field])
    assert escape(text) in response.content.decode()  # what was typed is there to be mended
    assert echo.versions.count() == 1


def test_a_python_tool_is_added_by_choosing_its_function(log_in):
    client = log_in("Operator")
    data = {
        "backend": "python",
        "function": "tools_catalog.packs.starter.tools:add",
        "timeout_seconds": "5",
        "task_support": "forbidden",
        "enabled": "on",
        "read_only": "on",
        "change_reason": "first",
    }
    response = client.post(reverse(ADD), data)
    assert response.status_code == 302, response.context["errors"]
    tool = McpToolDefinition.objects.get(name="add")
    assert tool.configuration == {"function": "tools_catalog.packs.starter.tools:add"}
    assert tool.input_schema["properties"]
    assert tool.versions.get().reason == "first"


def test_an_unknown_function_is_refused(log_in):
    data = {"backend": "python", "function": "os:system", "name": "x", "description": "x", "timeout_seconds": "5"}
    response = log_in("Operator").post(reverse(ADD), {**data, "input_schema": '{"type": "object"}'})
    assert "function" in response.context["adminform"].form.errors
    assert not McpToolDefinition.objects.exists()


@pytest.mark.parametrize(("action", "before"), [("disable_selected", True), ("enable_selected", False)])
def test_switching_tools_asks_first_then_says_what_it_did(action, before, log_in):
    tools = [McpToolDefinitionFactory(enabled=before) for _ in range(3)]
    already = McpToolDefinitionFactory(enabled=not before)
    client = log_in("Operator")
    data = {"action": action, "_selected_action": [tool.pk for tool in [*tools, already]]}
    asked = client.post(reverse(LIST), data)
    assert asked.status_code == 200
    page = asked.content.decode()
    assert all(f"<strong>{tool.name}</strong>" in page for tool in tools)
    assert "3 tools" in page
    assert McpToolDefinition.objects.filter(enabled=before).count() == 3
    done = client.post(reverse(LIST), {**data, "confirmed": "yes", "reason": "Friday"}, follow=True)
    assert McpToolDefinition.objects.filter(enabled=before).count() == 0
    words = " ".join(map(str, done.context["messages"]))
    assert "3 tools" in words
    assert tools[0].name in words
    record = history_of(tools[0]).first()
    assert (record.actor, record.reason) == (f"user:{client.user.pk}", "Friday")


def test_a_viewer_reads_tools_and_changes_none(log_in, echo):
    client = log_in("Viewer")
    assert client.get(change(echo)).status_code == 200
    assert client.post(change(echo), form_of(echo, description="Mine now.")).status_code == 403
    client.post(reverse(LIST), {"action": "disable_selected", "_selected_action": [echo.pk], "confirmed": "yes"})
    assert client.get(reverse("admin:tool_version_restore", args=[echo.pk, "1"])).status_code == 403
    echo.refresh_from_db()
    assert echo.enabled
    assert echo.versions.count() == 1


def test_versions_are_listed_compared_and_restored(log_in, echo):
    client = log_in("Operator")
    client.post(change(echo), form_of(echo, description="Second <b>words</b>.", change_reason="second"))
    listed = client.get(reverse("admin:tool_versions", args=[echo.pk])).content.decode()
    assert "second" in listed
    compared = client.get(reverse("admin:tool_version", args=[echo.pk, "2"]))
    assert [field.field for field in compared.context["fields"]] == ["description"]
    assert "Second &lt;b&gt;words&lt;/b&gt;." in compared.content.decode()
    with_current = client.get(reverse("admin:tool_version", args=[echo.pk, "1"]), {"against": "current"})
    assert with_current.context["left"].version == "1"
    assert with_current.context["right"].version == "2"
    assert client.get(reverse("admin:tool_version", args=[echo.pk, "1"]), {"against": "9"}).status_code == 404
    restore = reverse("admin:tool_version_restore", args=[echo.pk, "1"])
    assert client.get(restore).status_code == 200
    client.post(restore, {"reason": "not yet confirmed"})
    assert echo.versions.count() == 2
    client.post(restore, {"confirmed": "yes", "reason": "worse"})
    newest = echo.versions.first()
    assert (newest.version, newest.reason, newest.author) == ("3", "worse", client.user)
    assert newest.digest == echo.versions.last().digest


def test_an_old_version_that_no_longer_holds_is_not_restored(log_in, echo):
    client = log_in("Operator")
    echo.name = "echo_two"
    echo.save()
    McpToolDefinitionFactory(name="echo")
    restore = reverse("admin:tool_version_restore", args=[echo.pk, "1"])
    done = client.post(restore, {"confirmed": "yes"}, follow=True)
    assert done.context["messages"]
    assert McpToolDefinition.objects.get(pk=echo.pk).name == "echo_two"


def test_a_secret_is_written_and_never_read(log_in):
    client = log_in("Upstream manager")
    client.post(
        reverse("admin:tools_catalog_secret_add"),
        {"name": "TOKEN", "origins": "api.example.org", "places": "headers.X", "value": "the-secret-of-the-house"},
    )
    secret = Secret.objects.get()
    assert secret.value() == "the-secret-of-the-house"
    address = reverse("admin:tools_catalog_secret_change", args=[secret.pk])
    page = client.get(address).content.decode()
    assert "the-secret" not in page
    assert secret.mask in page
    client.post(address, {"origins": "api.example.net", "places": "body", "users": "tool:echo", "value": ""})
    secret.refresh_from_db()
    assert (secret.origins, secret.places, secret.users) == ("api.example.net", "body", "tool:echo")
    assert secret.value() == "the-secret-of-the-house"
    told = {"origins": "api.example.org", "places": "headers.X", "value": "another-secret-value"}
    assert client.post(address, told).status_code == 302
    secret.refresh_from_db()
    assert secret.value() == "another-secret-value"
    assert history_of(secret).first().actor == f"user:{client.user.pk}"
    refused = client.post(
        reverse("admin:tools_catalog_secret_add"),
        {"name": "a b", "origins": "*", "places": "path.X", "users": "everybody", "value": "typed-in-secret"},
    )
    assert {"name", "origins", "places", "users"} <= refused.context["adminform"].form.errors.keys()
    assert "typed-in-secret" not in refused.content.decode()


def test_a_group_that_tools_are_reserved_to_is_kept(log_in, echo):
    client = log_in("superuser")
    group = GroupFactory()
    echo.groups.add(group)
    address = reverse("admin:auth_group_delete", args=[group.pk])
    page = client.get(address)
    assert page.context["protected"] == [f"{echo.groups.through._meta.verbose_name.capitalize()}: echo"]
    client.post(address, {"post": "yes"})
    assert list(echo.groups.all()) == [group]
    client.post(
        reverse("admin:auth_group_changelist"),
        {"action": "delete_selected", "_selected_action": group.pk, "post": "yes"},
    )
    assert list(echo.groups.all()) == [group]
