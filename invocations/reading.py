"""`Reads`: the one way to the answers of `resources/read`, `prompts/get` and `completion/complete`, for every
transport.

As with a read-only tool, the outcome is committed before the answer leaves, and every way out leaves one row.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from invocations.call.cancelling import recorded_first
from invocations.call.context import CallContext, InputRequester, Suspended
from invocations.call.executing import End, finished
from invocations.call.judging import DEEPEST_RESULT, is_deep
from invocations.call.running import Read
from invocations.calling import Calls
from invocations.exchange import CallExchange, CallRequest
from invocations.ledger.limits import take_token
from invocations.subject import RowSubject
from sessions_app.protocol import json
from sessions_app.protocol.errors import (
    AuditUnavailable,
    HubError,
    ResultInvalid,
    ServerError,
    SessionNotFound,
    ToolTimeout,
)
from tools_catalog.call.base import Json

logger = logging.getLogger(__name__)

Answer = dict[str, Json] | bytes


@dataclass(slots=True, kw_only=True)
class Reading:
    """The target of a read, and its reader."""

    subject: RowSubject
    label: str
    """Its name for people: "The prompt greet"."""
    seconds: float
    is_static: bool
    """A row of the hub alone decides the content."""
    work: Callable[[CallContext], Coroutine[Any, Any, dict[str, Json]]]
    """Gives the result as it is recorded."""
    answer: Callable[[dict[str, Json]], Answer]
    """Converts it to the client's result. May raise ResultInvalid."""


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
    """Makes reads with the ledger, the places, the limits and the result stages that calls have."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._longest_seconds: float = settings.MCPHUB_CALL_TIMEOUT_SECONDS

    async def read(self, request: ReadRequest, exchange: CallExchange) -> Answer:
        """Return the answer. Raises the error that it is answered with, AuditUnavailable where it cannot be
        recorded.
        """
        ended = await recorded_first(self._ended(request, exchange))
        if not isinstance(ended, HubError):
            return ended
        try:
            raise ended
        finally:
            del ended  # its traceback holds this frame

    async def _ended(self, request: ReadRequest, exchange: CallExchange) -> Answer | HubError:
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
            seconds=min(reading.seconds, self._longest_seconds),
            is_static=reading.is_static,
        )
        self._calls.running.add(read)
        try:
            return await self._made(read, reading, request, exchange)
        finally:
            self._calls.running.remove(read)

    async def _made(
        self, read: Read, reading: Reading, request: ReadRequest, exchange: CallExchange
    ) -> Answer | HubError:
        started = read.received
        if settings.MCPHUB_AUDIT_EVERY_INTENT:
            verdict = await self._calls.commits.intend(read)
            if not verdict.session_alive:
                return await self._refused(request, exchange, SessionNotFound(), read.received, reading)
            started = time.time()
        answer: Answer = b""
        began, end = time.monotonic(), End(None, None)
        try:
            answer, end.recorded = await self._result(read, reading, request, exchange)
        except HubError as error:
            end.failure = error.parted()
            error.invocation_id = read.invocation_id
            end.rendered = read.configuration.errors.render(
                error,
                invocation_id=read.invocation_id,
                trace_id=read.source.trace_id,
                tool=reading.subject.target,
                retry_safe=True,
            )
        end.seconds = time.monotonic() - began
        await self._calls.finish.recorded(read, end, started)
        return answer if end.failure is None else end.failure

    async def _result(
        self, read: Read, reading: Reading, request: ReadRequest, exchange: CallExchange
    ) -> tuple[Answer, str]:
        """Return the answer, and the result as canonical JSON for the record."""
        asking = CallRequest(name=reading.label, arguments={}, meta=request.meta, make_requester=request.make_requester)
        commits, stages = self._calls.commits, self._calls.stages
        context = CallContext(exchange, reading.label, read.invocation_id, read, asking, read, commits, stages)
        seconds = min(reading.seconds, self._longest_seconds)

        def late() -> ToolTimeout:
            words = f"{reading.label} did not answer within {seconds:g} s. Try again, or tell the operator."
            return ToolTimeout(words, timeout_seconds=seconds)

        try:
            result = await finished(read, reading.work(context), context, late)
            text = _canonical(result)
            for stage in self._calls.stages.of_read(read.tool, read.configuration):
                result, text = await stage.result(read, result, text)
            return reading.answer(result), text
        except Suspended as suspended:
            return suspended.wire, json.canonical(suspended.recorded)
        except HubError:
            raise
        except Exception as error:
            logger.exception("%s cannot be read", reading.label)
            raise ServerError from error
        finally:
            context.close()

    async def _refused(
        self, request: ReadRequest, exchange: CallExchange, error: HubError, received: float, reading: Reading | None
    ) -> HubError:
        """Record a read that was not made; return why."""
        if isinstance(error, AuditUnavailable):
            return error
        asked = request.asked if isinstance(request.asked, str) else ""
        refused = CallRequest(name=asked, arguments=request.arguments, request_id=request.request_id)
        subject = RowSubject(method=request.method, target=asked, is_known=False)
        subject = subject if reading is None else reading.subject
        await self._calls.refusals.record(refused, exchange, error, received, subject, is_valid=reading is not None)
        return error


def _canonical(result: dict[str, Json]) -> str:
    try:
        text = json.canonical(result)
        if is_deep(result, text):
            raise ValueError(f"nested deeper than {DEEPEST_RESULT} levels")
    except (TypeError, ValueError) as error:
        raise ResultInvalid(f"The answer cannot be sent as JSON: {error}") from error
    return text
