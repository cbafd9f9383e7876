"""`/mcp`: Streamable HTTP, with sessions for the four handshake revisions and without for the stateless one.

The header decides the era, the body must agree. Answers are JSON unless another message has to be sent before them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable
from typing import ClassVar

from mcphub.server import methods
from mcphub.server.exchange import Failure, SessionExchange, StatelessExchange, guarded, stateless_source, take
from mcphub.server.listening import EVERY_LIST, HEARTBEAT
from mcphub.transports.base import JSON, HubConsumer
from mcphub.transports.batches import BatchPartResponse, BatchResponse
from mcphub.transports.responses import SessionResponse, StatelessResponse
from sessions_app import transports
from sessions_app.kit import tracing
from sessions_app.protocol import batch, envelope, jsonrpc, revisions, sse
from sessions_app.protocol.errors import (
    AlreadyInitialized,
    HubError,
    InvalidRequest,
    MethodNotAllowed,
    NotAcceptable,
    Refused,
    SessionNotFound,
)
from sessions_app.protocol.json import Json
from sessions_app.store import SessionView

logger = logging.getLogger(__name__)

TRANSPORT = transports.STREAMABLE_HTTP.name


class StreamableHttpEndpoint(HubConsumer):
    allowed_methods: ClassVar[tuple[str, ...]] = ("POST", "GET", "DELETE")

    def handle(self) -> Awaitable[None]:
        method = self.scope["method"]
        assert self.verdict is not None
        if "mcphub.toolset" in self.scope:
            self.selection()
        if self.verdict.is_stateless:
            if method != "POST":
                self.allowed_methods = ("POST",)  # type: ignore[misc]
                raise MethodNotAllowed("This protocol version takes POST only. Use subscriptions/listen to listen.")
            return self._describing_itself()
        if method == "POST":
            return self._handshake()
        return self._listen() if method == "GET" else self._end()

    # The stateless era ---------------------------------------------------------------------------

    def _read(self) -> Awaitable[Json]:
        """Return the decoded body of a POST that takes the answers we give."""
        assert self.verdict is not None
        if not self.verdict.accepts:
            raise NotAcceptable
        return self.read_message()

    async def _describing_itself(self, given: dict[str, Json] | None = None) -> None:
        value = await self._read() if given is None else given
        climbed = envelope.climb(value, self.headers, methods.STATELESS)
        if isinstance(climbed, jsonrpc.Notification):
            await self.respond(202, b"", ())
            return
        response = StatelessResponse(self)
        outcome = await guarded(self.hub, TRANSPORT, climbed.request, self._stateless(climbed, response))
        if isinstance(outcome, Failure):
            await response.fail(outcome.error)
        else:
            await response.finish(outcome)

    async def _stateless(self, climbed: envelope.Envelope, response: StatelessResponse) -> bytes:
        exchange = StatelessExchange(
            hub=self.hub,
            configuration=self.configuration,
            source=await stateless_source(self.hub, self.caller, climbed, TRANSPORT, self.client_address),
            revision=revisions.revision(climbed.protocol_version),
            request=climbed.request,
            channel=response,
            progress_token=climbed.progress_token,
            log_level=climbed.log_level,
            watch=response.watch,
            gone=self.gone,
            headers=self.headers,
            http=None if tracing.recorder is None else self.http(),
            idempotency_key=self.headers.idempotency_key,
            toolset=self.scope.get("mcphub.toolset", ""),
        )
        return jsonrpc.encode_result(climbed.request.id, await exchange.result())

    # The handshake era ---------------------------------------------------------------------------

    async def _handshake(self) -> None:
        value = await self._read()
        if envelope.describes_itself(value):
            # The body is of the stateless era, the header is not: the ladder says so.
            await self._describing_itself(value)
            return
        if isinstance(value, list):
            await self._batch(value)
            return
        message = jsonrpc.parse(value)
        try:
            if isinstance(message, jsonrpc.Request) and message.method == "initialize":
                await self._initialize(message)
                return
            session = await self._session()
            if isinstance(message, jsonrpc.Request):
                await self._request(session, message, SessionResponse(self, session))
            else:
                await self._take(session, message)
        except HubError as error:
            if isinstance(message, jsonrpc.Request):
                error.request_id = message.id
            raise

    async def _initialize(self, message: jsonrpc.Request) -> None:
        if self.headers.session_id is not None:
            with contextlib.suppress(SessionNotFound):
                await self._session()
                raise AlreadyInitialized
        session = await self.hub.sessions.open(self.caller, TRANSPORT, **methods.client_of(message.params))
        selection = self.selection()
        of_vendors = methods.extensions_of_vendors(self.hub, selection, self.caller)
        words = selection.instructions_for(self.caller)
        result = methods.initialize(message.params, session.protocol_version, words, of_vendors)
        await self.respond(
            200, jsonrpc.encode_result(message.id, result), (JSON, (b"mcp-session-id", session.session_id.encode()))
        )

    async def _session(self) -> SessionView:
        session_id = self.headers.session_id
        if session_id is None:
            raise InvalidRequest("The header Mcp-Session-Id is missing. Send initialize first, then its session id.")
        return await self.hub.sessions.find(session_id, self.caller, TRANSPORT)

    async def _request(self, session: SessionView, message: jsonrpc.Request, response: StatelessResponse) -> None:
        exchange = SessionExchange.of(
            self.hub,
            session,
            self.caller,
            message,
            self.client_address,
            configuration=self.configuration,
            channel=response,
            watch=response.watch,
            http=self.http(),
            idempotency_key=self.headers.idempotency_key,
            toolset=self.toolset,
        )
        outcome = await exchange.answered()
        if isinstance(outcome, Failure):
            ends = outcome.is_ours or isinstance(outcome.error, SessionNotFound | Refused)
            await response.fail(outcome.error, status=None if ends else 200)
        else:
            await response.finish(outcome)

    async def _take(self, session: SessionView, message: jsonrpc.Message) -> None:
        """Accept a notification, or a response to one of the hub's requests."""
        await self.hub.touch_session(session.session_id)
        await take(self.hub, session.session_id, message)
        await self.respond(202, b"", ())

    async def _batch(self, values: list[Json]) -> None:
        session = await self._session()
        if not revisions.revision(session.protocol_version).batching:
            raise InvalidRequest("Send one message at a time: only sessions of 2025-03-26 take arrays.")
        parts = batch.parse(values)
        await self.hub.touch_session(session.session_id)
        requests = [part for part in parts if isinstance(part, jsonrpc.Request)]
        errors = [part for part in parts if isinstance(part, InvalidRequest)]
        if not requests and (errors or None in parts):
            body = b"[%b]" % b",".join(map(self.render, errors))
            await (self.respond(400, body) if errors else self.respond(400, b"", ()))
            return
        answer = BatchResponse(self, session, len(requests) + len(errors))
        watcher = asyncio.create_task(answer.watch()) if requests else None
        try:
            for error in errors:
                await answer.settle(self.render(error))
            work = [
                asyncio.create_task(self._request(session, each, BatchPartResponse(self, answer))) for each in requests
            ]
            for part in parts:
                if part is not None and not isinstance(part, jsonrpc.Request | InvalidRequest):
                    await take(self.hub, session.session_id, part)
            await asyncio.gather(*work)
        finally:
            if watcher is not None:
                watcher.cancel()
        if not requests:
            await self.respond(202, b"", ())

    async def _listen(self) -> None:
        if not envelope.accepts_sse(self.headers.accept):
            raise NotAcceptable("Accept must name text/event-stream.")
        session = await self._session()
        await self.hub.touch_session(session.session_id)
        if self.headers.last_event_id:
            await self._resume(session, self.headers.last_event_id)
            return
        stream = self.hub.streams.open(self.caller, session.session_id, EVERY_LIST)
        watcher = asyncio.create_task(self.gone())
        watcher.add_done_callback(lambda _: stream.close())
        try:
            await self.begin_stream()
            await self.write(sse.comment("listening"))
            async for message in stream:
                await self.write(sse.frame(message) if message != HEARTBEAT else sse.comment())
            await self.write(b"", last=True)
        finally:
            watcher.cancel()
            self.hub.streams.remove(stream)

    async def _resume(self, session: SessionView, event_id: str) -> None:
        follower = await self.hub.resuming.follow(session.session_id, event_id)
        watcher = asyncio.create_task(self.gone())
        watcher.add_done_callback(lambda _: follower.close())
        try:
            await self.begin_stream()
            async for event in follower:
                await self.write(sse.comment() if event is None else sse.frame(event.message, id=event.id))
            await self.write(b"", last=True)
        finally:
            watcher.cancel()
            self.hub.resuming.leave(follower)

    async def _end(self) -> None:
        session = await self._session()
        if not await self.hub.sessions.end(session.session_id, reason=transports.STREAMABLE_HTTP.session_end):
            raise SessionNotFound
        await self.respond(204, b"", ())
