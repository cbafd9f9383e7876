"""The sizes of results that operators chose, as calls see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.call.base import Backend, ToolResult
from tools_catalog.call.context import ToolContext
from tools_catalog.catalog.additions import Addition
from tools_catalog.catalog.listing import without_output_schema

if TYPE_CHECKING:
    from tools_catalog.catalog.snapshot import Catalog

KEYS = "result_sizes_of_keys"
"""Bounds by the number of the key, in the additions of a configuration."""
READER = "mcphub.features.fitting.tools:read_result"


@dataclass(frozen=True, slots=True)
class Size(Addition):
    """What clients get of one tool's results."""

    fields: str = ""
    argument: str = ""
    most_characters: int | None = None
    """The smallest bound of the tool and its toolsets."""
    has_tables: bool = False
    """Tables are sent as CSV."""
    reads_parts: bool = False
    """The tool reads kept results, in parts that keep to the bound: a part is never cut into a further handle."""

    @property
    def key(self) -> str:
        return f"fitting {json.canonical([self.fields, self.argument, self.most_characters, self.has_tables])}"

    def within(self, bound: int | None) -> Size:
        return replace(self, most_characters=smallest(self.most_characters, bound))

    def definition(self, definition: dict[str, Any]) -> dict[str, Any]:
        """Return the definition with the argument for fields, and without a schema that a preview may break."""
        made = without_output_schema(definition)
        schema = definition["inputSchema"]
        if self.argument and self.argument not in schema.get("properties", {}):
            made["inputSchema"] = {**schema, "properties": {**schema.get("properties", {}), self.argument: _ARGUMENT}}
        return made

    def backend(self, backend: Backend) -> Backend:
        return _WithoutArgument(backend, self.argument) if self.argument else backend

    def chosen_fields(self, arguments: Mapping[str, Json]) -> str:
        """Return the expression for one call: the caller's where one was sent, else the operator's."""
        asked = arguments.get(self.argument) if self.argument else None
        return asked if isinstance(asked, str) and asked.strip() else self.fields


_ARGUMENT: dict[str, Json] = {
    "type": "string",
    "maxLength": 2000,
    "description": (
        "Optional JMESPath expression over the result: only what it selects is returned, such as items[].{id: id}. "
        "Leave it out for the tool's usual result."
    ),
}


class _WithoutArgument:
    """A backend whose tool does not get the argument that is the hub's."""

    def __init__(self, backend: Backend, argument: str) -> None:
        self._backend = backend
        self._argument = argument

    async def call(self, arguments: dict[str, Json], context: ToolContext) -> ToolResult:
        if self._argument in arguments:
            arguments = {name: value for name, value in arguments.items() if name != self._argument}
        return await self._backend.call(arguments, context)

    @property
    def begins_task(self) -> bool:
        return bool(getattr(self._backend, "begins_task", False))

    async def aclose(self) -> None:
        await self._backend.aclose()


def smallest(*bounds: int | None) -> int | None:
    """Return the smallest of some bounds; None where there is none."""
    return min((bound for bound in bounds if bound is not None), default=None)


def read() -> dict[int, Size]:
    """Read the sizes by the keys of their tools. Of a tool with a bound and toolsets with one the smallest applies."""
    from mcphub.features.fitting.models import ResultSize
    from tools_catalog.models import McpToolDefinition

    rows = list(ResultSize.objects.select_related("toolset"))
    found = {
        row.tool_id: Size(row.fields, row.fields_argument, row.most_characters, row.tables_as_csv)
        for row in rows
        if row.tool_id is not None
    }
    for row in rows:
        if row.toolset is not None and row.toolset.enabled:
            names = McpToolDefinition.objects.filter(name__in=row.toolset.names())
            for tool in names.values_list("pk", flat=True):
                found[tool] = found.get(tool, _UNBOUND).within(row.most_characters)
    if rows:
        functions = McpToolDefinition.objects.filter(backend="python").values_list("pk", "configuration")
        for tool in (tool for tool, configuration in functions if configuration.get("function") == READER):
            found[tool] = replace(found.get(tool, _UNBOUND), reads_parts=True)
    return found


def follow_toolsets() -> bool:
    """Return whether a change of toolsets may change the sizes of tools."""
    from mcphub.features.fitting.models import ResultSize

    return ResultSize.objects.filter(toolset__isnull=False).exists()


def read_keys(catalog: Catalog) -> dict[int, int]:
    """Read the bounds of keys, by the key's number. They change with the tools, whose lists they change."""
    from mcphub.features.fitting.models import ResultSize

    rows = ResultSize.objects.filter(key__isnull=False, most_characters__isnull=False)
    return {key: most for key, most in rows.values_list("key_id", "most_characters") if key and most}


_UNBOUND = Size()
