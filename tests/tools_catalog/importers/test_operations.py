"""Imports into the catalogue: new, changed, gone, chosen, and what was written here."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.factories import McpToolDefinitionFactory
from tools_catalog.importers import operations
from tools_catalog.importers.documents import DocumentRefused
from tools_catalog.importers.operations import Imported
from tools_catalog.models import HttpService, McpToolDefinition

pytestmark = pytest.mark.django_db

FIRST: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Tickets"},
    "servers": [{"url": "https://tickets.example/v1"}],
    "paths": {
        "/tickets": {"get": {"operationId": "list", "description": "All."}},
        "/tickets/{n}": {
            "get": {
                "operationId": "read", "description": "One.",
                "parameters": [{"name": "n", "in": "path", "required": True, "schema": {"type": "integer"}}],
            }
        },
    },
}  # fmt: skip


def bring(document: Any, **more: Any) -> Imported:
    raw = json.dumps(document).encode()
    found = operations.look(raw, operations.OPENAPI, slug="tickets", prefix="tickets.")
    return operations.bring(found, "tickets", **more)


def test_the_first_import_makes_service_and_tools_and_the_second_nothing() -> None:
    report = bring(FIRST)
    assert report.created == ["tickets.list", "tickets.read"]
    assert HttpService.objects.get().url == "https://tickets.example/v1"
    tool = McpToolDefinition.objects.get(name="tickets.read")
    assert (tool.read_only, tool.destructive, tool.idempotent) == (False, False, True)
    newest = tool.versions.first()
    assert newest is not None
    assert newest.reason == "import of tickets"
    again = bring(FIRST)
    assert (again.unchanged, again.created, again.changed) == (["tickets.list", "tickets.read"], [], [])
    assert tool.versions.count() == 1


def test_what_was_written_here_stays_and_the_rest_follows() -> None:
    bring(FIRST)
    tool = McpToolDefinition.objects.get(name="tickets.read")
    tool.description = "Our words."
    tool.name = "ticket"
    tool.read_only = True
    tool.save()
    changed = copy.deepcopy(FIRST)
    operation = changed["paths"]["/tickets/{n}"]["get"]
    operation["description"] = "Another."
    operation["parameters"][0]["schema"]["minimum"] = 1
    report = bring(changed)
    tool.refresh_from_db()
    assert (tool.name, tool.description, tool.read_only) == ("ticket", "Our words.", True)
    assert tool.input_schema["properties"]["n"] == {"type": "integer", "minimum": 1}
    assert list(report.differences["ticket"]) == ["input_schema"]
    assert sorted(report.overridden["ticket"]) == ["description", "name", "read_only"]
    assert "description" in bring(changed).overridden["ticket"]


def test_a_dry_run_tells_and_changes_nothing() -> None:
    report = bring(FIRST, dry_run=True)
    assert report.created == ["tickets.list", "tickets.read"]
    assert not McpToolDefinition.objects.exists()
    assert not HttpService.objects.exists()


def test_operations_are_chosen_once_and_later_ones_only_offered() -> None:
    report = bring(FIRST, only=["*read"])
    assert (report.created, report.offered) == (["tickets.read"], ["GET /tickets"])
    assert bring(FIRST).offered == ["GET /tickets"]
    assert bring(FIRST, only=["GET /tickets"]).created == ["tickets.list"]


def test_what_the_description_no_longer_has_is_switched_off() -> None:
    bring(FIRST)
    smaller = copy.deepcopy(FIRST)
    del smaller["paths"]["/tickets"]
    assert bring(smaller).gone == ["tickets.list"]
    assert not McpToolDefinition.objects.get(name="tickets.list").enabled
    assert bring(smaller).gone == []


def test_a_name_that_is_taken_is_refused_and_nothing_comes() -> None:
    McpToolDefinitionFactory(name="tickets.read")
    report = bring(FIRST)
    [(key, why)] = report.refused
    assert key == "GET /tickets/{n}"
    assert "name" in why
    assert McpToolDefinition.objects.count() == 1


def test_reads_are_read_only_where_the_operator_says_so() -> None:
    bring(FIRST, reads_only=True)
    assert McpToolDefinition.objects.filter(read_only=True).count() == 2


@pytest.mark.parametrize("server", ["", "http://127.0.0.1/", "ftp://h/", "https://u:p@h/", "https://h/{x}"])
def test_a_server_that_must_not_be_called_is_refused(server: str) -> None:
    with pytest.raises(DocumentRefused):
        bring({**FIRST, "servers": [{"url": server}]})
    assert not McpToolDefinition.objects.exists()
