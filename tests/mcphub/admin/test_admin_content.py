"""Resources and prompts in the admin: added, edited, switched; errors stand at their fields."""

from __future__ import annotations

import base64
import json
from importlib import import_module
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import IntegrityError
from django.db.models.signals import pre_save
from django.urls import reverse

from sessions_app.history.reading import history_of
from tests.factories import GroupFactory, McpPromptFactory, McpResourceFactory
from tests.servers import FIXTURES
from tools_catalog.models import McpPrompt, McpResource

TEMPLATE = "tests.conformance.fixtures.offers:template_data"
PROMPT = "tests.conformance.fixtures.offers:test_input_required_result_prompt"

RESOURCE = {
    "uri": "docs://start",
    "name": "start",
    "title": "",
    "description": "",
    "mime_type": "text/plain",
    "backend": "text",
    "content": "Begin here.",
    "function": "",
    "timeout_seconds": "30",
    "enabled": "on",
    "annotations": "{}",
    "completions": "{}",
    "icons": "[]",
    "meta": "{}",
    "change_reason": "",
}
MESSAGES = [{"role": "user", "content": "Hello {who}"}]
PROMPT_FORM = {
    "name": "greet",
    "title": "",
    "description": "",
    "arguments": '[{"name": "who"}]',
    "backend": "messages",
    "messages": json.dumps(MESSAGES),
    "function": "",
    "timeout_seconds": "30",
    "enabled": "on",
    "completions": "{}",
    "icons": "[]",
    "meta": "{}",
    "change_reason": "",
}


@pytest.fixture(autouse=True)
def _functions():
    import_module(f"{FIXTURES}.tools")


def page(model, verb, *arguments):
    return reverse(f"admin:tools_catalog_{model._meta.model_name}_{verb}", args=arguments)


@pytest.mark.parametrize(("model", "form"), [(McpResource, RESOURCE), (McpPrompt, PROMPT_FORM)])
def test_a_row_is_added_and_edited_with_who_and_why(model, form, log_in):
    client = log_in("Operator")
    response = client.post(page(model, "add"), {**form, "change_reason": "wanted"})
    assert response.status_code == 302, response.context["errors"]
    row = model.objects.get()
    assert {(each.actor, each.reason) for each in history_of(row)} == {(f"user:{client.user.pk}", "wanted")}
    response = client.post(page(model, "change", row.pk), {**form, "title": "New", "meta": ""})
    assert response.status_code == 302, response.context["errors"]
    row.refresh_from_db()
    assert (row.title, row.meta) == ("New", {})


def test_a_text_is_kept_to_the_blank_with_plain_line_ends(log_in):
    typed = {**RESOURCE, "content": "  # Title\r\n\r\nText.\r\n"}
    assert log_in("Operator").post(page(McpResource, "add"), typed).status_code == 302
    assert McpResource.objects.get().content == "  # Title\n\nText.\n"


def test_a_function_says_what_was_left_empty(log_in):
    client = log_in("Operator")
    empty = {"uri": "", "name": "", "mime_type": "", "backend": "python", "content": "", "function": TEMPLATE}
    response = client.post(page(McpResource, "add"), {**RESOURCE, **empty, "title": "Mine"})
    assert response.status_code == 302, response.context["errors"]
    row = McpResource.objects.get()
    assert (row.uri, row.title, row.completions) == ("test://template/{id}/data", "Mine", {"id": ["123"]})
    form = {**PROMPT_FORM, "name": "", "arguments": "", "messages": "", "backend": "python", "function": PROMPT}
    response = client.post(page(McpPrompt, "add"), form)
    assert response.status_code == 302, response.context["errors"]
    assert McpPrompt.objects.get().name == "test_input_required_result_prompt"


def test_a_file_takes_the_place_of_the_content(log_in):
    client = log_in("Operator")
    picture = {**RESOURCE, "uri": "x://b", "backend": "blob", "upload": SimpleUploadedFile("p", b"\xff\x00")}
    assert client.post(page(McpResource, "add"), picture).status_code == 302
    assert base64.b64decode(McpResource.objects.get(uri="x://b").content) == b"\xff\x00"
    text = {**RESOURCE, "uri": "x://t", "upload": SimpleUploadedFile("t", "grüße".encode())}
    assert client.post(page(McpResource, "add"), text).status_code == 302
    assert McpResource.objects.get(uri="x://t").content == "grüße"
    wrong = client.post(
        page(McpResource, "add"),
        {**picture, "backend": "text", "uri": "x://w", "upload": SimpleUploadedFile("p", b"\xff\x00")},
    )
    assert "not UTF-8 text" in str(wrong.context["adminform"].form.errors["upload"])


@pytest.mark.parametrize(
    ("model", "form", "changes", "field"),
    [
        (McpResource, RESOURCE, {"uri": "relative"}, "uri"),
        (McpResource, RESOURCE, {"annotations": '{"priority": 2}'}, "annotations"),
        (McpResource, RESOURCE, {"backend": "python"}, "function"),
        (McpResource, RESOURCE, {"backend": "blob", "content": "?"}, "content"),
        (McpPrompt, PROMPT_FORM, {"messages": "[{}]"}, "messages"),
        (McpPrompt, PROMPT_FORM, {"messages": '[{"role"'}, "messages"),
        (McpPrompt, PROMPT_FORM, {"arguments": "[1]"}, "arguments"),
        (McpPrompt, PROMPT_FORM, {"function": "os:system"}, "function"),
    ],
)
def test_errors_stand_at_their_field(model, form, changes, field, log_in):
    response = log_in("Operator").post(page(model, "add"), {**form, **changes})
    assert response.status_code == 200
    assert field in response.context["adminform"].form.errors
    assert not model.objects.exists()


@pytest.mark.parametrize(
    ("model", "factory", "search"), [(McpResource, McpResourceFactory, "x://b"), (McpPrompt, McpPromptFactory, "b")]
)
def test_lists_are_searched_filtered_and_switched(model, factory, search, log_in):
    key = "uri" if model is McpResource else "name"
    a, b = (factory(**{key: f"x://{name}" if key == "uri" else name}) for name in ("a", "b"))
    client = log_in("Operator")
    found = client.get(page(model, "changelist"), {"q": search}).context["cl"].result_list
    assert list(found) == [b]
    question = {"action": "disable_selected", "_selected_action": [a.pk, b.pk]}
    assert b"Disable 2" in client.post(page(model, "changelist"), question).content
    assert model.objects.filter(enabled=True).count() == 2
    done = client.post(page(model, "changelist"), {**question, "confirmed": "1", "reason": "out of order"})
    assert done.content.decode().count("Disabled") == 2
    assert not model.objects.filter(enabled=True).exists()
    assert history_of(a).first().reason == "out of order"
    assert not client.get(page(model, "changelist"), {"enabled__exact": "1"}).context["cl"].result_list


def test_templates_are_told_from_resources(log_in):
    McpResourceFactory(uri="x://a")
    McpResourceFactory(uri="x://{id}")
    client = log_in("Viewer")
    for answer, uri in (("no", "x://a"), ("yes", "x://{id}")):
        found = client.get(page(McpResource, "changelist"), {"template": answer}).context["cl"].result_list
        assert [row.uri for row in found] == [uri]


@pytest.mark.parametrize(("model", "factory"), [(McpResource, McpResourceFactory), (McpPrompt, McpPromptFactory)])
def test_viewers_look_and_change_nothing(model, factory, log_in):
    row = factory(description="<script>alert(1)</script>")
    row.groups.add(GroupFactory())
    client = log_in("Viewer")
    shown = client.get(page(model, "change", row.pk))
    assert shown.status_code == 200
    assert "<script>alert(1)" not in shown.content.decode()
    assert client.get(page(model, "changelist")).status_code == 200
    assert client.get(page(model, "history", row.pk)).status_code == 200
    assert client.get(page(model, "add")).status_code == 403
    assert client.post(page(model, "change", row.pk), {}).status_code == 403


def test_a_form_that_is_read_again_reads_its_file_again(log_in):
    waiting = [IntegrityError("somebody was first")]

    def refuse(**_told: Any) -> None:
        if waiting:
            raise waiting.pop()

    pre_save.connect(refuse, sender=McpResource)
    try:
        made = {**RESOURCE, "uri": "x://t", "upload": SimpleUploadedFile("t", b"all of it")}
        assert log_in("superuser").post("/admin/tools_catalog/mcpresource/add/", made).status_code == 302
    finally:
        pre_save.disconnect(refuse, sender=McpResource)
    assert (waiting, McpResource.objects.get(uri="x://t").content) == ([], "all of it")


def test_an_integrity_error_that_the_form_does_not_find_is_not_hidden(log_in):
    tries: list[str] = []

    def refuse(**_told: Any) -> None:
        tries.append("")
        raise IntegrityError("of something else")

    pre_save.connect(refuse, sender=McpResource)
    try:
        with pytest.raises(IntegrityError, match="of something else"):
            log_in("superuser").post("/admin/tools_catalog/mcpresource/add/", {**RESOURCE, "uri": "x://t"})
    finally:
        pre_save.disconnect(refuse, sender=McpResource)
    assert len(tries) == 2
