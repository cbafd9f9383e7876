"""An import of hundreds of operations leaves others room to write, and goes on where it was interrupted."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models.signals import post_save
from django.utils import timezone

from tests.factories import McpToolDefinitionFactory
from tools_catalog.importers import operations
from tools_catalog.importers.candidates import Found
from tools_catalog.importers.documents import DocumentRefused
from tools_catalog.models import HttpService, ImportedOperation, McpToolDefinition

pytestmark = pytest.mark.usefixtures("transactional_db")

MANY = 300


def looked_at(count: int) -> Found:
    paths = {f"/things/{number}": {"get": {"operationId": f"thing{number}"}} for number in range(count)}
    document = {"openapi": "3.1.0", "info": {"title": "Things"}, "servers": [{"url": "https://things.example"}]}
    raw = json.dumps({**document, "paths": paths}).encode()
    return operations.look(raw, operations.OPENAPI, slug="things", prefix="things_")


def test_others_write_while_an_import_is_written() -> None:
    """Who writes in between sees some of the tools and not yet all: one transaction would show none or all."""
    found, seen, is_over = looked_at(MANY), set[int](), threading.Event()

    def write_too() -> None:
        while not is_over.is_set():
            with transaction.atomic():
                McpToolDefinition.objects.filter(name="of somebody else").update(title="")
                seen.add(McpToolDefinition.objects.count())
            is_over.wait(0.005)
        connection.close()

    writer = threading.Thread(target=write_too)
    writer.start()
    try:
        report = operations.bring(found, "things")
    finally:
        is_over.set()
        writer.join()
    assert len(report.created) == McpToolDefinition.objects.count() == MANY
    assert seen - {0, MANY}


def test_one_refused_operation_keeps_everything_out() -> None:
    McpToolDefinitionFactory(name="things_thing1")
    report = operations.bring(looked_at(3), "things")
    assert [key for key, _ in report.refused] == ["GET /things/1"]
    assert not HttpService.objects.exists()
    assert McpToolDefinition.objects.count() == 1


def test_an_import_during_which_a_tool_was_edited_stops_and_can_be_repeated() -> None:
    operations.bring(looked_at(2), "things")
    changed: Any = looked_at(4)
    for candidate in changed.candidates[:2]:
        candidate.definition["description"] = "Said anew."

    def edit(sender: object, **_: object) -> None:
        McpToolDefinition.objects.filter(name="things_thing1").update(updated_at=timezone.now())

    post_save.connect(edit, sender=ImportedOperation)
    try:
        with pytest.raises(DocumentRefused, match="import it again"):
            operations.bring(changed, "things", only=["*"])
    finally:
        post_save.disconnect(edit, sender=ImportedOperation)
    report = operations.bring(changed, "things", only=["*"])
    assert not report.refused
    assert ImportedOperation.objects.count() == 4
    assert {*McpToolDefinition.objects.values_list("description", flat=True)[:2]} == {"Said anew."}
