"""Rows of tools as rules about calls, guardrails and quotas see them, without compiling them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sessions_app.protocol import directions
from sessions_app.protocol.json import Json
from tools_catalog.kinds.registry import by_approval, kind_of
from tools_catalog.models.aliases import McpAlias

if TYPE_CHECKING:
    from tools_catalog.models.definitions import McpToolDefinition


@dataclass(frozen=True, slots=True)
class RuledRow:
    """A tool as rules see it."""

    name: str
    version: str
    connection: str | None
    read_only: bool
    definition: dict[str, Any]
    owner: int | None = None
    former: tuple[str, ...] = ()
    key: int | None = None


def ruled(row: McpToolDefinition, former: tuple[str, ...] | None = None) -> RuledRow:
    """Return a row's attributes for call rules. `former`: the names that still lead to it, read if None."""
    if former is None:
        former = former_names(row.pk).get(row.pk, ()) if row.pk else ()
    connection = row.configuration.get("connection") if row.backend in by_approval() else None
    words = definition_of(row)
    return RuledRow(row.name, row.version, connection, row.read_only, words, row.workspace_id, former, row.pk)


def former_names(tool: int | None = None) -> dict[int, tuple[str, ...]]:
    """Return the former names that still lead to each tool, or to one."""
    rows = McpAlias.objects.live().filter(tool__isnull=False).order_by("name")
    found: dict[int, tuple[str, ...]] = {}
    for key, name in (rows if tool is None else rows.filter(tool=tool)).values_list("tool_id", "name"):
        found[key] = (*found.get(key, ()), name)
    return found


def definition_of(row: McpToolDefinition) -> dict[str, Json]:
    """Return the Tool object of a row, in the newest revision; raise ValueError where its configuration is broken."""
    definition: dict[str, Any] = {"name": row.name}
    if row.title:
        definition["title"] = row.title
    definition["description"] = row.description
    definition["inputSchema"] = row.input_schema
    if row.output_schema:
        definition["outputSchema"] = row.output_schema
    definition["annotations"] = {**({"title": row.title} if row.title else {}), **kind_of(row.backend).annotations(row)}
    if row.task_support != "forbidden":
        definition["execution"] = {"taskSupport": row.task_support}
    if row.meta:
        definition["_meta"] = row.meta
    return directions.plain_words(definition)
