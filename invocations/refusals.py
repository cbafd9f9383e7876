"""Rows of calls that were not made. The first of a kind are rows of their own; a flood is counted in one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from invocations.ledger import Ledger
from invocations.mapping import ErrorMap, as_result
from invocations.origin import Origin
from invocations.records import Outcome, new_invocation_id
from invocations.redaction.bodies import Stored
from invocations.redaction.policy import Redactor
from invocations.rows import Rows
from sessions_app.protocol import json
from sessions_app.protocol.errors import AuditUnavailable, HubError, ToolFailure
from tools_catalog.catalog import Tool

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 60
SINGLE_ROWS = 30
"""Refusals of one caller and code that are rows of their own within a window."""
_KEPT_CHARACTERS = 4096
"""Of the arguments of a call that was not made."""


@dataclass(slots=True)
class _Flood:
    since: float
    seen: int = 0
    surplus: int = 0
    origin: Origin | None = None
    rendered: dict[str, Any] | None = None


class Refusals:
    def __init__(self, ledger: Ledger, rows: Rows, errors: Callable[[], ErrorMap]) -> None:
        self._ledger = ledger
        self._rows = rows
        self._errors = errors
        self._floods: dict[tuple[str, str], _Flood] = {}
        self._sweeper: asyncio.Task[None] | None = None

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
        origin: Origin,
        error: HubError,
        name: str,
        arguments: Any,
        request_id: str | int | None,
        received: float,
        tool: Tool | None,
        redactor: Redactor | None = None,
    ) -> dict[str, Any]:
        """Commit the refusal, or count it in a flood; give the rendered error. `tool`: where it was found.

        Raises AuditUnavailable when it cannot be committed. Sets `error.invocation_id` where a row is its own.
        """
        flood = self._floods.get((origin.caller.principal, error.code))
        if flood is None:
            flood = self._floods[origin.caller.principal, error.code] = _Flood(time.monotonic())
        flood.seen += 1
        if flood.seen > SINGLE_ROWS:
            rendered = self._errors().render(error, trace_id=origin.trace_id, tool=name)
            flood.surplus += 1
            if redactor is None:
                flood.origin, flood.rendered = origin, rendered
            elif flood.rendered is None:
                kept = _stored(arguments, redactor)
                flood.origin, flood.rendered = origin, json.loads((kept.outcome(None, rendered)[1] or "").encode())
            return rendered
        error.invocation_id = new_invocation_id()
        rendered = self._errors().render(error, invocation_id=error.invocation_id, trace_id=origin.trace_id, tool=name)
        kept = _stored(arguments, redactor)
        told = json.canonical(as_result(rendered)) if isinstance(error, ToolFailure) else None
        result, said = kept.outcome(told, rendered)
        row = self._rows.refusal(
            origin, name, kept.arguments, kept.digest, request_id, received, error.code, rendered, tool=tool,
            result=result, error=said, left_out=kept.marks, invocation_id=error.invocation_id,
        )  # fmt: skip
        await self._ledger.append(Outcome(row, error.invocation_id))
        return rendered

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(WINDOW_SECONDS / 6)
            await self._flush(time.monotonic() - WINDOW_SECONDS)

    async def _flush(self, before: float) -> None:
        for key, flood in list(self._floods.items()):
            if flood.since > before:
                continue
            del self._floods[key]
            if not flood.surplus or flood.origin is None or flood.rendered is None:
                continue
            id_ = new_invocation_id()
            row = self._rows.refusal(
                flood.origin, "", "{}", json.digest("{}"), None, time.time(), key[1], flood.rendered, invocation_id=id_,
                occurrences=flood.surplus,
            )  # fmt: skip
            try:
                await self._ledger.append(Outcome(row, id_))
            except AuditUnavailable:
                logger.warning("%d refusals (%s) were counted and could not be recorded", flood.surplus, key[1])


def _stored(arguments: Any, redactor: Redactor | None) -> Stored:
    whole = arguments if isinstance(arguments, dict) else {"not_an_object": arguments}  # the column holds objects
    return Stored(arguments, json.canonical(whole), redactor, _KEPT_CHARACTERS)
