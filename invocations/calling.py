"""`call_tool`: the one door to a tool, for MCP, REST, chat and stdio alike.

Visible? within the limits? arguments valid? a repeat? Then the intent is committed, the backend runs, and the
outcome is committed before anybody hears of it. Every way out leaves one row.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from invocations import repeats
from invocations.context import CallContext
from invocations.ledger import Ledger
from invocations.mapping import ErrorMap, as_result
from invocations.origin import Origin, Voice
from invocations.records import Intent, Key, Outcome, Take, Verdict, new_invocation_id
from invocations.refusals import Refusals
from invocations.rows import CallRow, Rows
from invocations.running import Running, RunningCalls, Watch
from sessions_app.protocol import json
from sessions_app.protocol.errors import (
    ArgumentsInvalid,
    AuditUnavailable,
    Cancelled,
    DuplicateRequest,
    ExecutionError,
    HubError,
    InvalidParams,
    RateLimited,
    ResultInvalid,
    ServerBusy,
    ServerError,
    SessionNotFound,
    ToolFailure,
    ToolTimeout,
)  # fmt: skip
from tools_catalog.backends.base import NOTHING, ToolResult
from tools_catalog.catalog import Catalog, Tool

logger = logging.getLogger(__name__)

_DEEPEST_RESULT = 256
"""Levels of arrays and objects. What clients send is bound to 64; readers of the audit must not overflow."""
_LONGEST_REQUEST_ID = 300
"""Characters of a request id that stand in its key as they are; a longer one is told by its digest."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """The answer to a call that was made. `wire` is a CallToolResult in its newest form."""

    invocation_id: str
    wire: dict[str, Any]
    is_error: bool
    duplicate_of: str = ""


class Calls:
    """The call path with all that it needs. One a process; `start` it on the event loop."""

    def __init__(
        self, ledger: Ledger, process_id: str, catalog: Callable[[], Catalog], errors: Callable[[], ErrorMap]
    ) -> None:
        self.ledger = ledger
        self.running = RunningCalls()
        self.rows = Rows(ledger.is_sqlite, process_id)
        self.refusals = Refusals(ledger, self.rows, errors)
        self._catalog = catalog
        self._errors = errors
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
        check: Callable[[Tool], None] | None = None,
        voice: Voice | None = None,
        progress_token: str | int | None = None,
        log_level: str | None = None,
        watch: Watch | None = None,
    ) -> CallResult:
        """Make one call and give its answer. `name` and `arguments` are taken as they came.

        `check` may raise a ProtocolError for the tool found (rungs 9 and 10 of the stateless ladder).
        `watch` returns when the client has gone and the era takes that for a cancellation.

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
            tool = self._catalog().find(name, origin.caller)
            self._admit(tool, arguments, check)
            if tool.calls_per_minute or origin.caller.calls_per_minute:
                await self._take_tokens(origin, tool)
        except HubError as error:
            return await self._refused(origin, error, name, arguments, request_id, received, tool)

        text = json.canonical(arguments)
        digest = json.digest(text)
        request_json = None if request_id is None else json.canonical(request_id)
        invocation_id = new_invocation_id()
        key: Key | None = None
        session = origin.session_id if origin.handshake else None
        if session is not None and request_json is not None:
            key = (f"session:{session}", _short(request_json), json.digest(f"{name}\n{digest}"))
        row = self.rows.call(origin, tool, invocation_id, request_json, text, digest, received)

        task = asyncio.current_task()
        assert task is not None
        cancellations = task.cancelling()
        request = (session, request_json) if session is not None and request_json is not None else None
        running = Running(invocation_id, request, watch)
        self.running.add(running)
        try:
            if not tool.read_only:
                verdict = await self._intend(row, key, session)
                if not verdict.session_alive:
                    return await self._refused(origin, SessionNotFound(), name, arguments, request_id, received, tool)
                if verdict.first_invocation_id:
                    return await self._repeat(origin, verdict, key, row)
            started = time.time()
            clock = time.monotonic()
            failure: HubError | None = None
            wire: dict[str, Any] | None = None
            text_out: str | None = None
            context = CallContext(origin, tool.name, invocation_id, voice, progress_token, log_level)
            try:
                result = await self._run(running, task, tool, arguments, context)
                wire, text_out, failure = self._judge(tool, result)
            except HubError as error:
                failure = error
            finally:
                context.close()
            elapsed = time.monotonic() - clock
            rendered = None
            if failure is not None:
                failure.invocation_id = invocation_id
                rendered = self._errors().render(
                    failure, invocation_id=invocation_id, trace_id=origin.trace_id, tool=name,
                    retry_safe=tool.retry_safe,
                )  # fmt: skip
                if isinstance(failure, ToolFailure) and wire is None:
                    wire = as_result(rendered)
                    text_out = json.canonical(wire)
            outcome = Outcome(
                row.outcome(started, elapsed, text_out, failure.code if failure else "", rendered),
                invocation_id,
                key if tool.read_only else None,
                session if tool.read_only else None,
            )
            verdict = await self._record(outcome)
            if task.cancelling() > cancellations:
                raise asyncio.CancelledError  # whoever gave the call up is told so once it is on record
            if not verdict.session_alive:
                return await self._refused(origin, SessionNotFound(), name, arguments, request_id, received, tool)
            if verdict.first_invocation_id:
                return await self._repeat(origin, verdict, key, row)
            if failure is not None and not isinstance(failure, ToolFailure):
                raise failure
            assert wire is not None
            return CallResult(invocation_id, wire, failure is not None)
        finally:
            self.running.remove(running)

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
                verdict = await self.ledger.append(Take(bucket, limit))
                if verdict.wait_seconds > 0:
                    wait = max(1, round(verdict.wait_seconds + 0.5))
                    error = RateLimited(
                        f"The limit of {limit} calls a minute is reached. Try again in {wait} s.",
                        retry_after_seconds=wait,
                    )
                    error.retry_after_seconds = wait
                    raise error

    async def _intend(self, row: CallRow, key: Key | None, session: str | None) -> Verdict:
        intent = Intent(row.envelope(), row.invocation_id, key, session)
        committed = self.ledger.append(intent)
        intent.on_abandoned = lambda verdict: self._disown(
            row, verdict, Cancelled() if committed.cancelled() else AuditUnavailable()
        )
        try:
            return await committed
        except asyncio.CancelledError:
            if not committed.cancelled() and committed.exception() is None:
                self._disown(row, committed.result(), Cancelled())  # the verdict came in the same moment
            raise

    def _disown(self, row: CallRow, verdict: Verdict, error: HubError) -> None:
        """Close an intent whose caller had gone before it knew of the commit: nothing ran."""
        if verdict.session_alive and not verdict.first_invocation_id:
            rendered = self._errors().render(error, invocation_id=row.invocation_id)
            outcome = Outcome(row.outcome(time.time(), 0, None, error.code, rendered), row.invocation_id)
            try:
                self.ledger.append(outcome).add_done_callback(lambda future: future.cancelled() or future.exception())
            except AuditUnavailable:
                logger.warning("The intent %s stays without an outcome until recovery", row.invocation_id)

    async def _run(
        self,
        running: Running,
        task: asyncio.Task[Any],
        tool: Tool,
        arguments: dict[str, Any],
        context: CallContext,
    ) -> ToolResult:
        seconds = min(tool.timeout_seconds, self._longest_seconds)
        running.deadline = context.deadline = time.monotonic() + seconds
        if running.why is not None:
            raise Cancelled
        running.task = task
        try:
            return await tool.backend.call(arguments, context)
        except asyncio.CancelledError:
            if running.why == "timeout":
                raise ToolTimeout(
                    f"The tool did not finish within {seconds:g} s. It may still take effect.", timeout_seconds=seconds
                ) from None
            raise Cancelled from None
        except HubError:
            raise
        except Exception as error:
            logger.exception("The backend of %s failed", tool.name)
            raise ServerError from error
        finally:
            running.task = None
            if running.interrupted:
                task.uncancel()  # the cancellation was ours; that of a door or of a stop remains

    def _judge(self, tool: Tool, result: ToolResult) -> tuple[dict[str, Any], str, HubError | None]:
        """Give the result for the wire, the same as canonical text, and the failure that it tells of, if any."""
        try:
            wire = result.wire()
            text = json.canonical(wire)
            if _is_deep(wire, text):
                raise ValueError(f"nested deeper than {_DEEPEST_RESULT} levels")
            said = " ".join(block["text"] for block in result.content if block.get("type") == "text")
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
        if not isinstance(arguments, dict):
            arguments = {"not_an_object": arguments}  # the column holds objects
        rendered = await self.refusals.record(origin, error, name, arguments, request_id, received, tool)
        if isinstance(error, ToolFailure):
            return CallResult(error.invocation_id, as_result(rendered), True)
        raise error

    async def _repeat(self, origin: Origin, verdict: Verdict, key: Key | None, row: CallRow) -> CallResult:
        """Answer a request id that was used before: as the first was, or not at all where it asked for other things."""
        first = verdict.first_invocation_id
        assert key is not None
        if verdict.first_fingerprint != key[2]:
            error: HubError = DuplicateRequest(first=first)
            error.invocation_id = row.invocation_id
        else:
            stored = await repeats.outcome_of(first, self.running, self._longest_seconds)
            if stored is not None and (stored.result is not None or stored.error_code):
                wire = stored.result
                told = repeats.as_error(stored) if wire is None else None
                if isinstance(told, ToolFailure):
                    wire = as_result(stored.error)  # recovery knows of no result
                await self._record(
                    Outcome(
                        row.outcome(
                            time.time(), 0, None if wire is None else json.canonical(wire), stored.error_code,
                            stored.error, duplicate_of=first,
                        ),
                        row.invocation_id,
                    )
                )  # fmt: skip
                if wire is None:
                    assert told is not None
                    raise told
                return CallResult(row.invocation_id, wire, bool(stored.error_code), first)
            error = ToolTimeout("The first call with this request id is still running.", first=first)
        rendered = self._errors().render(error, invocation_id=row.invocation_id, trace_id=origin.trace_id)
        wire = as_result(rendered) if isinstance(error, ToolFailure) else None
        text = None if wire is None else json.canonical(wire)
        await self._record(
            Outcome(row.outcome(time.time(), 0, text, error.code, rendered, duplicate_of=first), row.invocation_id)
        )
        if wire is None:
            raise error
        return CallResult(row.invocation_id, wire, True, first)


def _short(request_json: str) -> str:
    return request_json if len(request_json) <= _LONGEST_REQUEST_ID else f"sha256:{json.digest(request_json)}"


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
