"""Catalogue file, in the admin: taken out, looked at, brought in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from sessions_app.history.reading import history_of
from tests.factories import McpConnectionFactory, McpToolDefinitionFactory
from tools_catalog.bundles import bundle
from tools_catalog.models import McpToolDefinition

pytestmark = pytest.mark.django_db


@pytest.fixture
def page() -> str:
    return reverse("admin:catalogue_bundle")


def look(client: Any, page: str, document: Any, **more: str) -> Any:
    text = document if isinstance(document, str) else json.dumps(document)
    return client.post(page, {"document": SimpleUploadedFile("team.json", text.encode()), **more})


def confirm(client: Any, page: str, looked: Any, **more: Any) -> Any:
    return client.post(page, {"confirmed": "yes", "seen": looked.context.get("seen", "")}, **more)


def entry(echo: Any, **changes: Any) -> dict[str, Any]:
    return {
        "name": "echo",
        "description": echo.description,
        "inputSchema": echo.input_schema,
        "backend": "python",
        "configuration": echo.configuration,
        **changes,
    }


def test_what_is_taken_out_is_what_the_command_writes(log_in, echo, page):
    McpConnectionFactory()
    assert b"Export the catalogue" in log_in("superuser").get(page).content
    taken = log_in("superuser").get(reverse("admin:catalogue_export"))
    assert json.loads(taken.content) == json.loads(json.dumps(bundle.dump()))
    assert "attachment" in taken.headers["Content-Disposition"]


def test_a_file_is_looked_at_first_and_then_brought_in(log_in, echo, page):
    client = log_in("superuser")
    new = entry(echo, name="shout", description="Louder.")
    document = {"format": bundle.FORMAT, "tools": [entry(echo, description="Says it again."), new]}
    looked = look(client, page, document, overwrite="on")
    rows = {row["name"]: row for row in looked.context["look"]["rows"]}
    assert "description" in [field.field for field in rows["echo"]["fields"]]
    assert "Says it again." in looked.content.decode()
    assert "New" in rows["shout"]["state"]
    assert not McpToolDefinition.objects.filter(name="shout").exists()
    done = confirm(client, page, looked)
    assert {name for name, _mark, _remark in done.context["rows"]} == {"echo", "shout"}
    echo.refresh_from_db()
    assert echo.description == "Says it again."
    assert echo.versions.first().reason == "bundle team.json"
    assert history_of(echo).first().actor == f"user:{client.user.pk}"
    again = confirm(client, page, looked, follow=True)
    assert "Upload it again" in " ".join(map(str, again.context["messages"]))


def test_what_was_edited_here_is_kept_and_said_to_be(log_in, echo, page):
    client = log_in("superuser")
    looked = look(client, page, {"format": bundle.FORMAT, "tools": [entry(echo, description="Other.")]})
    (row,) = looked.context["look"]["rows"]
    assert "Kept" in row["state"]
    assert looked.context["look"]["nothing"]


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ("{", "line 1"),
        ({"format": "other/1"}, "format"),
        ({"format": bundle.FORMAT, "tools": [{"name": "x"}]}, "backend"),
    ],
)
def test_a_file_that_does_not_hold_is_refused_with_its_reason(document, told, log_in, page):
    refused = look(log_in("superuser"), page, document)
    assert told in refused.content.decode()
    assert 'name="confirmed"' not in refused.content.decode()


def test_nobody_brings_in_or_takes_out_what_they_may_not_touch(log_in, echo, page):
    McpToolDefinitionFactory(name="other")
    viewer, manager = log_in("Viewer"), log_in("Upstream manager")
    document = {"format": bundle.FORMAT, "tools": [entry(echo, description="Other.")]}
    assert b"Import a file" not in viewer.get(page).content
    assert look(viewer, page, document).status_code == 403
    mapping = {"internal_code": "timeout", "json_rpc_code": -31012, "message_template": "no", "retryable": True}
    both = document | {"error_mappings": [mapping]}
    assert look(manager, page, both, overwrite="on").status_code == 403
    assert manager.post(page, {"confirmed": "yes"}).status_code == 302
    looked = look(manager, page, document, overwrite="on")
    assert looked.status_code == 200
    assert confirm(manager, page, looked).status_code == 200
    echo.refresh_from_db()
    assert echo.description == "Other."


def test_only_what_was_looked_at_last_is_brought_in(log_in, echo, page):
    client = log_in("superuser")
    document = {"format": bundle.FORMAT, "tools": [entry(echo, description="First.")]}
    first = look(client, page, document, overwrite="on")
    look(client, page, {**document, "tools": [entry(echo, description="Second.")]}, overwrite="on")
    again = confirm(client, page, first, follow=True)  # as from another tab
    assert "Upload it again" in " ".join(map(str, again.context["messages"]))
    before = echo.description
    echo.refresh_from_db()
    assert echo.description == before
