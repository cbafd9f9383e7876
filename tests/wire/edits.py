"""Edits of the catalogue while clients listen, and what tells that the clients have heard."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from tests import operations
from tests.servers import Hub

CHANGED = "notifications/tools/list_changed"

TOOL, RESOURCE, PROMPT = (f"tools_catalog.{name}" for name in ("McpToolDefinition", "McpResource", "McpPrompt"))


@contextlib.contextmanager
def edited(hub: Hub, tool: str) -> Iterator[None]:
    """Switch a tool off, as an operator would from another process; switch it on again afterwards.

    Then no news of it is on its way any more, which a stream of the next test would tell.
    """
    hub.operate(operations.change, TOOL, {"name": tool}, enabled=False)
    try:
        yield
    finally:
        hub.operate(operations.change, TOOL, {"name": tool}, enabled=True)
        hub.settle()


def names(answer: Any) -> set[str]:
    return {tool["name"] for tool in answer.json()["result"]["tools"]}


def by_method(heard: Iterator[dict[str, Any]], count: int) -> dict[str, Any]:
    messages = [next(heard) for _ in range(count)]
    return {message["method"]: message["params"] for message in messages}
