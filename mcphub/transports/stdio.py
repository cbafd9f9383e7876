"""`mcphub stdio`: both eras over one pipe, for one client (MCP, Transports, stdio).

The first request decides for the whole process: `initialize` opens a session, a request that describes itself is
of the stateless era. `server/discover` alone decides nothing, since clients probe with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from django.conf import settings

from invocations.call_source import ClientChannel
from invocations.ledger.records import Touch
from mcphub.process import leaving, runtime
from mcphub.server import failures, methods
from mcphub.server.exchange import ConnectionExchange, StatelessExchange, encoded, guarded, stateless_source, take
from mcphub.server.listening import EVERY_LIST, HEARTBEAT, Stream
from mcphub.transports.pipes import Input, Output
from sessions_app import transports
from sessions_app.caller import Caller, local_caller
from sessions_app.kit import decoding
from sessions_app.protocol import batch, envelope, json, jsonrpc, revisions
from sessions_app.protocol.errors import (
    AuditUnavailable,
    HubError,
    InvalidRequest,
    MethodNotFound,
    PayloadTooLarge,
    ServerBusy,
    SessionNotFound,
)
from sessions_app.protocol.json import Json
from sessions_app.protocol.lines import LineReader, TooLong, glimpse_id
from sessions_app.store import SessionView

logger = logging.getLogger(__name__)

TRANSPORT = transports.STDIO.name
_LAST_WORDS_SECONDS = 3
_ANSWERED = ""
"""Key of a request with an answer on its way: the client may reuse the ID once it has it."""


@dataclass(eq=False, slots=True)
class PipeRequest:
    """A request under way on the pipe."""

    key: str
    """Its id as JSON: 1 is not "1"."""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    """The client wants no answer any more."""

    async def watch(self) -> None:
        await self.cancelled.wait()


Out = Callable[[bytes], Awaitable[None]]
Serve = Callable[[PipeRequest], Awaitable[bytes]]


async def run(source: int, sink: int) -> None:
    """Serve the client at the other end until it closes its end, or SIGTERM."""
    hub = await runtime.ensure()
    try:
        await hub.transports.open([transports.STDIO])
        await Pipe(hub, Output(sink)).run(Input(source))
    finally:
        await runtime.stop()


class Pipe(ClientChannel):
    """One client. Its requests run side by side; each answer is a line."""

    def __init__(self, hub: runtime.Hub, output: Output) -> None:
        self._hub = hub
        self._output = output
        self._works: dict[PipeRequest, asyncio.Task[None]] = {}
        self._batches: set[asyncio.Task[None]] = set()
        self._session_id: str | None = None
        """The client's session, once it sent a request that does not describe itself."""
        self._revision: revisions.Revision | None = None
        """The negotiated revision, by `initialize` or by a self-describing request."""
        self._notifier: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None

    async def run(self, source: Input) -> None:
        """Read to the end, let running calls finish or cut them off in time, and close the session."""
        self._reading = asyncio.create_task(self._read(source))
        loop = asyncio.get_running_loop()
        for number in leaving.NUMBERS:
            loop.add_signal_handler(number, self._leave)
        leaving.if_signalled()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading
        if self._session_id is not None:
            self._hub.input_requests.abandon(self._session_id)
        drained = asyncio.create_task(self._hub.drain())
        under_way = [*self._works.values(), *self._batches]
        if under_way:
            await asyncio.wait(under_way, timeout=settings.MCPHUB_DRAIN_SECONDS + _LAST_WORDS_SECONDS)
        await drained
        if self._notifier is not None:
            under_way.append(self._notifier)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        if self._session_id is not None:
            await self._hub.sessions.end(self._session_id, reason=transports.STDIO.session_end)

    def _leave(self) -> None:
        """Stop reading. On a second signal, or after the client's end: cancel running calls."""
        assert self._reading is not None
        if not self._reading.done():
            self._reading.cancel()
        else:
            self._hub.calls.running.cancel_all()

    # In ------------------------------------------------------------------------------------------

    async def _read(self, source: Input) -> None:
        lines = LineReader(self._hub.max_body_bytes)
        while chunk := await source.read():
            for line in lines.feed(chunk):
                await self._line(line)
        for line in lines.end():
            await self._line(line)

    async def _line(self, line: bytes | TooLong) -> None:
        """Take one line. Whatever it holds, the pipe goes on."""
        try:
            if isinstance(line, TooLong):
                limit = self._hub.max_body_bytes
                raise PayloadTooLarge(f"The line is larger than {limit} bytes. Send less.", limit_bytes=limit)
            value = await decoding.body(line)
        except HubError as error:
            error.request_id = glimpse_id(line.head if isinstance(line, TooLong) else line)
            await self._refuse(error)
            return
        try:
            if isinstance(value, list):
                await self._batch(value)
            else:
                await self._message(value, jsonrpc.parse(value), self.send)
        except Exception as error:
            refusal = failures.as_hub_error(error, "A line could not be handled")
            if jsonrpc.is_notification(value):
                failures.log("A notification was dropped", refusal.code, refusal.correlation_id)
                return
            refusal.request_id = _answerable_id(value)
            await self._refuse(refusal)

    async def _message(self, value: Json, message: jsonrpc.Message, out: Out) -> asyncio.Task[None] | None:
        """Take one message; give the task that answers it, where one does. `value` is its source."""
        if not isinstance(message, jsonrpc.Request):
            await self._take(message)
            return None
        caller = self._caller()
        describes_itself = envelope.describes_itself(value)
        if self._is_stateless or (describes_itself and self._session_id is None):
            return self._stateless(value, message, caller, out)
        if describes_itself:
            raise InvalidRequest(
                "This connection began with initialize. Leave the protocol version out of _meta, or start another."
            )
        begins = message.method == "initialize"
        session = await self._session(caller, begins=begins)
        task = self._begin(message, out, lambda work: self._in_session(session, caller, message, work))
        if begins:
            await asyncio.wait([task])  # what the client sent behind it counts on the session
        return task

    async def _take(self, message: jsonrpc.Message) -> None:
        """Accept a message without an answer, even if it is invalid: a notification, or an answer of the client's."""
        if isinstance(message, jsonrpc.Notification) and message.method == "notifications/cancelled":
            named = jsonrpc.readable_id({"id": message.params.get("requestId")})
            key = None if named is None else json.canonical(named)
            for work in self._works:
                if work.key == key:
                    work.cancelled.set()
        elif self._session_id is not None:
            try:
                caller = self._caller()
                await take(self._hub, (await self._session(caller)).session_id, message)
            except HubError as error:
                logger.warning("A message that needs no answer was dropped: %s", error)

    def _stateless(self, value: Json, request: jsonrpc.Request, caller: Caller, out: Out) -> asyncio.Task[None]:
        if request.method == "initialize":
            raise MethodNotFound("This connection is without a session. Start another process to send initialize.")
        climbed = envelope.climb(value, None, methods.STATELESS)
        assert isinstance(climbed, envelope.Envelope)
        if request.method != "server/discover":
            self._revision = revisions.revision(climbed.protocol_version)
        if any(work.key == json.canonical(request.id) for work in self._works):
            raise InvalidRequest("A request of this id is still under way. Use a new id.")
        return self._begin(request, out, lambda work: self._without_session(climbed, caller, work))

    async def _batch(self, values: list[Json]) -> None:
        """Answer an array of messages by an array of answers (MCP 2025-03-26, the only revision that has them)."""
        if self._session_id is None or self._revision is None or not self._revision.batching:
            raise InvalidRequest("Send one message a line: only sessions of 2025-03-26 take arrays.")
        answers: list[bytes] = []

        async def collect(body: bytes) -> None:
            answers.append(body)

        tasks = []
        for value, part in zip(values, batch.parse(values), strict=True):
            if part is None:
                logger.warning("A notification was dropped: it is not valid")
                continue
            try:
                if isinstance(part, InvalidRequest):
                    raise part
                task = await self._message(value, part, collect)
                tasks += [task] if task is not None else []
            except HubError as error:
                error.request_id = _answerable_id(value)
                answers.append(self._render(error))
        answering = asyncio.create_task(self._answer_batch(tasks, answers))
        self._batches.add(answering)
        answering.add_done_callback(self._batches.discard)

    async def _answer_batch(self, tasks: list[asyncio.Task[None]], answers: list[bytes]) -> None:
        if tasks:
            await asyncio.wait(tasks)
        if answers:
            await self.send(b"[%b]" % b",".join(answers))

    # Work ----------------------------------------------------------------------------------------

    def _begin(self, request: jsonrpc.Request, out: Out, serve: Serve) -> asyncio.Task[None]:
        if self._hub.is_draining or len(self._works) >= settings.MCPHUB_MAX_CALLS:
            raise ServerBusy
        work = PipeRequest(json.canonical(request.id))
        task = asyncio.create_task(self._do(request, work, out, serve))
        self._works[work] = task
        return task

    async def _do(self, request: jsonrpc.Request, work: PipeRequest, out: Out, serve: Serve) -> None:
        try:
            body = encoded(self._hub, request, await guarded(self._hub, transports.STDIO.name, request, serve(work)))
            if not work.cancelled.is_set():
                work.key = _ANSWERED
                await out(body)
        finally:
            # Only now: a client that asks and does not read comes to the bound of requests, too.
            del self._works[work]

    async def _without_session(self, climbed: envelope.Envelope, caller: Caller, work: PipeRequest) -> bytes:
        exchange = StatelessExchange(
            hub=self._hub,
            configuration=self._hub.configuration,
            source=await stateless_source(self._hub, caller, climbed, TRANSPORT),
            revision=revisions.revision(climbed.protocol_version),
            request=climbed.request,
            channel=self,
            progress_token=climbed.progress_token,
            log_level=climbed.log_level,
            watch=work.watch,
        )
        return jsonrpc.encode_result(climbed.request.id, await exchange.result())

    async def _in_session(
        self, session: SessionView, caller: Caller, request: jsonrpc.Request, work: PipeRequest
    ) -> bytes:
        exchange = ConnectionExchange.of(self._hub, session, caller, request, channel=self, watch=work.watch)
        result = await exchange.result()
        if isinstance(result, dict) and request.method == "initialize":
            self._revision = revisions.revision(result["protocolVersion"])
            self._listen(session, caller)
        return jsonrpc.encode_result(request.id, result)

    # The session -----------------------------------------------------------------------------------

    async def _session(self, caller: Caller, *, begins: bool = False) -> SessionView:
        """Return the client's session; open one where it has none, or `begins` anew after an operator ended it."""
        if self._session_id is not None:
            try:
                return await self._hub.sessions.find(self._session_id, caller, TRANSPORT)
            except SessionNotFound:
                if not begins:
                    raise
        session = await self._hub.sessions.open(caller, TRANSPORT)
        self._session_id = session.session_id
        return session

    def _listen(self, session: SessionView, caller: Caller) -> None:
        stream = self._hub.streams.open(caller, session.session_id, EVERY_LIST)
        self._notifier = asyncio.create_task(self._tell(session, stream))

    async def _tell(self, session: SessionView, stream: Stream) -> None:
        """Pass the session's news on, and keep it alive as long as the pipe is."""
        try:
            async for message in stream:
                if message == HEARTBEAT:
                    with contextlib.suppress(AuditUnavailable):  # the next beat says it again
                        await self._hub.ledger.append(Touch(session.session_id))
                else:
                    await self.send(message)
        except HubError as error:
            logger.warning("The session is told no more news: %s", error)
        finally:
            self._hub.streams.remove(stream)

    @property
    def _is_stateless(self) -> bool:
        return self._revision is not None and self._revision.stateless

    def _caller(self) -> Caller:
        """Return the caller, looked up each time: a key may be revoked."""
        key = settings.MCPHUB_API_KEY
        return self._hub.configuration.keys.caller(f"Bearer {key}") if key else local_caller()

    # Out -----------------------------------------------------------------------------------------

    async def send(self, message: bytes) -> None:
        if message == HEARTBEAT:  # a pipe needs no sign of life
            return
        try:
            await self._output.write(message)
        except OSError:
            self._gone()

    def _gone(self) -> None:
        """Nobody reads any more. That ends the reading, and cancels requests of the stateless era."""
        if self._is_stateless:
            for work in self._works:
                work.cancelled.set()
        assert self._reading is not None
        self._reading.cancel()

    async def _refuse(self, error: HubError) -> None:
        self._hub.transports.failed(transports.STDIO.name, error)
        await self.send(self._render(error))

    def _render(self, error: HubError) -> bytes:
        rendered = failures.error_object(self._hub.configuration.errors, error)
        # Clients of old revisions want a null; one that has not told its revision may be old.
        null_id = self._revision is None or self._revision.null_error_ids
        return jsonrpc.encode_error(error.request_id, rendered, null_id=null_id)


def _answerable_id(value: Json) -> jsonrpc.RequestId | None:
    """Return the id of a request that is refused. That of an answer is not ours to use: the client counts it."""
    return jsonrpc.readable_id(value) if isinstance(value, dict) and "method" in value else None
