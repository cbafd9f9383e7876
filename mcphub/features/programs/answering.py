"""Answers the questions of a program: calls on the one path, searches, descriptions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from invocations.call import inner
from mcphub.features.programs.outcome import ProgramAnswer
from sessions_app.protocol import json
from sessions_app.protocol.errors import ArgumentsInvalid, HubError, ParseError
from tools_catalog.catalog.searching import Index

if TYPE_CHECKING:
    from invocations.call.context import CallContext
    from mcphub.features.programs.outcome import ProgramQuestion
    from sessions_app.protocol.json import Json
    from tools_catalog.catalog.selection import Selection

MOST_FOUND = 25
_DEFAULT_FOUND = 10
_LONGEST_QUERY = 2000
_LONGEST_DESCRIPTION = 300
_indexes: WeakKeyDictionary[Selection, Index] = WeakKeyDictionary()


class ProgramAnswerer:
    """Of one program, as its caller."""

    def __init__(self, context: CallContext) -> None:
        self._context = context
        self._selection = inner.selection_of(context)
        self._caller = context.source.caller

    async def __call__(self, question: ProgramQuestion) -> ProgramAnswer:
        if question.what == "search":
            return await self._found(question.name, question.given)
        if question.what == "describe":
            return self._described(question.name)
        return await self._called(question.name, question.given)

    async def _called(self, name: str, arguments: dict[str, Json]) -> ProgramAnswer:
        refusal = ArgumentsInvalid("The arguments must be an object.") if "" in arguments else None
        try:
            result = await inner.call_tool(self._context, name, arguments, refusal=refusal)
        except HubError as error:
            return ProgramAnswer.failure(
                error.code, error.message, {"invocationId": error.invocation_id, **error.details}
            )
        details: dict[str, Json] = {"invocationId": result.invocation_id}
        pending = result.wire.get("_meta", {}).get("mcphub/approval")
        if pending is not None:
            return ProgramAnswer.failure("approval_pending", _text(result.wire), {**details, **pending})
        if result.is_error or result.wire.get("isError"):
            details |= result.wire.get("_meta", {}).get("mcphub/error", {}).get("details", {})
            return ProgramAnswer.failure(result.code or "execution_error", _text(result.wire), details)
        return ProgramAnswer(value_of(result.wire))

    async def _found(self, query: str, options: dict[str, Json]) -> ProgramAnswer:
        limit = options.get("limit", _DEFAULT_FOUND)
        if not query.strip() or len(query) > _LONGEST_QUERY:
            return ProgramAnswer.failure(
                "invalid_arguments", f"search needs a query of 1 to {_LONGEST_QUERY} characters."
            )
        if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_FOUND:
            return ProgramAnswer.failure(
                "invalid_arguments", f"The limit of search is a whole number from 1 to {MOST_FOUND}."
            )
        offered = self._selection.offered(self._caller)
        index = await index_of(self._selection)
        found = [offered[name] for name in index.rank(query) if name in offered]
        return ProgramAnswer(
            [
                {
                    "name": tool.name,
                    "description": tool.definition["description"][:_LONGEST_DESCRIPTION],
                    "readOnly": tool.read_only,
                }
                for tool in found[:limit]
            ]
        )

    def _described(self, name: str) -> ProgramAnswer:
        tool = self._selection.offered(self._caller).get(self._selection.real_name(name))
        if tool is None:
            return ProgramAnswer.failure(
                "tool_not_found", f"There is no tool named {name[:100]} here. Find the names by search."
            )
        return ProgramAnswer(tool.definition)


async def index_of(selection: Selection) -> Index:
    """Return the index of a selection, which is kept as long as the selection is."""
    found = _indexes.get(selection)
    if found is None:
        definitions = {name: tool.definition for name, tool in selection.tools.items()}
        found = _indexes[selection] = await asyncio.to_thread(Index, definitions)
    return found


def value_of(wire: dict[str, Json]) -> Json:
    """Return a result as programs handle it: the structured value, that of an only text of JSON, an only text, or
    else the content blocks.
    """
    if "structuredContent" in wire:
        return wire["structuredContent"]
    content = wire.get("content", [])
    if len(content) != 1 or content[0].get("type") != "text":
        return content
    text: str = content[0]["text"]
    if text.lstrip().startswith(("{", "[")):
        try:
            return json.loads(text.encode("utf-8", "replace"))
        except ParseError:
            return text
    return text


def _text(wire: dict[str, Json]) -> str:
    return "\n".join(block["text"] for block in wire.get("content", []) if block.get("type") == "text")
