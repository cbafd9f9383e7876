"""Examples of a tool from its recorded calls that went well, for an operator to choose from.

An example is the words of the search that found the tool before it was called, or else the texts among the arguments.
Only calls of the tool's own workspace count, or of none for a shared tool. What is hidden on record stays hidden, what
today's redaction rules hide is left out as well, and no line stays in which a detector finds something.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from datetime import timedelta
from typing import Any

from invocations.models import McpToolInvocation
from invocations.redaction import load
from invocations.redaction.bodies import StoredBodies
from invocations.redaction.policy import RedactionPolicy
from mcphub.features.call_examples.lines import LONGEST, findings, lines_of
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.catalog.search_definitions import DEFINITIONS, SEARCH
from tools_catalog.models import McpToolDefinition

_LOOKED_AT = 300
"""Of the newest good calls of the tool, and of the newest searches."""
_SOON = timedelta(minutes=10)
"""A call so soon after a search that showed the tool came of it."""
_TAGGED = "redacted:"


def proposed(tool: McpToolDefinition, known: Container[str], most: int) -> dict[str, int]:
    """Return at most so many lines that are not `known`, each with the key of the row whose arguments it is of.

    Those of searches come first, and the newest first.
    """
    workspace = None if tool.workspace is None else tool.workspace.slug
    calls, searches = _good(tool.name, workspace), _good(SEARCH, workspace)
    policy = load.load()
    found: dict[str, int] = {}
    for line, row in (*_searched(tool.name, calls, searches, policy), *_said(tool, calls, policy)):
        if len(found) == most:
            break
        if line not in known and line not in found and not findings(line):
            found[line] = row.pk
    return found


def _good(name: str, workspace: str | None) -> list[McpToolInvocation]:
    columns = ("tool_name", "principal", "arguments", "left_out", "received_at", "result")
    rows = McpToolInvocation.objects.filter(tool_name=name, status="ok", method__isnull=True, workspace=workspace)
    return list(rows.order_by("-id").only(*(columns if name == SEARCH else columns[:-1]))[:_LOOKED_AT])


def _searched(
    name: str, calls: list[McpToolInvocation], searches: list[McpToolInvocation], policy: RedactionPolicy
) -> Iterator[tuple[str, McpToolInvocation]]:
    """Yield the words of the last search before each call that showed the tool to the same caller."""
    for call in calls:
        for search in searches:
            passed = call.received_at - search.received_at
            if search.principal == call.principal and timedelta() <= passed <= _SOON and _shows(search.result, name):
                arguments = _unhidden(search, DEFINITIONS[SEARCH], policy)
                yield from ((line, search) for line in _line(arguments.get("query")))
                break


def _shows(result: Json, name: str) -> bool:
    structured = result.get("structuredContent") if isinstance(result, dict) else None
    tools = structured.get("tools") if isinstance(structured, dict) else None
    return isinstance(tools, list) and any(isinstance(each, dict) and each.get("name") == name for each in tools)


def _said(
    tool: McpToolDefinition, calls: list[McpToolInvocation], policy: RedactionPolicy
) -> Iterator[tuple[str, McpToolInvocation]]:
    """Yield the texts of each call's arguments."""
    definition = {"inputSchema": tool.input_schema, "outputSchema": tool.output_schema}
    for call in calls:
        texts = [line for value in _unhidden(call, definition, policy).values() for line in _line(value)]
        yield from ((line, call) for line in _line(", ".join(texts)))


def _unhidden(call: McpToolInvocation, definition: dict[str, Any], policy: RedactionPolicy) -> dict[str, Json]:
    """Return the arguments of a call of which nothing is hidden or cut, neither on record nor by today's rules."""
    arguments = call.arguments
    if not isinstance(arguments, dict) or "arguments" in (call.left_out or {}):
        return {}
    stored = StoredBodies(arguments, json.canonical(arguments), policy.of(call.tool_name, definition))
    return {} if "arguments" in stored.left_out else arguments


def _line(value: Json) -> list[str]:
    """Return a text as a line where it is short, one line, and has a letter; else nothing."""
    if not isinstance(value, str) or len(value) > LONGEST or "\n" in value or _TAGGED in value:
        return []
    return lines_of(value) if any(sign.isalpha() for sign in value) else []
