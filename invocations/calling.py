"""`call_tool`: the one door to a tool, for MCP, REST, chat and stdio alike.

Visible? within the limits? arguments valid? a repeat? Then the intent is committed, the backend runs, and the
outcome is committed before anybody hears of it. Every way out leaves one row.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from invocations import repeats
from invocations.context import Asker, CallContext, Suspended
from invocations.ledger import Ledger
from invocations.limits import take_token
from invocations.mapping import ErrorMap, as_result
from invocations.origin import Origin, Voice
from invocations.records import Intent, Outcome, Verdict
from invocations.redaction.bodies import stored
from invocations.redaction.policy import Policy, Redactor
from invocations.refusals import Refusals
from invocations.rows import Rows
from invocations.running import Call, RunningCalls, Watch
from sessions_app.protocol import json
from sessions_app.protocol.errors import (
    ArgumentsInvalid,
    AuditUnavailable,
    Cancelled,
    DuplicateRequest,
    ExecutionError,
    HubError,
    InvalidParams,
    ResultInvalid,
    ServerBusy,
    ServerError,
    SessionNotFound,
    ToolFailure,
    ToolTimeout,
)  # fmt: skip
from tools_catalog.backends.base import NOTHING, ToolResult
from tools_catalog.catalog import Catalog, Tool
from tools_catalog.selection import Selection

logger = logging.getLogger(__name__)

LONGEST_IDEMPOTENCY_KEY = 255
IDEMPOTENCY_KEY = re.compile(rf"[\x21-\x7e]{{1,{LONGEST_IDEMPOTENCY_KEY}}}")
_DEEPEST_RESULT = 256
"""Levels of arrays and objects. What clients send is bound to 64; readers of the audit must not overflow."""


Conduct = Callable[[Call, dict[str, Any], CallContext], Awaitable[ToolResult]]


@dataclass(slots=True)
class CallResult:
    """The answer to a call that was made."""

    invocation_id: str
    wire: dict[str, Any]
    """A CallToolResult in its newest form."""
    text: str | None
    """The same as canonical JSON; None where the record leaves something out."""
    is_error: bool
    duplicate_of: str = ""


class Calls:
    """The call path with all that it needs. One a process; `start` it on the event loop."""

    def __init__(
        self,
        ledger: Ledger,
        process_id: str,
        catalog: Callable[[], Catalog],
        errors: Callable[[], ErrorMap],
        redaction: Callable[[], Policy] = Policy,
    ) -> None:
        self.ledger = ledger
        self.running = RunningCalls()
        self.rows = Rows(ledger.is_sqlite, process_id)
        self.refusals = Refusals(ledger, self.rows, errors)
        self._catalog = catalog
        self._errors = errors
        self._redaction = redaction
        self._most_calls = settings.MCPHUB_MAX_CALLS
        self._longest_seconds = settings.MCPHUB_CALL_TIMEOUT_SECONDS

    def start(self) -> None:
        self.running.start()
        self.refusals.start()

    async def stop(self) -> None:
        await self.running.stop()
        await self.refusals.stop()

    async def call_tool(
        self,
        origin: Origin,
        name: Any,
        arguments: Any,
        *,
        request_id: str | int | None = None,
        idempotency_key: str | None = None,
        check: Callable[[Tool], None] | None = None,
        voice: Voice | None = None,
        progress_token: str | int | None = None,
        log_level: str | None = None,
        watch: Watch | None = None,
        asker: Callable[[], Asker] | None = None,
        conduct: Conduct | None = None,
        meta: dict[str, Any] | None = None,
        selection: Selection | None = None,
    ) -> CallResult:
        """Make one call and give its answer. `name` and `arguments` are taken as they came.

        The tool is looked for in `selection`, or else in the whole catalogue.
        `check` may raise a ProtocolError for the tool found (rungs 9 and 10 of the stateless ladder).
        `watch` returns when the client has gone and the era takes that for a cancellation. `asker` is how the tool
        asks the client. A call with an `idempotency_key` that its caller used before is not made again: it gets
        the first one's answer, with `duplicate_of`, or DuplicateRequest where it asks for something else.
        `conduct` runs the backend in place of this, under the tool's own deadline however long: see tasks. Such a
        call may be answered before its outcome is there, so its intent is always recorded.

        Raises ProtocolError or Refused for a call that was not made, AuditUnavailable where it could not
        be recorded. A ToolFailure does not come out: it is the CallResult, with `is_error`.
        """
        received = time.time()
        tool: Tool | None = None
        try:
            origin.caller.need("tools:call")
            if not isinstance(name, str) or not name:
                raise InvalidParams("tools/call needs name, the name of a tool.")
            if not isinstance(arguments, dict):
                raise InvalidParams("arguments must be an object of the tool's arguments by name.")
            if idempotency_key is not None and not IDEMPOTENCY_KEY.fullmatch(idempotency_key):
                raise InvalidParams("An idempotency key has 1 to 255 visible ASCII characters, such as a UUID.")
            tool = (selection or self._catalog()).find(name, origin.caller)
            self._admit(tool, arguments, check)
            is_limited = tool.calls_per_minute or origin.caller.calls_per_minute
            if is_limited:
                await self._take_tokens(origin, tool)
        except HubError as error:
            return await self._refused(origin, error, name, arguments, request_id, received, tool)

        request_json = None if request_id is None else json.canonical(request_id)
        text = json.canonical(arguments)
        kept = stored(arguments, text, self._redaction().of(tool.name, tool.definition))
        call = Call(origin, tool, text, request_json, received, watch, idempotency_key, kept)
        task = asyncio.current_task()
        assert task is not None
        cancellations = task.cancelling()
        failure: HubError | None = None
        self.running.add(call)
        try:
            if not tool.read_only or conduct is not None:
                verdict = await self._intend(call)
                if not verdict.session_alive:
                    return await self._refused(origin, SessionNotFound(), name, arguments, request_id, received, tool)
                if verdict.first_invocation_id:
                    return await self._repeat(call, verdict)
            started = received if tool.read_only and not is_limited else time.time()
            context = CallContext(origin, tool.name, call.invocation_id, voice, progress_token, log_level)
            clock = time.monotonic()
            wire: dict[str, Any] | None = None
            said: str | None = None
            is_sent_as_recorded = True
            context.make_asker = asker
            context.meta = meta
            try:
                result = await self._run(call, task, arguments, context, clock, conduct)
                wire, said, failure = self._judge(tool, result)
            except Suspended as asks:
                wire, said, is_sent_as_recorded = asks.wire, json.canonical(asks.recorded), False
            except HubError as error:
                failure = error.parted()
            finally:
                context.close()
            elapsed = time.monotonic() - clock
            rendered, is_told = None, False
            if failure is not None:
                is_told = isinstance(failure, ToolFailure) and not failure.fails_task
                failure.invocation_id = call.invocation_id
                rendered = self._errors().render(
                    failure, invocation_id=call.invocation_id, trace_id=origin.trace_id, tool=name,
                    retry_safe=tool.retry_safe,
                )  # fmt: skip
                if is_told and wire is None:
                    wire = as_result(rendered)
                    said = json.canonical(wire)
            row = self.rows.outcome(call, started, elapsed, said, failure.code if failure else "", rendered)
            if tool.read_only:
                verdict = await self._record(Outcome(row, call.invocation_id, call.key, call.session))
            else:
                verdict = await self._record(Outcome(row, call.invocation_id))
            if task.cancelling() > cancellations:
                raise asyncio.CancelledError  # whoever gave the call up is told so once it is on record
            if not verdict.session_alive:
                return await self._refused(origin, SessionNotFound(), name, arguments, request_id, received, tool)
            if verdict.first_invocation_id:
                return await self._repeat(call, verdict)
            if failure is not None and not is_told:
                raise failure
            assert wire is not None
            return CallResult(call.invocation_id, wire, said if is_sent_as_recorded else None, failure is not None)
        finally:
            self.running.remove(call)
            del failure, task  # what is raised here holds this frame, and the task may hold what is raised

    def _admit(self, tool: Tool, arguments: dict[str, Any], check: Callable[[Tool], None] | None) -> None:
        if check is not None:
            check(tool)
        if len(self.running) >= self._most_calls:
            busy = ServerBusy()
            busy.retry_after_seconds = 1
            raise busy
        if not tool.arguments.is_valid(arguments):
            explanation = tool.arguments.explain(arguments)
            raise ArgumentsInvalid(explanation.sentence, violations=explanation.violations)

    async def _take_tokens(self, origin: Origin, tool: Tool) -> None:
        for bucket, limit in (
            (f"{origin.caller.principal} tools/call", origin.caller.calls_per_minute),
            (f"tool:{tool.name}", tool.calls_per_minute),
        ):
            if limit:
                await take_token(self.ledger, bucket, limit)

    async def _intend(self, call: Call) -> Verdict:
        intent = Intent(self.rows.envelope(call), call.invocation_id, call.key, call.session)
        committed = self.ledger.append(intent)
        intent.on_abandoned = lambda verdict: self._disown(
            call, verdict, Cancelled() if committed.cancelled() else AuditUnavailable()
        )
        try:
            return await committed
        except asyncio.CancelledError:
            if not committed.cancelled() and committed.exception() is None:
                self._disown(call, committed.result(), Cancelled())  # the verdict came in the same moment
            raise

    def _disown(self, call: Call, verdict: Verdict, error: HubError) -> None:
        """Close an intent whose caller had gone before it knew of the commit: nothing ran."""
        if verdict.session_alive and not verdict.first_invocation_id:
            rendered = self._errors().render(error, invocation_id=call.invocation_id)
            row = self.rows.outcome(call, time.time(), 0, None, error.code, rendered)
            outcome = Outcome(row, call.invocation_id)
            if isinstance(error, AuditUnavailable):
                outcome.frees = call.key  # its caller was told to try again
            try:
                future = self.ledger.append(outcome)
                future.add_done_callback(lambda future: future.cancelled() or future.exception())
            except AuditUnavailable:
                logger.warning("The intent %s stays without an outcome until recovery", call.invocation_id)

    async def _run(
        self,
        call: Call,
        task: asyncio.Task[Any],
        arguments: dict[str, Any],
        context: CallContext,
        clock: float,
        conduct: Conduct | None,
    ) -> ToolResult:
        """Give what the backend answers within its time; `clock` is the monotonic moment of its start."""
        tool = call.tool
        seconds = tool.timeout_seconds
        if conduct is None and seconds > self._longest_seconds:
            seconds = self._longest_seconds
        call.deadline = context.deadline = clock + seconds
        if call.why is not None:
            raise Cancelled
        context.running = call
        call.task = task
        try:
            if conduct is not None:
                return await conduct(call, arguments, context)
            return await tool.backend.call(arguments, context)
        except asyncio.CancelledError:
            if call.why == "timeout":
                raise ToolTimeout(
                    f"The tool did not finish within {seconds:g} s. It may still take effect.", timeout_seconds=seconds
                ) from None
            if call.why == "asks":
                raise context.suspended() from None
            raise Cancelled from None
        except HubError:
            raise
        except Exception as error:
            logger.exception("The backend of %s failed", tool.name)
            raise ServerError from error
        finally:
            call.task = None
            if call.interrupted:
                task.uncancel()  # the cancellation was ours; that of a door or of a stop remains

    def _judge(self, tool: Tool, result: ToolResult) -> tuple[dict[str, Any], str, HubError | None]:
        """Give the result for the wire, the same as canonical text, and the failure that it tells of, if any."""
        try:
            wire = result.wire()
            text = json.canonical(wire)
            if _is_deep(wire, text):
                raise ValueError(f"nested deeper than {_DEEPEST_RESULT} levels")
            said = " ".join([block["text"] for block in result.content if block["type"] == "text"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ResultInvalid(f"The tool's result cannot be sent as JSON: {error}") from error
        if result.is_error:
            return wire, text, ExecutionError(said[:500] or None)
        if tool.result is not None:
            if result.structured is NOTHING:
                raise ResultInvalid("The tool declares an output schema and gave no structured result.")
            if not tool.result.is_valid(result.structured):
                explanation = tool.result.explain(result.structured)
                raise ResultInvalid(f"The tool's result breaks its output schema: {explanation.sentence}")
        return wire, text, None

    async def _record(self, outcome: Outcome) -> Verdict:
        verdict = await self.ledger.append(outcome)
        if verdict.superseded:
            error = AuditUnavailable(
                "The call was taken for dead and recorded as interrupted, so its answer is withheld. "
                "Look the invocation up before trying again."
            )
            error.invocation_id = outcome.invocation_id
            raise error
        return verdict

    async def _refused(
        self,
        origin: Origin,
        error: HubError,
        name: Any,
        arguments: Any,
        request_id: str | int | None,
        received: float,
        tool: Tool | None,
    ) -> CallResult:
        """Record a call that was not made; answer what a model may act on, raise the rest."""
        if isinstance(error, AuditUnavailable):
            raise error
        if not isinstance(name, str):
            name = ""
        redactor = self._redactor_of(name, tool)
        rendered = await self.refusals.record(origin, error, name, arguments, request_id, received, tool, redactor)
        if isinstance(error, ToolFailure):
            wire = as_result(rendered)
            return CallResult(error.invocation_id, wire, json.canonical(wire), True)
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    def _redactor_of(self, name: str, tool: Tool | None) -> Redactor | None:
        """Give what redacts a call that was not made, whether its caller may see the tool or not."""
        tool = tool or self._catalog().tools.get(name)
        policy = self._redaction()
        return policy.of_unknown() if tool is None else policy.of(tool.name, tool.definition)

    async def _repeat(self, call: Call, verdict: Verdict) -> CallResult:
        """Answer a request id that was used before: as the first was, or not at all where it asked for other things."""
        first = verdict.first_invocation_id
        assert call.key is not None
        wire: dict[str, Any] | None = None
        rendered: dict[str, Any] | None = None
        error: HubError | None
        if verdict.first_fingerprint != call.key[2]:
            error = DuplicateRequest(first=first)
            error.invocation_id = call.invocation_id
        else:
            past = await repeats.outcome_of(first, self.running, self._longest_seconds)
            wire, rendered, error = repeats.answer_of(past, first, call.key[0])
        code = ""
        if error is not None:
            if rendered is None:
                rendered = self._errors().render(
                    error, invocation_id=call.invocation_id, trace_id=call.origin.trace_id, retry_safe=True
                )  # asking once more under the same key does nothing twice
            code = rendered["data"]["errorCode"]
            if isinstance(error, ToolFailure) and wire is None:
                wire = as_result(rendered)  # recovery knows of no result
        text = None if wire is None else json.canonical(wire)
        row = self.rows.outcome(call, time.time(), 0, text, code, rendered, duplicate_of=first)
        await self._record(Outcome(row, call.invocation_id))
        if wire is None or text is None:
            assert error is not None
            raise error
        return CallResult(call.invocation_id, wire, text, error is not None, first)


def _is_deep(value: Any, text: str) -> bool:
    """Whether a result is nested too deeply; `text`, its JSON, tells at once for most that they are not."""
    if text.count("[") + text.count("{") <= _DEEPEST_RESULT:
        return False
    level = [value]
    for _ in range(_DEEPEST_RESULT + 1):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list | tuple)
        ]
        if not level:
            return False
    return True
