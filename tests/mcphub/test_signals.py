"""Signals of calls and of the catalogue: who receives them knows each call that was made, and changes none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User

from invocations.models import McpToolInvocation
from invocations.signals import call_finished, call_started
from mcphub.testing import Client
from mcphub.testing.in_place import connections_kept
from tests.factories import McpToolDefinitionFactory
from tools_catalog.backends import python
from tools_catalog.backends.python import ToolError
from tools_catalog.catalog.snapshot import Catalog
from tools_catalog.models import McpToolDefinition
from tools_catalog.signals import send_changes, tool_changed

pytestmark = pytest.mark.django_db


def halve(number: int) -> int:
    """Return the half of an even number."""
    if number % 2:
        raise ToolError("Send an even number.")
    return number // 2


@pytest.fixture(autouse=True)
def own_tool() -> Iterator[None]:
    before = dict(python.registry)
    python.tool()(halve)
    yield
    python.registry.clear()
    python.registry.update(before)


@pytest.fixture
def heard() -> Iterator[list[tuple[str, Any]]]:
    found: list[tuple[str, Any]] = []

    def started(**sent: Any) -> None:
        is_recorded = McpToolInvocation.objects.filter(invocation_id=sent["invocation_id"]).exists()
        found.append(("started", {**sent, "is_recorded": is_recorded}))

    def finished(**sent: Any) -> None:
        row = McpToolInvocation.objects.get(invocation_id=sent["invocation_id"])
        found.append(("finished", {**sent, "status": row.status}))

    def breaking(**sent: Any) -> None:
        raise RuntimeError("a fault of a receiver")

    for signal, receiver in ((call_started, started), (call_finished, breaking), (call_finished, finished)):
        signal.connect(receiver, weak=False)
    yield found
    for signal, receiver in ((call_started, started), (call_finished, breaking), (call_finished, finished)):
        assert signal.disconnect(receiver)


def test_a_call_sends_its_start_and_its_end_on_record(heard: list[tuple[str, Any]]) -> None:
    ann = User.objects.create_user("ann")
    assert Client(ann).call("halve", number=4).data == {"result": 2}
    (first, started), (second, finished) = heard
    assert (first, second) == ("started", "finished")
    assert (started["tool"], started["principal"], started["is_recorded"]) == ("halve", f"user:{ann.pk}", False)
    assert (finished["invocation_id"], finished["is_error"], finished["status"]) == (
        started["invocation_id"],
        False,
        "ok",
    )


def test_a_failure_of_the_tool_is_an_end_and_a_refusal_none(heard: list[tuple[str, Any]]) -> None:
    ann = User.objects.create_user("ann")
    assert Client(ann).call("halve", number=3).text == "Send an even number."
    assert [(name, sent.get("is_error")) for name, sent in heard] == [("started", None), ("finished", True)]
    assert Client(ann).call("halve", number="x").is_error
    assert len(heard) == 2


def test_each_difference_of_the_catalogue_is_sent_once() -> None:
    received: list[tuple[str, str]] = []

    def receive(*, tool: str, change: str, **_: Any) -> None:
        received.append((tool, change))

    def sent_between(before: Catalog, now: Catalog) -> list[tuple[str, str]]:
        received.clear()
        with connections_kept():
            async_to_sync(send_changes)(before, now)
        return list(received)

    tool_changed.connect(receive)
    try:
        McpToolDefinitionFactory(name="new")
        with_new = Catalog.load(None)
        assert sent_between(Catalog(), with_new) == [("new", "added")]
        assert sent_between(with_new, Catalog.load(with_new)) == []
        McpToolDefinition.objects.filter(name="new").update(enabled=False)
        assert sent_between(with_new, Catalog.load(with_new)) == [("new", "changed")]
        assert sent_between(with_new, Catalog()) == [("new", "removed")]
    finally:
        assert tool_changed.disconnect(receive)
