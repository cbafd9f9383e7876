"""The sizes of results that operators chose, as calls see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.call.base import Backend, ToolResult
from tools_catalog.call.context import ToolContext
from tools_catalog.catalog.additions import Addition


@dataclass(frozen=True, slots=True)
class Size(Addition):
    """What clients get of one tool's results."""

    fields: str = ""
    argument: str = ""
    most_characters: int | None = None

    @property
    def key(self) -> str:
        return f"fitting {json.canonical([self.fields, self.argument, self.most_characters])}"

    def definition(self, definition: dict[str, Any]) -> dict[str, Any]:
        """Return the definition with the argument for fields, and without a schema that a preview may break.

        Clients reject results without `structuredContent` where `outputSchema` is declared (MCP, Tools).
        """
        made = {name: value for name, value in definition.items() if name != "outputSchema"}
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


def read() -> dict[int, Size]:
    """Read the sizes by the keys of their tools."""
    from mcphub.features.fitting.models import ResultSize

    rows = ResultSize.objects.values_list("tool_id", "fields", "fields_argument", "most_characters")
    return {tool: Size(fields, argument, most) for tool, fields, argument, most in rows}
