"""`call_tool`: the one way to a tool, for MCP, REST, chat and stdio alike.

Visible? room? do the arguments fit? within the limits? Then the stages of the tool, in the order of
`invocations.stages.Place`; the intent is committed, the backend runs, stages look at the result, and the outcome is
committed before anybody learns of it. Every way out ends in `invocations.call.finishing` and leaves one row.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings

from invocations.call.call import Call
from invocations.call.cancelling import recorded_first
from invocations.call.committing import Commits
from invocations.call.executing import End, Execution
from invocations.call.finishing import CallResult, Ended, Finish, Intended, opened
from invocations.call.judging import Judge
from invocations.call.refusals import Refusals
from invocations.call.running import RunningCalls
from invocations.call_source import CallSource
from invocations.configuration import Configuration
from invocations.exchange import CallExchange, CallRequest
from invocations.ledger.limits import take_tokens_of_call
from invocations.ledger.parts import LedgerPart
from invocations.ledger.quota import RecordQuotas
from invocations.ledger.rows import Rows
from invocations.ledger.writer import Ledger
from invocations.signals import FinishedSignal, StartedSignal
from invocations.stages import (
    CallShaper,
    CallStage,
    Chain,
    CommitPart,
    Place,
    Proceed,
    Refuse,
    ResultShaper,
    Stage,
    StageAnswer,
    Stages,
)
from sessions_app.kit import tracing
from sessions_app.kit.features import declared, loaded
from sessions_app.protocol import json
from sessions_app.protocol.errors import ArgumentsInvalid, Cancelled, HubError, InvalidParams
from sessions_app.protocol.schemas import Explanation
from tools_catalog.call.base import Json
from tools_catalog.catalog.snapshot import Tool

__all__ = ["IDEMPOTENCY_KEY", "LONGEST_IDEMPOTENCY_KEY", "CallResult", "Calls"]

LONGEST_IDEMPOTENCY_KEY = 255
IDEMPOTENCY_KEY = re.compile(rf"[\x21-\x7e]{{1,{LONGEST_IDEMPOTENCY_KEY}}}")


class Calls:
    """The call path with all that it needs. One a process; `start` it on the event loop."""

    def __init__(self, ledger: Ledger, process_id: str, configuration: Callable[[], Configuration]) -> None:
        self.ledger = ledger
        self._configuration = configuration
        self.judge = Judge()
        self.running = RunningCalls()
        self.quotas = RecordQuotas(ledger, configuration)
        self.rows = Rows(ledger.is_sqlite, process_id)
        self.commits = Commits(ledger, self.rows)
        added = [loaded(part.stage)(self) for part in declared(CallStage)]
        self.stages = Stages(
            (*added, StartedSignal()),
            (*(each for each in added if isinstance(each, CommitPart)), FinishedSignal()),
            [loaded(part.shaper)(self) for part in declared(CallShaper)],
        )
        self.stages.calls = self
        self.refusals = Refusals(ledger, self.rows)
        self.execution = Execution(self.judge, self.commits, self.stages)
        self.finish = Finish(self.commits, self.refusals, self.running, settings.MCPHUB_CALL_TIMEOUT_SECONDS)
        self._records_every_intent: bool = settings.MCPHUB_AUDIT_EVERY_INTENT

    def start(self) -> None:
        self.running.start()
        self.refusals.start()
        self.quotas.start()

    async def stop(self) -> None:
        await self.running.stop()
        await self.refusals.stop()
        await self.quotas.stop()
        self.judge.stop()
        self.stages.stop()

    def current(self) -> Configuration:
        """Return the configuration of this moment, for a call that began in another."""
        return self._configuration()

    def exchange(self, source: CallSource) -> CallExchange:
        """Return the exchange of a call whose client receives nothing before the result and cannot be asked."""
        return CallExchange(source=source, configuration=self._configuration())

    async def call_tool(self, request: CallRequest, exchange: CallExchange) -> CallResult:
        """Make one call and return its result.

        Raises ProtocolError or Refused for a call that was not made, AuditUnavailable where it could not
        be recorded. A ToolFailure does not come out: it is the CallResult, with `is_error`.
        """
        if tracing.recorder is None:
            return opened(await recorded_first(self._ended(request, exchange)))
        with tracing.of_call() as span:
            if span.is_recording:
                source = dataclasses.replace(exchange.source, trace_id=span.trace_id, span_id=span.span_id)
                exchange = dataclasses.replace(exchange, source=source)
            return opened(await recorded_first(self._ended(request, exchange)))

    async def _ended(self, request: CallRequest, exchange: CallExchange) -> Ended:
        received, caller = time.time(), exchange.source.caller
        tool: Tool | None = None
        is_valid = False
        try:
            caller.need("tools:call")
            name = _checked_name(request)
            tool = (request.selection or exchange.configuration.catalog).find(name, caller)
            if tracing.recorder is not None:
                tracing.current().is_of_tool(tool.name)
            if request.check is not None:
                request.check(tool)
            self.running.admit(caller.principal)
            if self.quotas.may_refuse:
                await self.quotas.admit(caller.principal)
            text = json.canonical(request.arguments)
            await self.check_arguments(tool, request.arguments, text, caller.principal)
            is_valid = True
            is_limited = bool(tool.calls_per_minute or caller.calls_per_minute)
            if is_limited:
                await take_tokens_of_call(self.ledger, caller, tool)
        except HubError as error:
            return await self.finish.refused(request, exchange, error, received, tool, is_valid=is_valid)
        chain = self.stages.of(tool, exchange.configuration)
        call = Call.of(request, exchange, tool, received, text)
        self.running.add(call.work)
        try:
            if not chain.stages:
                return await self._made(call, chain, is_limited)
            passed = await self._passed(call, chain.stages)
            return await self._made(passed, chain, True) if isinstance(passed, Call) else passed
        finally:
            self.running.remove(call.work)

    # Before the backend ----------------------------------------------------------------------------

    async def admit(self, principal: str) -> None:
        """Raise ServerBusy where there is no place; RateLimited, AuditUnavailable where there is no room on record."""
        self.running.admit(principal)
        await self.quotas.admit(principal)

    async def check_arguments(self, tool: Tool, arguments: Json, text: str, principal: str) -> None:
        """Raise ArgumentsInvalid for arguments that don't match the tool's schema. `text`: the arguments as canonical
        JSON.
        """
        if not tool.arguments.may_hold(text):
            if not tool.arguments.is_valid(arguments):
                raise _invalid(tool.arguments.explain(arguments))
            return
        wrong = await self.judge.wrong(tool.arguments, text, principal)
        if wrong is not None:
            raise _invalid(wrong)
        self.running.admit(principal)  # others may have come meanwhile

    async def _passed(self, call: Call, stages: tuple[Stage, ...]) -> Call | Ended:
        """Take a call through its stages; return it as it will be made, or its end."""
        for stage in stages:
            answer = await self._decided(stage, call)
            if not isinstance(answer, Proceed):
                return await self.finish.stopped(call, answer)
            if answer.call.tool is not call.tool:  # it waited: what concerns the tool by now stands in its way
                return await self._passed(answer.call, self._chain(answer.call).after(stage.place))
            call = answer.call
        return call

    @staticmethod
    async def _decided(stage: Stage, call: Call) -> StageAnswer:
        try:
            return await stage.decide(call)
        except asyncio.CancelledError:  # `recorded_first` passes it on
            return Refuse(Cancelled(), may_repeat=False)
        except HubError as error:
            return Refuse(error)

    async def decided_again(self, call: Call, *places: Place) -> Call:
        """Return the call after the stages of these places; raise the refusal."""
        for stage in self._chain(call).stages:
            if stage.place in places:
                answer = await stage.decide(call)
                if isinstance(answer, Refuse):
                    raise answer.error
                assert isinstance(answer, Proceed)
                call = answer.call
        return call

    def _chain(self, call: Call) -> Chain:
        return self.stages.of(call.tool, call.exchange.configuration)

    # The backend, between two commits ----------------------------------------------------------------

    async def _made(self, call: Call, chain: Chain, has_waited: bool) -> Ended:
        """Commit the intent, run the backend, commit the outcome, and return the result."""
        parts = chain.parts
        brought = _brought(call, parts) if parts else {}
        has_intent = self._records_every_intent or not call.tool.read_only or bool(call.approval_id or brought)
        intended = Intended(call.record.received, has_intent, parts, brought)
        if has_intent or call.request.runner is not None:
            verdict = await self.commits.intend(call.record, brought)
            if not verdict.session_alive or verdict.first_invocation_id or verdict.refused_by is not None:
                return await self.finish.not_made(call, verdict, parts)
            for part in parts:
                await part.intended(call)
                intended.told = {**intended.told, **part.told(verdict.said)}
        if has_intent or has_waited:
            intended.started = time.time()
        if has_waited:
            chain = self.stages.of(call.record.tool, call.exchange.configuration)
        end = await self.execution.run(call, chain.result_stages)
        if chain.shapers and end.failure is None and end.wire is not None and "content" in end.wire:
            await _shape(call, end, end.wire, chain.shapers)
        return await self.finish.ended(call, end, intended)


async def _shape(call: Call, end: End, wire: Json, shapers: tuple[ResultShaper, ...]) -> None:
    text = end.recorded
    assert text is not None
    for shaper in shapers:
        wire, text = await shaper.shaped(call, wire, text)
    end.wire, end.recorded = wire, text


def _brought(call: Call, parts: tuple[CommitPart, ...]) -> dict[LedgerPart, Any]:
    found = ((part.ledger, part.of_intent(call)) for part in parts if part.ledger is not None)
    return {ledger: brought for ledger, brought in found if brought}


def _checked_name(request: CallRequest) -> str:
    """Return the name that a request calls; raise InvalidParams for a request that is none."""
    if not isinstance(request.name, str) or not request.name:
        raise InvalidParams("tools/call needs name, the name of a tool.")
    if not isinstance(request.arguments, dict):
        raise InvalidParams("arguments must be an object of the tool's arguments by name.")
    if request.idempotency_key is not None and not IDEMPOTENCY_KEY.fullmatch(request.idempotency_key):
        raise InvalidParams("An idempotency key has 1 to 255 visible ASCII characters, such as a UUID.")
    return request.name


def _invalid(wrong: Explanation) -> ArgumentsInvalid:
    return ArgumentsInvalid(wrong.sentence, violations=wrong.violations)
