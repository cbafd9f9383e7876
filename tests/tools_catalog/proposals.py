"""What upstreams are made to offer in tests."""

from __future__ import annotations

from typing import Any

from tests.factories import McpConnectionFactory
from tools_catalog.discovery import reconcile as discovery
from tools_catalog.models import McpConnection, McpUpstreamTool
from tools_catalog.upstream import listing


def definition(name: str = "search", **members: Any) -> dict[str, Any]:
    """A Tool object as an upstream lists it."""
    return {"name": name, "description": "Find things.", "inputSchema": {"type": "object"}, **members}


def offer(connection: McpConnection, *definitions: dict[str, Any]) -> dict[str, McpUpstreamTool]:
    """Let the upstream list these tools; give what the catalogue made of them, by their names there."""
    return offers(connection, tool=list(definitions))


def offers(connection: McpConnection, **listed: list[dict[str, Any]]) -> dict[str, McpUpstreamTool]:
    """Let the upstream list these, by kind; give what the catalogue made of them, by their names there."""
    discovery.reconcile(connection.pk, {kind: listing.read(definitions, kind) for kind, definitions in listed.items()})
    rows = connection.tools.select_related("tool", "resource", "prompt", "connection")
    return {row.upstream_name: row for row in rows}


def proposal(policy: str = "hold_all", **members: Any) -> McpUpstreamTool:
    """One tool that waits, of a connection of its own."""
    told = definition(**members)
    return offer(McpConnectionFactory(policy=policy), told)[told["name"]]
