"""`call_tool`: the one way to a tool, for MCP, REST, chat and stdio alike.

Visible? within the limits? arguments valid? a repeat? allowed by the rules? within the quotas? a person's yes, where
one is wanted? let on by guardrails? Then the intent is committed, which counts in the quotas, the backend runs,
guardrails look at the result, and the outcome is committed before anybody hears of it. Every way out leaves one row.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings

from invocations.approvals import asking
from invocations.approvals.releasing import Approvals, Release
from invocations.call import guarding, policing, repeats
from invocations.call.context import CallContext, Suspended
from invocations.call.guarding import Guarding
from invocations.call.judging import DEEPEST_RESULT, Judge, is_deep
from invocations.call.policing import Policing
from invocations.call.refusals import Refusals, without_masked
from invocations.call.running import Call, RunningCalls, Stopped
from invocations.call_source import CallSource
from invocations.columns import INVOCATION, Row
from invocations.configuration import Configuration
from invocations.exchange import CallExchange, CallRequest
from invocations.ledger.limits import take_tokens_of_call
from invocations.ledger.quota import RecordQuotas
from invocations.ledger.records import Intent, Outcome, Verdict
from invocations.ledger.rows import Recorded, Rows
from invocations.ledger.writer import Ledger
from invocations.mapping.error_map import as_result
from invocations.quotas.quota import Spent, charges_of_result
from invocations.quotas.spending import Spending
from invocations.redaction import records
from invocations.redaction.hiding import Hidden
from sessions_app.caller import Caller
from sessions_app.kit import tracing
from sessions_app.protocol import json
from sessions_app.protocol.errors import (
    ArgumentsInvalid,
    AuditUnavailable,
    Cancelled,
    ExecutionError,
    GuardrailRefused,
    HubError,
    InvalidParams,
    ResultInvalid,
    ServerError,
    SessionNotFound,
    ToolFailure,
    ToolTimeout,
)
from sessions_app.protocol.schemas import Explanation
from tools_catalog.call.base import NOTHING, Json, ToolResult
from tools_catalog.catalog.snapshot import Tool
from tools_catalog.policy.ask import Ask
from tools_catalog.policy.rules import ASK, NO_RULING

logger = logging.getLogger(__name__)

_RESULT = INVOCATION.position("result")
LONGEST_IDEMPOTENCY_KEY = 255
IDEMPOTENCY_KEY = re.compile(rf"[\x21-\x7e]{{1,{LONGEST_IDEMPOTENCY_KEY}}}")


@dataclass(slots=True)
class CallResult:
    """What a call that was made is answered with."""

    invocation_id: str
    wire: dict[str, Json]
    """A CallToolResult in its newest form."""
    code: str = ""
    """The internal code of its failure; empty for a call that did well."""
    duplicate_of: str = ""
    hidden: Hidden | None = None
    """What the record leaves out of its bodies."""
    near: tuple[Spent, ...] = ()
    """Quotas that warn."""

    @property
    def is_error(self) -> bool:
        return bool(self.code)


@dataclass(slots=True)
class _End:
    """What the backend's run came to."""

    wire: dict[str, Json] | None
    recorded: str | None
    """The result as the record holds it: canonical JSON."""
    failure: HubError | None
    rendered: dict[str, Json] | None = None
    seconds: float = 0.0

    @property
    def is_result(self) -> bool:
        """Whether the client gets a result, be it one that tells of a failure, and no error of the protocol."""
        return self.failure is None or (isinstance(self.failure, ToolFailure) and not self.failure.fails_task)


class Calls:
    """The call path with all that it needs. One a process; `start` it on the event loop."""

    def __init__(self, ledger: Ledger, process_id: str, configuration: Callable[[], Configuration]) -> None:
        self.ledger = ledger
        self._configuration = configuration
        self.running = RunningCalls()
        self.quotas = RecordQuotas(ledger, configuration)
        self.rows = Rows(ledger.is_sqlite, process_id)
        self.refusals = Refusals(ledger, self.rows)
        self._judge = Judge()
        self.approvals = Approvals(self)
        self.policing = Policing(self._judge)
        self.spending = Spending()
        self.guarding = Guarding(self._judge)
        self._longest_seconds = settings.MCPHUB_CALL_TIMEOUT_SECONDS
        self._records_every_intent = settings.MCPHUB_AUDIT_EVERY_INTENT

    def start(self) -> None:
        self.running.start()
        self.refusals.start()
        self.quotas.start()

    async def stop(self) -> None:
        await self.running.stop()
        await self.refusals.stop()
        await self.quotas.stop()
        self._judge.stop()
        self.guarding.stop()

    def current(self) -> Configuration:
        """Give the configuration of this moment, for a call that began in another."""
        return self._configuration()

    def exchange(self, source: CallSource) -> CallExchange:
        """Give the exchange of a call whose client hears nothing before the result, and cannot be asked."""
        return CallExchange(source=source, configuration=self._configuration())

    async def call_tool(self, request: CallRequest, exchange: CallExchange) -> CallResult:
        """Make one call and give its result.

        Raises ProtocolError or Refused for a call that was not made, AuditUnavailable where it could not
        be recorded. A ToolFailure does not come out: it is the CallResult, with `is_error`.
        """
        with tracing.of_call() as span:
            if span.is_recording:
                source = dataclasses.replace(exchange.source, trace_id=span.trace_id, span_id=span.span_id)
                exchange = dataclasses.replace(exchange, source=source)
            return await self._answered(request, exchange)

    async def _answered(self, request: CallRequest, exchange: CallExchange) -> CallResult:
        received = time.time()
        tool: Tool | None = None
        is_valid = False
        try:
            exchange.source.caller.need("tools:call")
            if not isinstance(request.name, str) or not request.name:
                raise InvalidParams("tools/call needs name, the name of a tool.")
            if not isinstance(request.arguments, dict):
                raise InvalidParams("arguments must be an object of the tool's arguments by name.")
            if request.idempotency_key is not None and not IDEMPOTENCY_KEY.fullmatch(request.idempotency_key):
                raise InvalidParams("An idempotency key has 1 to 255 visible ASCII characters, such as a UUID.")
            tool = (request.selection or exchange.configuration.catalog).find(request.name, exchange.source.caller)
            tracing.current().is_of_tool(tool.name)
            if request.check is not None:
                request.check(tool)
            await self.admit(exchange.source.caller.principal)
            text = json.canonical(request.arguments)
            if tool.arguments.may_hold(text):
                await self._check_apart(tool, text, exchange.source.caller)
            elif not tool.arguments.is_valid(request.arguments):
                raise _invalid(tool.arguments.explain(request.arguments))
            is_valid = True
            is_limited = bool(tool.calls_per_minute or exchange.source.caller.calls_per_minute)
            if is_limited:
                await take_tokens_of_call(self.ledger, exchange.source.caller, tool)
            ruling = NO_RULING
            if tool.policy is not None:
                ruling = await self.policing.ruling(tool, exchange.source, request.arguments, text)
                self.running.admit(exchange.source.caller.principal)  # others may have come meanwhile
        except HubError as error:
            return await self._refused(request, exchange, error, received, tool, is_valid=is_valid)
        call = Call(request, exchange, tool, received, text, ruling)
        self.running.add(call)
        try:
            # The one place where a rule stops a call; below, the one where it waits for a person.
            if (refusal := policing.refusal(ruling)) is not None:
                if (first := await repeats.first_of(call.key)) is not None:
                    return await self._repeat(_unguarded(call, request), first)
                return await self._refused(request, exchange, refusal, received, tool, is_valid=True)
            ask = (ruling.ask or Ask()) if ruling.effect == ASK else None
            if not request.is_approved:
                ask = asking.demanded(ask, tool, exchange.configuration, call.source)
            if call.charges and (spent := await self._spent(call, looks=ask is not None)) is not None:
                if (first := await repeats.first_of(call.key)) is not None:
                    return await self._repeat(_unguarded(call, request), first)
                return await self._refused(request, exchange, spent, received, tool, is_valid=True)
            if ask is not None and request.runner is None:
                release = await self._released(call, request, exchange, ask)
                if isinstance(release, CallResult):
                    return release
                if release.made is not None:  # it waited: what holds now says which tool, and by which rules
                    self.running.remove(call)
                    request, made = release.request, release.made
                    text = json.canonical(release.arguments)
                    call = Call(request, exchange, made.tool, received, text, made.ruling)
                    call.key, call.approval_id = made.key, release.approval_id
                    self.running.add(call)
            if call.tool.guardrails is not None and call.tool.guardrails.arguments:
                guarded = await self._guarded(call, request, exchange)
                if isinstance(guarded, CallResult):
                    return guarded
                if guarded[0] is not call:
                    self.running.remove(call)
                    call, request = guarded
                    self.running.add(call)
            if ask is not None and request.runner is not None:
                call.tool = self.approvals.gated(call, request, ask)
            return await self._carried_out(call, request, exchange, is_limited)
        finally:
            self.running.remove(call)

    # Before the backend ----------------------------------------------------------------------------

    async def _spent(self, call: Call, *, looks: bool) -> HubError | None:
        """Give why quotas refuse a call, where that is known before its intent is committed."""
        try:
            await self.spending.check(call.charges, looks=looks)
        except HubError as error:
            error.ruling = call.ruling
            return error
        return None

    async def admit(self, principal: str) -> None:
        """Raise ServerBusy where there is no place; RateLimited, AuditUnavailable where there is no room on record."""
        self.running.admit(principal)
        await self.quotas.admit(principal)

    async def _check_apart(self, tool: Tool, text: str, caller: Caller) -> None:
        wrong = await self._judge.wrong(tool.arguments, text, caller.principal)
        if wrong is not None:
            raise _invalid(wrong)
        self.running.admit(caller.principal)  # others may have come meanwhile

    async def intend(self, call: Recorded) -> Verdict:
        """Commit the intent; give what the commit found."""
        intent = Intent(self.rows.envelope(call), call.invocation_id, call.key, call.session)
        if isinstance(call, Call) and call.charges:
            intent.charges = call.charges
        with tracing.span("mcphub.ledger.intent"):
            return await self._committed(call, intent)

    async def _committed(self, call: Recorded, intent: Intent) -> Verdict:
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

    def _disown(self, call: Recorded, verdict: Verdict, error: HubError) -> None:
        """Close an intent whose caller had gone before it knew of the commit: nothing ran."""
        if verdict.session_alive and not verdict.first_invocation_id and verdict.refused_by is None:
            rendered = call.configuration.errors.render(error, invocation_id=call.invocation_id)
            row = self.rows.outcome(call, time.time(), 0, None, error.code, rendered)
            outcome = Outcome(row, call.invocation_id)
            if isinstance(error, AuditUnavailable):
                outcome.frees = call.key  # its caller was told to try again
            try:
                future = self.ledger.append(outcome)
                future.add_done_callback(lambda future: future.cancelled() or future.exception())
            except AuditUnavailable:
                logger.warning("The intent %s stays without an outcome until recovery", call.invocation_id)

    async def _released(
        self, call: Call, request: CallRequest, exchange: CallExchange, ask: Ask
    ) -> Release | CallResult:
        """Wait for the yes; give what the call goes on with, or what one that is not made now is answered."""
        task = asyncio.current_task()
        assert task is not None
        cancellations = task.cancelling()
        try:
            release = await self.approvals.release(call, request, exchange, ask)
        except asyncio.CancelledError:
            await self._refused(request, exchange, Cancelled(), call.received, call.tool, is_valid=True)
            raise
        except HubError as error:
            error.ruling = error.ruling or call.ruling  # the rule that refuses it by now, or else the one that asks
            refused = await self._refused(request, exchange, error, call.received, call.tool, is_valid=True)
            if task.cancelling() > cancellations:
                raise asyncio.CancelledError from None
            return refused
        if release.wire is None:
            return release
        # On record without its key: what was not made repeats nothing.
        row = self.rows.outcome(_unguarded(call, request), time.time(), 0, json.canonical(release.recorded), "", None)
        await self.record(Outcome(row, call.invocation_id))
        return CallResult(call.invocation_id, release.wire)

    async def _guarded(
        self, call: Call, request: CallRequest, exchange: CallExchange
    ) -> tuple[Call, CallRequest] | CallResult:
        """Let guardrails look at the arguments; give what goes on, or what a call that is refused is answered."""
        task = asyncio.current_task()
        assert task is not None
        assert isinstance(request.arguments, dict)
        cancellations = task.cancelling()
        try:
            arguments = await self.guarding.arguments(call, request.arguments)
        except asyncio.CancelledError:
            await self._refused(request, exchange, Cancelled(), call.received, call.tool, is_valid=True)
            raise
        except HubError as error:
            if (first := await repeats.first_of(call.key)) is not None:
                return await self._repeat(_unguarded(call, request), first)
            error.ruling, error.guarded = call.ruling, call.guarded
            refused = await self._refused(request, exchange, error, call.received, call.tool, is_valid=True)
            if task.cancelling() > cancellations:
                raise asyncio.CancelledError from None
            return refused
        if arguments is request.arguments:
            return call, request
        masked = dataclasses.replace(request, arguments=arguments)
        made = Call(masked, exchange, call.tool, call.received, json.canonical(arguments), call.ruling)
        made.approval_id, made.guarded, made.key = call.approval_id, call.guarded, call.key
        if made.key is not None and not made.approval_id:
            # Of what was masked a keyed digest tells whether it is the same; a plain one could be guessed at.
            kept = exchange.configuration.redaction.tag(request.arguments)
            made.key = (made.key[0], made.key[1], json.digest(f"{call.tool.name}\n{kept}"))
        return made, masked

    # The backend, between two commits ----------------------------------------------------------------

    async def _carried_out(
        self, call: Call, request: CallRequest, exchange: CallExchange, is_limited: bool
    ) -> CallResult:
        """Commit the intent, run the backend, commit the outcome, and give the result."""
        tool, task = call.tool, asyncio.current_task()
        assert task is not None
        cancellations = task.cancelling()
        has_intent = self._records_every_intent or not tool.read_only or bool(call.approval_id or call.charges)
        if has_intent or request.runner is not None:
            verdict = await self.intend(call)
            if not verdict.session_alive or verdict.first_invocation_id or verdict.refused_by is not None:
                return await self._not_made(call, verdict, request, exchange)
            if verdict.spent:
                call.near = tuple(spent for spent in verdict.spent if spent.is_near)
        if call.approval_id:
            await self.approvals.note_use(call.approval_id, call.invocation_id)
        started = time.time() if has_intent or is_limited else call.received
        if call.stored is not None and call.stored.hidden:
            records.of_call.set(call.stored.hidden)
        end = await self._run(call, request, exchange)
        try:
            code = end.failure.code if end.failure is not None else ""
            row = self.rows.outcome(call, started, end.seconds, end.recorded, code, end.rendered)
            outcome = (
                Outcome(row, call.invocation_id)
                if has_intent
                else Outcome(row, call.invocation_id, call.key, call.session)
            )
            if call.charges:
                outcome.charges = charges_of_result(call.charges, end.recorded)
            verdict = await self.record(outcome)
            if task.cancelling() > cancellations:
                raise asyncio.CancelledError  # whoever gave the call up is told so once it is on record
            if not verdict.session_alive or verdict.first_invocation_id:
                return await self._not_made(call, verdict, request, exchange)
            if call.approval_id and end.wire is not None and end.wire.get("resultType") == "input_required":
                await self.approvals.keep(call.approval_id)
            if (span := tracing.current()).is_recording:
                self._tell(span, call, row)
            if end.failure is not None and not end.is_result:
                raise end.failure
            if end.failure is not None:
                span.failed(tracing.TOOL_ERROR, code)
            assert end.wire is not None
            hidden = call.stored.hidden if call.stored is not None else None
            return CallResult(call.invocation_id, end.wire, code, hidden=hidden, near=call.near)
        finally:
            del end, task  # what is raised here holds this frame, and the task may hold what is raised

    @staticmethod
    def _tell(span: tracing.Span | tracing.NoSpan, call: Call, row: Row) -> None:
        """Say in the span of a call what its row says, the bodies as they are on record."""
        span.set("mcphub.invocation.id", call.invocation_id)
        if span.tells_bodies:
            span.set("gen_ai.tool.call.arguments", call.arguments)
            if isinstance(result := row[_RESULT], str):
                span.set("gen_ai.tool.call.result", result)

    async def _run(self, call: Call, request: CallRequest, exchange: CallExchange) -> _End:
        context, began = (
            CallContext(exchange, call.tool.name, call.invocation_id, call, request, self),
            time.monotonic(),
        )
        try:
            end = await self._judged(call, await self._result(call, request, context, began))
        except Suspended as suspended:
            end = _End(suspended.wire, json.canonical(suspended.recorded), None)
        except HubError as error:
            end = _End(None, None, error.parted())
        finally:
            context.close()
        end.seconds = time.monotonic() - began
        if end.failure is not None:
            end.failure.invocation_id = call.invocation_id
            end.rendered = call.configuration.errors.render(
                end.failure,
                invocation_id=call.invocation_id,
                trace_id=call.source.trace_id,
                tool=call.tool.name,
                retry_safe=call.tool.retry_safe,
            )
            if end.wire is None and call.tool.guardrails is not None and call.tool.guardrails.result:
                end.failure, end.rendered = await self.guarding.failure(call, end.failure, end.rendered)
            if end.wire is None and end.is_result:
                end.wire = as_result(end.rendered)
                end.recorded = json.canonical(end.wire)
        return end

    async def _result(self, call: Call, request: CallRequest, context: CallContext, began: float) -> ToolResult:
        """Give what the backend answers within its time."""
        tool, runner, arguments = call.tool, request.runner, request.arguments
        seconds = tool.timeout_seconds
        if runner is None and seconds > self._longest_seconds:
            seconds = self._longest_seconds
        if request.ends_by is not None:
            # Never before: whoever asked judges by its own clock whether the time is over.
            seconds = min(seconds, max(0.1, math.ceil((request.ends_by - began) * 10) / 10))
        call.deadline = began + seconds
        try:
            if runner is not None:
                return await call.run(runner(call, arguments, context))
            with tracing.span("mcphub.backend"):
                return await call.run(tool.backend.call(arguments, context))
        except Stopped as stopped:
            if stopped.why == "timeout":
                raise ToolTimeout(
                    f"The tool did not finish within {seconds:g} s. It may still take effect.", timeout_seconds=seconds
                ) from None
            if stopped.why == "asks":
                raise context.suspended() from None
            raise Cancelled from None
        except asyncio.CancelledError:  # of the request, not of the call: recorded as cancelled, then passed on
            raise Cancelled from None
        except HubError:
            raise
        except Exception as error:
            logger.exception("The backend of %s failed", tool.name)
            raise ServerError from error

    # After the backend -----------------------------------------------------------------------------

    async def _judged(self, call: Call, result: ToolResult) -> _End:
        """Give the result for the wire, the same as canonical text, and the failure that it tells of, if any."""
        schema = call.tool.result
        try:
            wire = result.wire()
            text = json.canonical(wire)
            if is_deep(wire, text):
                raise ValueError(f"nested deeper than {DEEPEST_RESULT} levels")
            if call.tool.guardrails is not None and call.tool.guardrails.result:
                wire, text = await self.guarding.result(call, call.tool.guardrails, wire, text)
            words = " ".join([block["text"] for block in wire["content"] if block["type"] == "text"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ResultInvalid(f"The tool's result cannot be sent as JSON: {error}") from error
        if result.is_error:
            return _End(wire, text, ExecutionError(words[:500] or None))
        if schema is not None:
            structured = wire.get("structuredContent", NOTHING)
            if structured is NOTHING:
                raise ResultInvalid("The tool declares an output schema and gave no structured result.")
            if schema.may_hold(text):
                wrong = await self._judge.wrong(schema, json.canonical(structured), call.principal)
            else:
                wrong = None if schema.is_valid(structured) else schema.explain(structured)
            if wrong is not None and structured != result.structured and result.structured is not NOTHING:
                raise GuardrailRefused(guarding.NEEDED_RESULT)
            if wrong is not None:
                raise ResultInvalid(f"The tool's result breaks its output schema: {wrong.sentence}")
        return _End(wire, text, None)

    async def record(self, outcome: Outcome) -> Verdict:
        """Commit the outcome; raise AuditUnavailable where another process has closed the call."""
        with tracing.span("mcphub.ledger.outcome"):
            verdict = await self.ledger.append(outcome)
        if verdict.superseded:
            error = AuditUnavailable(
                "The call was taken for dead and recorded as interrupted, so its answer is withheld. "
                "Look the invocation up before trying again."
            )
            error.invocation_id = outcome.invocation_id
            raise error
        return verdict

    async def _not_made(self, call: Call, verdict: Verdict, request: CallRequest, exchange: CallExchange) -> CallResult:
        """Answer a call whose commit found that its session had ended, or that it repeats another one."""
        if not verdict.session_alive:
            return await self._refused(request, exchange, SessionNotFound(), call.received, call.tool, is_valid=True)
        if verdict.refused_by is not None:
            error = self.spending.refusal(verdict.refused_by)
            error.ruling, error.guarded = call.ruling, call.guarded
            return await self._refused(request, exchange, error, call.received, call.tool, is_valid=True)
        return await self._repeat(call, verdict)

    async def _refused(
        self,
        request: CallRequest,
        exchange: CallExchange,
        error: HubError,
        received: float,
        tool: Tool | None,
        *,
        is_valid: bool,
    ) -> CallResult:
        """Record a call that was not made; answer what a model may act on, raise the rest."""
        if isinstance(error, AuditUnavailable):
            raise error
        rendered = await self.refusals.record(request, exchange, error, received, tool, is_valid=is_valid)
        if isinstance(error, ToolFailure):
            tracing.current().failed(tracing.TOOL_ERROR, error.code)
            wire = as_result(rendered)
            return CallResult(error.invocation_id, wire, error.code)
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    async def _repeat(self, call: Call, verdict: Verdict) -> CallResult:
        """Answer a request id that was used before: as the first was, or not at all where it asked for other things."""
        first = verdict.first_invocation_id
        assert call.key is not None
        wire: dict[str, Json] | None = None
        rendered: dict[str, Json] | None = None
        error: HubError | None
        if verdict.first_fingerprint != call.key[2]:
            error = repeats.other_request(first, call.key[0])
            error.invocation_id = call.invocation_id
        else:
            past = await repeats.outcome_of(first, self.running, self._longest_seconds)
            answer = repeats.answer_of(past, first, call.key[0])
            wire, rendered, error = answer.wire, answer.rendered, answer.error
        code = ""
        if error is not None:
            if rendered is None:
                rendered = call.configuration.errors.render(
                    error, invocation_id=call.invocation_id, trace_id=call.source.trace_id, retry_safe=True
                )  # asking once more under the same key does nothing twice
            code = rendered["data"]["errorCode"]
            if isinstance(error, ToolFailure) and wire is None:
                wire = as_result(rendered)  # recovery knows of no result
        text = None if wire is None else json.canonical(wire)
        row = self.rows.outcome(call, time.time(), 0, text, code, rendered, duplicate_of=first)
        await self.record(Outcome(row, call.invocation_id))
        if wire is None:
            assert error is not None
            raise error
        return CallResult(call.invocation_id, wire, code, first)


def _unguarded(call: Call, request: CallRequest) -> Call:
    """Give a call that is not made now, and that no guardrail has seen, as it is recorded: without what they mask."""
    kept = without_masked(request, call.tool)
    if kept is not request:
        call.record_as(kept.arguments)
    return call


def _invalid(wrong: Explanation) -> ArgumentsInvalid:
    return ArgumentsInvalid(wrong.sentence, violations=wrong.violations)
