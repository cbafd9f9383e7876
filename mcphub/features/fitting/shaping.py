"""Makes results fit after they were checked and before they are recorded: the record holds what the client got."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from channels.db import database_sync_to_async

from mcphub.features.fitting import handles
from mcphub.features.fitting.fitting import META, Fitted, fitted, note
from mcphub.features.fitting.settings import KEYS, Size, smallest
from sessions_app.protocol import json

if TYPE_CHECKING:
    from invocations.call.call import Call
    from invocations.calling import Calls
    from invocations.configuration import Configuration
    from sessions_app.caller import Caller
    from sessions_app.protocol.json import Json
    from tools_catalog.catalog.snapshot import Tool

logger = logging.getLogger(__name__)

_NOT_RECORDED = "[Not on record: it was sent in another form than the one in which redaction rules hide values.]"
_NO_KEYS: Mapping[int, int] = {}
_AT_ONCE = 64 * 1024
"""Characters of a result that is made to fit on the event loop."""


class Shaper:
    """One a process."""

    calls: ClassVar[Calls]
    """Of this process, for the tool that reads kept results: a function of the catalogue has no way to it."""
    only: ClassVar[Shaper]

    def __init__(self, calls: Calls) -> None:
        Shaper.calls, Shaper.only = calls, self

    def concerns(self, tool: Tool, configuration: Configuration) -> bool:
        size = _size_of(tool)
        if size is not None:
            return not size.reads_parts
        # The tools that search and describe others are not the catalogue's, and bound their results themselves.
        return bool(self.bounded_keys(configuration)) and tool.name in configuration.catalog.tools

    def bounded_keys(self, configuration: Configuration) -> Mapping[int, int]:
        found: Mapping[int, int] = configuration.additions.get(KEYS, _NO_KEYS)
        return found

    def bound(self, tool: Tool, caller: Caller, configuration: Configuration) -> int | None:
        """Return the bound of a caller's results of a tool: the smallest of the tool, its toolsets and the key."""
        size, keys = _size_of(tool), self.bounded_keys(configuration)
        of_key = None if caller.key_id is None else keys.get(caller.key_id)
        return smallest(None if size is None else size.most_characters, of_key)

    async def shaped(self, call: Call, wire: dict[str, Json], text: str) -> tuple[dict[str, Json], str]:
        """Return the result as the client gets it, and its canonical JSON, which `text` is of `wire`."""
        chosen, source = _size_of(call.tool), call.exchange.source
        bound = self.bound(call.tool, source.caller, call.exchange.configuration)
        if source.called_by is not None:  # a program reads it, and what that returns reaches a model
            bound = None
        fields = "" if chosen is None else chosen.chosen_fields(call.arguments)
        has_tables = chosen is not None and chosen.has_tables and source.called_by is None
        if not fields and not has_tables and (bound is None or len(text) <= bound):
            return wire, text
        if len(text) <= _AT_ONCE:
            made = _fitted(call, wire, fields, bound, has_tables)
        else:
            made = await asyncio.to_thread(_fitted, call, wire, fields, bound, has_tables)
        if made.is_unchanged:
            return wire, text
        hidden = _hidden(call, text)
        shown = await self._with_note(call, made, wire, text, is_hidden=bool(hidden))
        recorded = _without_values(shown) if hidden.places and (made.fields or made.has_tables) else shown
        return shown, json.canonical(recorded)

    async def _with_note(
        self, call: Call, made: Fitted, wire: dict[str, Json], text: str, *, is_hidden: bool
    ) -> dict[str, Json]:
        """Return the fitted result with its note, its link and its facts."""
        handle = None if made.is_whole else await self._kept(call, wire, text, is_hidden=is_hidden)
        uri = "" if handle is None else handle.uri
        until = "" if handle is None else handle.expires_at.strftime("%Y-%m-%dT%H:%M:%SZ")
        whole, shown = len(text), len(json.canonical(made.wire))
        content = [*made.wire["content"], {"type": "text", "text": note(made, whole, shown, uri, until)}]
        if handle is not None:
            content.append(
                {
                    "type": "resource_link",
                    "uri": uri,
                    "name": f"{call.tool.name} result",
                    "description": f"The whole result, {whole} characters, until {until}.",
                    "mimeType": "application/json",
                }
            )
        facts: dict[str, Json] = {
            "whole": {
                "characters": whole,
                "bytes": json.size(text),
                "digest": call.record.configuration.redaction.tag(wire) if is_hidden else f"sha256:{json.digest(text)}",
            },
            "shown": {"characters": shown},
            **({"fields": made.fields} if made.fields else {}),
            **({"problem": made.problem} if made.problem else {}),
            **({"tables": "csv"} if made.has_tables else {}),
            **({"withoutStructuredContent": made.without_structured} if made.without_structured else {}),
            "leftOut": [
                {"path": each.path, "unit": each.unit, "shown": each.shown, "total": each.total}
                for each in made.left_out
            ],
            **({"uri": uri, "expiresAt": until} if uri else {}),
        }
        return {**made.wire, "content": content, "_meta": {**wire.get("_meta", {}), META: facts}}

    async def _kept(self, call: Call, wire: dict[str, Json], text: str, *, is_hidden: bool) -> handles.Handle | None:
        """Keep the whole result; None where it is too large, or cannot be kept."""
        if len(text) > handles.LARGEST:
            return None
        try:
            return await database_sync_to_async(handles.keep)(
                wire,
                principal=call.exchange.source.caller.principal,
                tool_name=call.tool.name,
                invocation_id=call.invocation_id,
                characters=len(text),
                is_hidden=is_hidden,
            )
        except Exception:
            logger.exception("The whole result of %s could not be kept", call.tool.name)
            return None


@dataclass(frozen=True, slots=True)
class _HiddenParts:
    """What the record hides of a whole result. False: nothing."""

    is_any: bool = False
    places: bool = False

    def __bool__(self) -> bool:
        return self.is_any


def _hidden(call: Call, text: str) -> _HiddenParts:
    """Look for hidden values in the whole: a preview may show them elsewhere, where no rule would find them."""
    record = call.record
    if record.redactor is None or (record.stored is None and record.redactor.spares_outcome(text)):
        return _HiddenParts()
    stored = record.stored_with(text)
    if stored is None:
        return _HiddenParts()
    stored.outcome(text, None)
    places = bool(stored.left_out.get("result", {}).get("redacted"))
    return _HiddenParts(places or bool(stored.hidden), places)


def _without_values(shown: dict[str, Json]) -> dict[str, Json]:
    """Return a result as it is recorded whose values are elsewhere than the rules of the record expect them."""
    recorded = {name: value for name, value in shown.items() if name != "structuredContent"}
    recorded["content"] = [{"type": "text", "text": _NOT_RECORDED}, *shown["content"][1:]]
    return recorded


def _size_of(tool: Tool) -> Size | None:
    return next((each for each in tool.additions if isinstance(each, Size)), None)


def _fitted(call: Call, wire: dict[str, Json], fields: str, bound: int | None, has_tables: bool) -> Fitted:
    schema = call.tool.result
    is_valid = (lambda value: True) if schema is None else schema.is_valid
    return fitted(wire, fields, bound, is_valid, has_tables=has_tables)
