"""Rows of calls that were not made. The first of a kind are rows of their own; a flood is counted in one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings

from invocations.call_source import CallSource
from invocations.configuration import Configuration
from invocations.exchange import CallExchange, CallRequest
from invocations.ledger.counting import OTHER
from invocations.ledger.records import Outcome, new_invocation_id
from invocations.ledger.rows import Rows
from invocations.ledger.writer import Ledger
from invocations.mapping.error_map import as_result
from invocations.redaction.bodies import StoredBodies
from invocations.redaction.policy import Redactor
from invocations.redaction.records import RecordRedaction
from invocations.subject import RowSubject
from sessions_app.protocol import json
from sessions_app.protocol.errors import AuditUnavailable, HubError, ToolFailure
from tools_catalog.call.base import Json
from tools_catalog.call.noted import NOTHING_NOTED, Noted
from tools_catalog.catalog.snapshot import Tool

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 60
SINGLE_ROWS = 30
"""Refusals of one caller and code that are rows of their own within a window."""
_SHOWN_SECONDS = 0.1
"""Time limit for detectors on refused arguments; values that take longer are not kept."""
_KEPT_CHARACTERS = 4096
"""Of the arguments of a call that was not made."""


@dataclass(slots=True)
class _Flood:
    since: float
    seen: int = 0
    surplus: int = 0
    source: CallSource | None = None
    rendered: dict[str, Any] | None = None


class Refusals:
    def __init__(self, ledger: Ledger, rows: Rows) -> None:
        self._ledger = ledger
        self._rows = rows
        self._floods: dict[tuple[str, str, str], _Flood] = {}
        """By caller, code and, for reads, method."""
        self._sweeper: asyncio.Task[None] | None = None
        self._keeps_text = settings.MCPHUB_AUDIT_REFUSED_TEXT

    def start(self) -> None:
        self._sweeper = asyncio.create_task(self._sweep(), name="mcphub-refusals")

    async def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeper
        await self._flush(float("inf"))

    async def record(
        self,
        request: CallRequest,
        exchange: CallExchange,
        error: HubError,
        received: float,
        tool: Tool | RowSubject | None,
        *,
        is_valid: bool = False,
        noted: Noted = NOTHING_NOTED,
    ) -> dict[str, Json]:
        """Commit the refusal, or count it in a flood; give the rendered error. `tool`: if it was found; for a read,
        always its target.

        `is_valid`: the tool's schema took the arguments. `noted`: by stages, in addition to the error's own notes.

        Raises AuditUnavailable when it cannot be committed. Sets `error.invocation_id` where a row is its own.
        """
        source, errors = exchange.source, exchange.configuration.errors
        arguments = self.shown(request.arguments, tool)
        self._rows.counts.count(
            "tools/call" if tool is None else tool.method or "tools/call",
            OTHER if tool is None else tool.name,
            OTHER if tool is None else tool.connection or "",
            error.code,
            None,
        )
        name = request.name if isinstance(request.name, str) else ""
        place = (source.caller.principal, error.code, "" if tool is None else tool.method or "")
        flood = self._floods.get(place)
        if flood is None:
            flood = self._floods[place] = _Flood(time.monotonic())
        flood.seen += 1
        if flood.seen > SINGLE_ROWS:
            rendered = errors.render(error, trace_id=source.trace_id, tool=name)
            flood.surplus += 1
            if flood.rendered is None:
                kept = _stored(arguments, self._redactor(name, tool, exchange.configuration, is_valid))
                flood.source, flood.rendered = source, json.loads((kept.outcome(None, rendered)[1] or "").encode())
            return rendered
        error.invocation_id = new_invocation_id()
        rendered = errors.render(error, invocation_id=error.invocation_id, trace_id=source.trace_id, tool=name)
        kept = _stored(arguments, self._redactor(name, tool, exchange.configuration, is_valid))
        shown = json.canonical(as_result(rendered)) if isinstance(error, ToolFailure) else None
        result, recorded = kept.outcome(shown, rendered)
        if tool is None and name not in exchange.configuration.catalog.tools:
            name = RecordRedaction(exchange.configuration.redaction).words(name)  # whatever somebody wrote there
        if isinstance(tool, RowSubject) and not tool.is_known:
            tool = replace(tool, target=kept.cleaned(tool.target))
        row = self._rows.refusal(
            source,
            name,
            kept.arguments,
            kept.digest,
            request.request_id,
            received,
            error.code,
            rendered,
            tool=tool,
            result=result,
            error=recorded,
            left_out=kept.marks,
            invocation_id=error.invocation_id,
            noted=error.noted.over(noted) if isinstance(error.noted, Noted) else noted,
        )
        await self._ledger.append(Outcome(row, error.invocation_id))
        return rendered

    def shown(self, arguments: Json, tool: Tool | RowSubject | None) -> Json:
        """Return arguments as the record of a call that is not made holds them: no more than that of one that is."""
        return tool.shown(arguments, _SHOWN_SECONDS) if isinstance(tool, Tool) else arguments

    def _redactor(
        self, name: str, tool: Tool | RowSubject | None, configuration: Configuration, is_valid: bool
    ) -> Redactor | None:
        if isinstance(tool, RowSubject):
            return configuration.redaction.of_read(tool, is_refused=not is_valid, keeps_text=self._keeps_text)
        if tool is not None and is_valid:
            return configuration.redaction.of(tool.name, tool.unchanged_definition or tool.definition)
        known = configuration.catalog.tools
        definitions = {each: known[each].definition for each in known}
        if tool is not None:
            definitions[tool.name] = tool.definition
            name = tool.name
        return configuration.redaction.of_refused(name, definitions, keeps_text=self._keeps_text)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(WINDOW_SECONDS / 6)
            await self._flush(time.monotonic() - WINDOW_SECONDS)

    async def _flush(self, before: float) -> None:
        for key, flood in list(self._floods.items()):
            if flood.since > before:
                continue
            del self._floods[key]
            if not flood.surplus or flood.source is None or flood.rendered is None:
                continue
            id_ = new_invocation_id()
            row = self._rows.refusal(
                flood.source,
                "",
                "{}",
                json.digest("{}"),
                None,
                time.time(),
                key[1],
                flood.rendered,
                tool=RowSubject(method=key[2], target="") if key[2] else None,
                invocation_id=id_,
                occurrences=flood.surplus,
            )
            try:
                await self._ledger.append(Outcome(row, id_))
            except AuditUnavailable:
                logger.warning("%d refusals (%s) were counted and could not be recorded", flood.surplus, key[1])


def _stored(arguments: Json, redactor: Redactor | None) -> StoredBodies:
    whole = arguments if isinstance(arguments, dict) else {"not_an_object": arguments}  # the column holds objects
    return StoredBodies(arguments, json.canonical(whole), redactor, _KEPT_CHARACTERS)
