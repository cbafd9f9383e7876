"""An import of hundreds of operations leaves others room to write, and goes on where it was interrupted."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.db.models.signals import post_save
from django.utils import timezone

from mcphub.features.importers import operations, short_writes
from mcphub.features.importers.candidates import Found
from mcphub.features.importers.documents import DocumentRefused
from tests.factories import McpToolDefinitionFactory
from tools_catalog.models import HttpService, ImportedOperation, McpToolDefinition

pytestmark = pytest.mark.usefixtures("transactional_db")


def looked_at(count: int) -> Found:
    paths = {f"/things/{number}": {"get": {"operationId": f"thing{number}"}} for number in range(count)}
    document = {"openapi": "3.1.0", "info": {"title": "Things"}, "servers": [{"url": "https://things.example"}]}
    raw = json.dumps({**document, "paths": paths}).encode()
    return operations.look(raw, operations.OPENAPI, slug="things", prefix="things_")


def test_others_see_a_part_of_an_import_while_it_is_written() -> None:
    """So it is no single transaction, and others may write in between."""
    seen: list[int] = []

    def look(sender: object, **_: object) -> None:
        if not seen:
            take_longer_than_a_transaction_may()
        seen.append(count_elsewhere())

    post_save.connect(look, sender=McpToolDefinition)
    try:
        report = operations.bring(looked_at(3), "things")
    finally:
        post_save.disconnect(look, sender=McpToolDefinition)
    assert len(report.created) == McpToolDefinition.objects.count() == 3
    assert seen[0] == 0
    assert seen[-1] > 0


def take_longer_than_a_transaction_may() -> None:
    begun = time.monotonic()
    while time.monotonic() < begun + short_writes.LONGEST_SECONDS:
        pass


def count_elsewhere() -> int:
    """Return how many tools another connection finds."""

    def count() -> int:
        try:
            return McpToolDefinition.objects.count()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other:
        return other.submit(count).result()


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
