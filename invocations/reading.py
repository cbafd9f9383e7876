"""`Reads`: the one way to what `resources/read`, `prompts/get` and `completion/complete` answer, for every transport.

As with a read-only tool the outcome is committed before anybody hears of it, and every way out leaves one row.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from django.conf import settings

from invocations.call.context import CallContext, InputRequester, Suspended
from invocations.call.judging import DEEPEST_RESULT, is_deep
from invocations.call.running import Read, Stopped
from invocations.calling import Calls
from invocations.exchange import CallExchange, CallRequest
from invocations.ledger.limits import take_token
from invocations.ledger.records import Outcome
from invocations.subject import PROMPTS_GET, RESOURCES_READ, RowSubject
from sessions_app.protocol import json
from sessions_app.protocol.errors import (
    AuditUnavailable,
    Cancelled,
    HubError,
    ResultInvalid,
    ServerError,
    SessionNotFound,
    ToolTimeout,
)
from tools_catalog.call.base import Json

logger = logging.getLogger(__name__)

Answer = dict[str, Json] | bytes
_GUARDED = (RESOURCES_READ, PROMPTS_GET)
"""What guardrails look at. A completion is one of few words that the hub or an upstream offers."""


@dataclass(slots=True, kw_only=True)
class Reading:
    """What a request reads, and how."""

    subject: RowSubject
    label: str
    """What people are told that it is: "The prompt greet"."""
    seconds: float
    is_static: bool
    """A row of the hub alone decides what is read."""
    work: Callable[[CallContext], Coroutine[Any, Any, dict[str, Json]]]
    """Gives the result as it is recorded."""
    answer: Callable[[dict[str, Json]], Answer]
    """Makes of it what the client gets. May raise ResultInvalid."""


@dataclass(slots=True, kw_only=True)
class ReadRequest:
    """A request to read. `asked` and `arguments` are as they came."""

    method: str
    scope: str
    asked: Json
    arguments: Json
    find: Callable[[], Reading]
    """May raise whatever refuses the request."""
    request_id: str | int | None = None
    meta: Mapping[str, Json] | None = None
    make_requester: Callable[[], InputRequester] | None = None
    """How a function asks the client; None where nobody could answer."""


class Reads:
    """Makes reads with the ledger, the places and the limits that calls have."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def read(self, request: ReadRequest, exchange: CallExchange) -> Answer:
        """Give the answer. Raises the error that it is answered with, AuditUnavailable where it cannot be recorded."""
        received, caller = time.time(), exchange.source.caller
        reading: Reading | None = None
        try:
            caller.need(request.scope)
            if caller.calls_per_minute:
                await take_token(self._calls.ledger, f"{caller.principal} {request.method}", caller.calls_per_minute)
            reading = request.find()
            await self._calls.admit(caller.principal)
        except HubError as error:
            return await self._refused(request, exchange, error, received, reading)
        read = Read(
            reading.subject,
            exchange,
            request_id=request.request_id,
            arguments=request.arguments,
            received=received,
            seconds=min(reading.seconds, settings.MCPHUB_CALL_TIMEOUT_SECONDS),
            is_static=reading.is_static,
        )
        self._calls.running.add(read)
        try:
            return await self._carried_out(read, reading, request, exchange)
        finally:
            self._calls.running.remove(read)

    async def _carried_out(self, read: Read, reading: Reading, request: ReadRequest, exchange: CallExchange) -> Answer:
        calls, task = self._calls, asyncio.current_task()
        assert task is not None
        cancellations = task.cancelling()
        started = read.received
        if settings.MCPHUB_AUDIT_EVERY_INTENT:
            verdict = await calls.intend(read)
            if not verdict.session_alive:
                return await self._refused(request, exchange, SessionNotFound(), read.received, reading)
            started = time.time()
        answer: Answer = b""
        text: str | None = None
        rendered: dict[str, Json] | None = None
        failure: HubError | None = None
        began = time.monotonic()
        try:
            answer, text = await self._result(read, reading, request, exchange)
        except HubError as error:
            failure = error.parted()
            failure.invocation_id = read.invocation_id
            rendered = read.configuration.errors.render(
                failure,
                invocation_id=read.invocation_id,
                trace_id=read.source.trace_id,
                tool=reading.subject.target,
                retry_safe=True,
            )
        try:
            code = "" if failure is None else failure.code
            row = calls.rows.outcome(read, started, time.monotonic() - began, text, code, rendered)
            await calls.record(Outcome(row, read.invocation_id))
            if task.cancelling() > cancellations:
                raise asyncio.CancelledError  # whoever gave the request up is told so once it is on record
            if failure is not None:
                raise failure
            return answer
        finally:
            del failure, task  # what is raised here holds this frame, and the task may hold what is raised

    async def _result(
        self, read: Read, reading: Reading, request: ReadRequest, exchange: CallExchange
    ) -> tuple[Answer, str]:
        """Give the answer, and the result as canonical JSON for the record."""
        asking = CallRequest(name=reading.label, arguments={}, meta=request.meta, make_requester=request.make_requester)
        context = CallContext(exchange, reading.label, read.invocation_id, read, asking, self._calls)
        try:
            result = await read.run(reading.work(context))
            text = _canonical(result)
            guardrails = read.configuration.catalog.guardrails.of_read(read.tool.connection)
            if guardrails is not None and guardrails.result and request.method in _GUARDED:
                result, text = await self._calls.guarding.result(read, guardrails, result, text)
            return reading.answer(result), text
        except Stopped as stopped:
            if stopped.why == "timeout":
                seconds = min(reading.seconds, settings.MCPHUB_CALL_TIMEOUT_SECONDS)
                raise ToolTimeout(
                    f"{reading.label} did not answer within {seconds:g} s. Try again, or tell the operator.",
                    timeout_seconds=seconds,
                ) from None
            if stopped.why == "asks":
                suspended = context.suspended()
                return suspended.wire, json.canonical(suspended.recorded)
            raise Cancelled("The request was cancelled.") from None
        except Suspended as suspended:
            return suspended.wire, json.canonical(suspended.recorded)
        except asyncio.CancelledError:  # of the request: recorded as cancelled, then passed on
            raise Cancelled from None
        except HubError:
            raise
        except Exception as error:
            logger.exception("%s cannot be read", reading.label)
            raise ServerError from error
        finally:
            context.close()

    async def _refused(
        self, request: ReadRequest, exchange: CallExchange, error: HubError, received: float, reading: Reading | None
    ) -> NoReturn:
        """Record a read that was not made, and raise why."""
        if not isinstance(error, AuditUnavailable):
            asked = request.asked if isinstance(request.asked, str) else ""
            refused = CallRequest(name=asked, arguments=request.arguments, request_id=request.request_id)
            subject = (
                RowSubject(method=request.method, target=asked, is_known=False) if reading is None else reading.subject
            )
            await self._calls.refusals.record(refused, exchange, error, received, subject, is_valid=reading is not None)
        try:
            raise error
        finally:
            del error  # its traceback holds this frame


def _canonical(result: dict[str, Json]) -> str:
    try:
        text = json.canonical(result)
        if is_deep(result, text):
            raise ValueError(f"nested deeper than {DEEPEST_RESULT} levels")
    except (TypeError, ValueError) as error:
        raise ResultInvalid(f"The answer cannot be sent as JSON: {error}") from error
    return text
