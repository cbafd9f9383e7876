"""The one end of calls: refused, repeated, answered, failed or cancelled, each is recorded and rendered here.

Every way out leaves one row, committed before the caller learns of it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from invocations.call import repeats
from invocations.call.call import Call
from invocations.call.committing import Commits
from invocations.call.executing import End
from invocations.call.refusals import Refusals
from invocations.call.running import RunningCalls
from invocations.columns import INVOCATION, Row
from invocations.exchange import CallExchange, CallRequest
from invocations.ledger.parts import LedgerPart
from invocations.ledger.records import Outcome, Verdict
from invocations.ledger.rows import Recorded
from invocations.mapping.error_map import as_result
from invocations.redaction.hiding import Hidden
from invocations.stages import Answer, CommitPart, Refuse
from sessions_app.kit import tracing
from sessions_app.protocol import json
from sessions_app.protocol.errors import AuditUnavailable, Cancelled, HubError, SessionNotFound, ToolFailure
from tools_catalog.call.base import Json
from tools_catalog.call.noted import NOTHING_NOTED, Noted
from tools_catalog.catalog.snapshot import Tool

_RESULT = INVOCATION.position("result")


@dataclass(slots=True)
class CallResult:
    """The answer to a call that was made."""

    invocation_id: str
    wire: dict[str, Json]
    """A CallToolResult in its newest form."""
    code: str = ""
    """The internal code of its failure; empty for a call that did well."""
    duplicate_of: str = ""
    hidden: Hidden | None = None
    """The parts of its bodies that the record omits."""
    told: Mapping[str, Json] = field(default_factory=dict)
    """Members of `_meta` that stages add to the result."""

    @property
    def is_error(self) -> bool:
        return bool(self.code)


Ended: TypeAlias = CallResult | HubError
"""The end of a call. An error is raised only at the entry point: a frame that holds its own exception is a reference
cycle.
"""


@dataclass(slots=True)
class Intended:
    """The facts about a call before its backend runs."""

    started: float
    has_intent: bool
    parts: tuple[CommitPart, ...] = ()
    brought: Mapping[LedgerPart, Any] = field(default_factory=dict)
    told: Mapping[str, Json] = field(default_factory=dict)


class Finish:
    """Ends calls. One a process."""

    def __init__(self, commits: Commits, refusals: Refusals, running: RunningCalls, longest_seconds: float) -> None:
        self._commits = commits
        self._rows = commits.rows
        self._refusals = refusals
        self._running = running
        self._longest_seconds = longest_seconds

    # Calls that were not made -----------------------------------------------------------------------

    async def refused(
        self,
        request: CallRequest,
        exchange: CallExchange,
        error: HubError,
        received: float,
        tool: Tool | None,
        *,
        is_valid: bool,
        noted: Noted = NOTHING_NOTED,
    ) -> Ended:
        """Record a call that was not made; return a result where a model may act on it."""
        if isinstance(error, AuditUnavailable):
            return error
        rendered = await self._refusals.record(request, exchange, error, received, tool, is_valid=is_valid, noted=noted)
        if not isinstance(error, ToolFailure):
            return error
        tracing.current().failed(tracing.TOOL_ERROR, error.code)
        return CallResult(error.invocation_id, as_result(rendered), error.code)

    async def stopped(self, call: Call, answer: Refuse | Answer) -> Ended:
        """End a call that a stage does not let on."""
        if isinstance(answer, Answer):
            return await self._answered(call, answer)
        if answer.may_repeat and (first := await repeats.first_of(call.record.key)) is not None:
            self._show_less(call)
            return await self._repeated(call, first)
        return await self._refused(call, answer.error)

    async def not_made(self, call: Call, verdict: Verdict, parts: tuple[CommitPart, ...]) -> Ended:
        """End a call whose commit found an ended session, a refusal by a part, or a repeat."""
        if not verdict.session_alive:
            return await self._refused(call, SessionNotFound())
        if verdict.refused_by is not None:
            part, reason = verdict.refused_by
            return await self._refused(call, next(each.refusal(reason) for each in parts if each.ledger is part))
        return await self._repeated(call, verdict)

    async def _refused(self, call: Call, error: HubError) -> Ended:
        noted, record = call.record.noted, call.record
        return await self.refused(
            call.request, call.exchange, error, record.received, call.tool, is_valid=True, noted=noted
        )

    async def _answered(self, call: Call, answer: Answer) -> CallResult:
        """End a call that is answered before it is made, on record without its key: so nothing repeats it."""
        self._show_less(call)
        row = self._rows.outcome(call.record, time.time(), 0, json.canonical(answer.recorded), "", None)
        await self._commits.record(Outcome(row, call.invocation_id))
        return CallResult(call.invocation_id, answer.wire)

    async def _repeated(self, call: Call, verdict: Verdict) -> Ended:
        """Answer a key that was used before: as the first call was, or not at all where it asked for other things."""
        first, record = verdict.first_invocation_id, call.record
        assert record.key is not None
        answer = await self._first_answer(call, verdict)
        wire, rendered, error = answer.wire, answer.rendered, answer.error
        code = ""
        if error is not None:
            if rendered is None:
                rendered = record.configuration.errors.render(
                    error, invocation_id=call.invocation_id, trace_id=record.source.trace_id, retry_safe=True
                )  # asking once more under the same key does nothing twice
            code = rendered["data"]["errorCode"]
            if isinstance(error, ToolFailure) and wire is None:
                wire = as_result(rendered)  # recovery knows of no result
        text = None if wire is None else json.canonical(wire)
        row = self._rows.outcome(record, time.time(), 0, text, code, rendered, duplicate_of=first)
        await self._commits.record(Outcome(row, call.invocation_id))
        if wire is None:
            assert error is not None
            return error
        return CallResult(call.invocation_id, wire, code, first)

    async def _first_answer(self, call: Call, verdict: Verdict) -> repeats.RepeatAnswer:
        first, key = verdict.first_invocation_id, call.record.key
        assert key is not None
        if verdict.first_fingerprint != key[2]:
            error = repeats.other_request(first, key[0])
            error.invocation_id = call.invocation_id
            return repeats.RepeatAnswer(error=error)
        past = await repeats.outcome_of(first, self._running, self._longest_seconds)
        return repeats.answer_of(past, first, key[0])

    def _show_less(self, call: Call) -> None:
        """Let the row of a call that is not made now hold no more than that of one that is."""
        shown = self._refusals.shown(call.request.arguments, call.tool)
        if shown is not call.request.arguments:
            call.record.show(shown)

    # Calls that were made ---------------------------------------------------------------------------

    async def ended(self, call: Call, end: End, intended: Intended) -> Ended:
        """Record the end of the backend's run; return the result, or the failure."""
        record, code = call.record, end.code
        row = self._rows.outcome(record, intended.started, end.seconds, end.recorded, code, end.rendered)
        outcome = Outcome(row, record.invocation_id)
        if not intended.has_intent:
            outcome.key = record.key
            if code != Cancelled.code:  # the end of a session cancels its calls, which must not read as refused
                outcome.session_id = record.session
        if intended.brought:
            outcome.brings = _of_outcome(intended, end.recorded)
        verdict = await self._commits.record(outcome)
        if not verdict.session_alive or verdict.first_invocation_id:
            return await self.not_made(call, verdict, intended.parts)
        for part in intended.parts:
            await part.ended(call, end.wire)
        if tracing.recorder is not None:
            _show_in_span(call, end, row)
        if end.failure is not None and not end.is_result:
            return end.failure
        assert end.wire is not None
        hidden = record.stored.hidden if record.stored is not None else None
        return CallResult(record.invocation_id, end.wire, code, "", hidden, intended.told)

    async def recorded(self, record: Recorded, end: End, started: float) -> None:
        """Record the end of a read. It repeats nothing, and no commit of its end can refuse it."""
        row = self._rows.outcome(record, started, end.seconds, end.recorded, end.code, end.rendered)
        await self._commits.record(Outcome(row, record.invocation_id))


def _of_outcome(intended: Intended, result: str | None) -> dict[LedgerPart, Any]:
    """Return an outcome's additions to the parts that its intent added to."""
    brings: dict[LedgerPart, Any] = {}
    for part in intended.parts:
        ledger = part.ledger
        if ledger is not None and ledger in intended.brought:
            more = part.of_outcome(intended.brought[ledger], result)
            if more:
                brings[ledger] = more
    return brings


def _show_in_span(call: Call, end: End, row: Row) -> None:
    """Copy the row of a call into its span, with bodies as recorded."""
    span = tracing.current()
    if span.is_recording:
        span.set("mcphub.invocation.id", call.invocation_id)
    if span.tells_bodies:
        span.set("gen_ai.tool.call.arguments", call.record.arguments)
        if isinstance(result := row[_RESULT], str):
            span.set("gen_ai.tool.call.result", result)
    if end.failure is not None and end.is_result:
        span.failed(tracing.TOOL_ERROR, end.code)


def opened(ended: Ended) -> CallResult:
    """Return the result of a call, or raise its error."""
    if isinstance(ended, CallResult):
        return ended
    try:
        raise ended
    finally:
        del ended  # its traceback holds this frame
