"""The backend's run of one call, and its end: a result that fits its schema, or a failure."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TypeVar

from django.conf import settings

from invocations.call.call import Call
from invocations.call.committing import Commits
from invocations.call.context import CallContext, Suspended
from invocations.call.judging import DEEPEST_RESULT, Judge, is_deep
from invocations.call.running import Stopped, Work
from invocations.mapping.error_map import as_result
from invocations.redaction import records
from invocations.stages import ResultStage, Stages
from sessions_app.kit import tracing
from sessions_app.protocol import json
from sessions_app.protocol.errors import (
    Cancelled,
    ExecutionError,
    HubError,
    ResultInvalid,
    ServerError,
    ToolFailure,
    ToolTimeout,
)
from tools_catalog.call.base import NOTHING, Json, ToolResult

logger = logging.getLogger(__name__)
Value = TypeVar("Value")


@dataclass(slots=True)
class End:
    """The end of the backend's run."""

    wire: dict[str, Json] | None
    recorded: str | None
    """The result as the record holds it: canonical JSON."""
    failure: HubError | None = None
    rendered: dict[str, Json] | None = None
    seconds: float = 0.0

    @property
    def code(self) -> str:
        return "" if self.failure is None else self.failure.code

    @property
    def is_result(self) -> bool:
        """Whether the client gets a result, be it one that reports a failure, and no error of the protocol."""
        return self.failure is None or (isinstance(self.failure, ToolFailure) and not self.failure.fails_task)


async def finished(
    work: Work, backend: Coroutine[object, object, Value], context: CallContext, late: Callable[[], ToolTimeout]
) -> Value:
    """Return the backend's answer. Raises the HubError that its end stands for, or Suspended."""
    try:
        return await work.run(backend)
    except Stopped as stopped:
        if stopped.why == "timeout":
            raise late() from None
        if stopped.why == "asks":
            raise context.suspended() from None
        raise Cancelled from None
    except asyncio.CancelledError:  # of the request, not of the call: recorded as cancelled, then passed on
        raise Cancelled from None
    except (HubError, Suspended):
        raise
    except Exception as error:
        logger.exception("The backend of %s failed", context.tool_name)
        raise ServerError from error


class Execution:
    """Runs backends. One a process."""

    def __init__(self, judge: Judge, commits: Commits, stages: Stages) -> None:
        self._judge = judge
        self._stages = stages
        self._commits = commits
        self._longest_seconds: float = settings.MCPHUB_CALL_TIMEOUT_SECONDS

    async def run(self, call: Call, result_stages: tuple[ResultStage, ...]) -> End:
        record = call.record
        if record.stored is not None and record.stored.hidden:
            records.of_call.set(record.stored.hidden)
        began = time.monotonic()
        context = self.context(call)
        try:
            end = await self._judged(call, await self._result(call, context, began), result_stages)
        except Suspended as suspended:
            end = End(suspended.wire, json.canonical(suspended.recorded))
        except HubError as error:
            end = End(None, None, error.parted())
        finally:
            context.close()
        end.seconds = time.monotonic() - began
        if end.failure is not None:
            await self._render(call, end, end.failure, result_stages)
        return end

    def context(self, call: Call) -> CallContext:
        return CallContext(
            call.exchange,
            call.tool.name,
            call.record.invocation_id,
            call.work,
            call.request,
            call.record,
            self._commits,
            self._stages,
        )

    async def _result(self, call: Call, context: CallContext, began: float) -> ToolResult:
        """Return the backend's answer, within its time."""
        request = call.request
        seconds = self._seconds(call, began)
        call.work.deadline = began + seconds

        def late() -> ToolTimeout:
            words = f"The tool did not finish within {seconds:g} s. It may still take effect."
            return ToolTimeout(words, timeout_seconds=seconds)

        if request.runner is not None:
            return await finished(call.work, request.runner(call, call.arguments, context), context, late)
        backend = call.tool.backend.call(call.arguments, context)
        if tracing.recorder is None:
            return await finished(call.work, backend, context, late)
        with tracing.span("mcphub.backend"):
            return await finished(call.work, backend, context, late)

    def _seconds(self, call: Call, began: float) -> float:
        seconds, ends_by = call.tool.timeout_seconds, call.request.ends_by
        if call.request.runner is None and seconds > self._longest_seconds:
            seconds = self._longest_seconds
        if ends_by is not None:
            # Never before: whoever asked judges by its own clock whether the time is over.
            seconds = min(seconds, max(0.1, math.ceil((ends_by - began) * 10) / 10))
        return seconds

    async def _judged(self, call: Call, result: ToolResult, result_stages: tuple[ResultStage, ...]) -> End:
        """Return the result for the wire, the same as canonical text, and the failure that it reports, if any."""
        try:
            wire = result.wire()
            text = json.canonical(wire)
            if is_deep(wire, text):
                raise ValueError(f"nested deeper than {DEEPEST_RESULT} levels")
            for stage in result_stages:
                wire, text = await stage.result(call.record, wire, text)
            words = " ".join([block["text"] for block in wire["content"] if block["type"] == "text"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ResultInvalid(f"The tool's result cannot be sent as JSON: {error}") from error
        if result.is_error:
            return End(wire, text, ExecutionError(words[:500] or None))
        if call.tool.result is not None:
            await self._check(call, wire, text, result)
        return End(wire, text)

    async def _check(self, call: Call, wire: dict[str, Json], text: str, result: ToolResult) -> None:
        """Raise ResultInvalid for a result that breaks its schema."""
        schema = call.tool.result
        assert schema is not None
        structured = wire.get("structuredContent", NOTHING)
        if structured is NOTHING:
            raise ResultInvalid("The tool declares an output schema and gave no structured result.")
        if schema.may_hold(text):
            wrong = await self._judge.wrong(schema, json.canonical(structured), call.work.principal)
        else:
            wrong = None if schema.is_valid(structured) else schema.explain(structured)
        if wrong is None:
            return
        stages = self._stages.of(call.record.tool, call.exchange.configuration).result_stages
        if stages and structured != result.structured and result.structured is not NOTHING:
            raise stages[-1].unfit()
        raise ResultInvalid(f"The tool's result breaks its output schema: {wrong.sentence}")

    @staticmethod
    async def _render(call: Call, end: End, failure: HubError, result_stages: tuple[ResultStage, ...]) -> None:
        """Complete the end of a call that failed: as its caller, and the record, are shown the failure."""
        record = call.record
        failure.invocation_id = record.invocation_id
        end.rendered = record.configuration.errors.render(
            failure,
            invocation_id=record.invocation_id,
            trace_id=record.source.trace_id,
            tool=call.tool.name,
            retry_safe=call.tool.retry_safe,
        )
        if end.wire is not None:
            return
        for stage in result_stages:
            end.failure, end.rendered = await stage.failure(record, end.failure or failure, end.rendered)
        if end.is_result:
            end.wire = as_result(end.rendered)
            end.recorded = json.canonical(end.wire)
