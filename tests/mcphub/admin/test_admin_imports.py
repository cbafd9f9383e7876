"""Descriptions of APIs in the admin: looked at, chosen from, imported; and who may."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from tools_catalog.models import HttpService, McpToolDefinition

TICKETS: dict[str, Any] = {
    "openapi": "3.1.0",
    "servers": [{"url": "https://tickets.example/v1"}],
    "paths": {
        "/tickets": {"get": {"operationId": "list", "description": "All. <script>alert(1)</script>"}},
        "/files": {"post": {"requestBody": {"required": True, "content": {"multipart/form-data": {}}}}},
        "/tickets/[all]": {"get": {"operationId": "odd"}},
    },
}


def look(client: Any, document: Any, **more: Any) -> Any:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    given = {"service": "tickets", "kind": "openapi", "document": SimpleUploadedFile("x.json", raw), **more}
    return client.post(reverse("admin:service_import"), given)


def test_a_description_is_looked_at_and_then_chosen_from(log_in: Any) -> None:
    client = log_in("Operator")
    page = look(client, TICKETS).content.decode()
    assert "GET /tickets" in page
    assert "&lt;script&gt;" in page
    assert "tools send JSON, forms or text" in page
    assert not McpToolDefinition.objects.exists()
    assert not HttpService.objects.exists()
    answer = client.post(reverse("admin:service_import"), {"chosen": "1", "operation": ["GET /tickets/[all]"]})
    assert answer.status_code == 302
    assert list(McpToolDefinition.objects.values_list("name", flat=True)) == ["tickets_odd"]
    newest = McpToolDefinition.objects.get().versions.first()
    assert newest is not None
    assert newest.author == client.user
    listed = client.get(answer["Location"]).content.decode()
    assert "tickets_odd" in listed
    changed = json.loads(json.dumps(TICKETS))
    changed["paths"]["/tickets/[all]"]["get"]["description"] = "Odd ones."
    page = look(client, changed).content.decode()
    assert "+ Odd ones." in page


@pytest.mark.parametrize(
    ("document", "words"),
    [(b"{", "not valid JSON"), ({"swagger": "2.0"}, "Swagger 2"), ({**TICKETS, "servers": []}, "names no server")],
)
def test_what_cannot_be_imported_is_said_on_the_page(log_in: Any, document: Any, words: str) -> None:
    page = look(log_in("Operator"), document).content.decode()
    assert words in page


def test_an_address_inside_is_not_fetched(log_in: Any) -> None:
    given = {"service": "tickets", "kind": "openapi", "source": "http://169.254.169.254/latest/meta-data"}
    page = log_in("Operator").post(reverse("admin:service_import"), given).content.decode()
    assert "is not on the public internet" in page


def test_either_a_file_or_an_address(log_in: Any) -> None:
    given = {"service": "tickets", "kind": "openapi"}
    assert (
        "Give a file or an address." in log_in("Operator").post(reverse("admin:service_import"), given).content.decode()
    )


@pytest.mark.parametrize("role", ["Viewer", "Auditor"])
def test_who_may_not_write_tools_may_not_import(log_in: Any, role: str) -> None:
    client = log_in(role)
    assert client.get(reverse("admin:service_import")).status_code == 403
    assert look(client, TICKETS).status_code == 403


def test_a_draft_that_is_gone_is_asked_for_again(log_in: Any) -> None:
    answer = log_in("Operator").post(reverse("admin:service_import"), {"chosen": "1"}, follow=True)
    assert "no longer there" in answer.content.decode()
