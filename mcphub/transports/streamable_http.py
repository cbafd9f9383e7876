"""`/mcp`: Streamable HTTP, with sessions for the four handshake revisions and without for the stateless one.

The header decides the era, the body must agree. Answers are JSON unless something has to be said before them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, ClassVar

from invocations.origin import Origin
from invocations.records import Touch
from mcphub.server import dialogue, methods
from mcphub.server.context import RequestContext
from mcphub.server.dialogue import origin_of, progress_token
from mcphub.server.listening import EVERY_LIST, HEARTBEAT
from mcphub.transports.answers import Answer, SessionAnswer
from mcphub.transports.base import JSON, HubConsumer
from mcphub.transports.batches import BatchAnswer, Part
from sessions_app.models import Transport
from sessions_app.protocol import batch, envelope, json, jsonrpc, revisions, sse
from sessions_app.protocol.errors import (
    AlreadyInitialized,
    HubError,
    InvalidRequest,
    MethodNotAllowed,
    MethodNotFound,
    NotAcceptable,
    Refused,
    SessionNotFound,
)  # fmt: skip
from sessions_app.store import SessionView

logger = logging.getLogger(__name__)

TRANSPORT = Transport.STREAMABLE_HTTP.value


class StreamableHttp(HubConsumer):
    allowed_methods: ClassVar[tuple[str, ...]] = ("POST", "GET", "DELETE")

    async def handle(self) -> None:
        method = self.scope["method"]
        assert self.entrance is not None
        if self.toolset:
            self.selection()
        if self.entrance.is_stateless:
            if method != "POST":
                self.allowed_methods = ("POST",)  # type: ignore[misc]
                raise MethodNotAllowed("This protocol version takes POST only. Use subscriptions/listen to listen.")
            await self._describing_itself(await self._read())
        elif method == "POST":
            await self._handshake(await self._read())
        elif method == "GET":
            await self._listen()
        else:
            await self._end()

    # The stateless era ---------------------------------------------------------------------------

    async def _read(self) -> Any:
        """Give the decoded body of a POST that takes the answers we give."""
        assert self.entrance is not None
        if not self.entrance.accepts:
            raise NotAcceptable
        self.need_json()
        return json.loads(await self.read_body())

    async def _describing_itself(self, value: Any) -> None:
        climbed = envelope.climb(value, self.headers, methods.STATELESS)
        if isinstance(climbed, jsonrpc.Notification):
            await self.respond(202, b"", ())
            return
        request = climbed.request
        voice = Answer(self)
        try:
            context = RequestContext(
                hub=self.hub, origin=self._origin(climbed) or await self._new_origin(climbed),
                revision=revisions.revision(climbed.protocol_version), request_id=request.id, voice=voice,
                progress_token=climbed.progress_token, log_level=climbed.log_level, watch=voice.watch,
                gone=self.gone, headers=self.headers, idempotency_key=self.headers.idempotency_key,
                toolset=self.toolset,
            )  # fmt: skip
            result = await methods.STATELESS[request.method](context, request.params)
        except HubError as error:
            error.request_id = request.id
            await voice.fail(error)
        except asyncio.CancelledError:
            await voice.cut_off(request)
        except Exception as error:
            await voice.crash(request, error)
        else:
            await voice.finish(jsonrpc.encode_result(request.id, result))

    def _origin(self, climbed: envelope.Envelope) -> Origin | None:
        """Give what the last request of this client came from, if it is there and nothing has changed."""
        origin: Origin | None = self.caller.origins.get(self._client(climbed))
        if (
            origin is None
            or climbed.trace_parent is not None
            or climbed.client_capabilities != origin.client_capabilities
            or not self.hub.sessions.recall(origin.session_id)
        ):
            return None
        return origin

    async def _new_origin(self, climbed: envelope.Envelope) -> Origin:
        name, version = climbed.client_name or "", climbed.client_version or ""
        session_id = await self.hub.sessions.implicit(
            self.caller, transport=TRANSPORT, client_name=name, client_version=version,
            protocol_version=climbed.protocol_version,
        )  # fmt: skip
        trace = climbed.trace_parent
        origin = Origin(
            caller=self.caller, session_id=session_id, transport=TRANSPORT,
            protocol_version=climbed.protocol_version, client_name=name, client_version=version,
            client_address=self.client_address, client_capabilities=climbed.client_capabilities,
            trace_id=trace.split("-")[1] if trace else "",
        )  # fmt: skip
        if trace is None:
            self.caller.remember(self._client(climbed), origin)
        return origin

    def _client(self, climbed: envelope.Envelope) -> tuple[str | None, str | None, str, str]:
        return climbed.client_name, climbed.client_version, climbed.protocol_version, self.client_address

    # The handshake era ---------------------------------------------------------------------------

    async def _handshake(self, value: Any) -> None:
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
                await self._request(session, message, SessionAnswer(self, session))
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
        result = methods.initialize(message.params, session.protocol_version, self.selection().instructions)
        await self.respond(
            200, jsonrpc.encode_result(message.id, result), (JSON, (b"mcp-session-id", session.session_id.encode()))
        )

    async def _session(self) -> SessionView:
        session_id = self.headers.session_id
        if session_id is None:
            raise InvalidRequest("The header Mcp-Session-Id is missing. Send initialize first, then its session id.")
        return await self.hub.sessions.find(session_id, self.caller, TRANSPORT)

    async def _request(self, session: SessionView, message: jsonrpc.Request, voice: Answer) -> None:
        try:
            handler = methods.HANDSHAKE.get(message.method)
            if message.method != "tools/call":
                await self._touch(session)
            if handler is None:
                raise MethodNotFound.named(message.method)
            context = RequestContext(
                hub=self.hub, origin=origin_of(session, self.caller, self.client_address),
                revision=revisions.revision(session.protocol_version), request_id=message.id, voice=voice,
                progress_token=progress_token(message.params),
                log_level=session.log_level or "info", watch=voice.watch,
                idempotency_key=self.headers.idempotency_key, toolset=self.toolset,
            )  # fmt: skip
            result = await handler(context, message.params)
        except HubError as error:
            error.request_id = message.id
            await voice.fail(error, status=None if isinstance(error, SessionNotFound | Refused) else 200)
        except asyncio.CancelledError:
            await voice.cut_off(message)
        except Exception as error:
            await voice.crash(message, error)
        else:
            await voice.finish(jsonrpc.encode_result(message.id, result))

    async def _take(self, session: SessionView, message: jsonrpc.Message) -> None:
        """Take a notification, or an answer to what the hub asked."""
        await self._touch(session)
        await dialogue.take(self.hub, session, self.caller, message, address=self.client_address)
        await self.respond(202, b"", ())

    async def _batch(self, values: list[Any]) -> None:
        session = await self._session()
        if not revisions.revision(session.protocol_version).batching:
            raise InvalidRequest("Send one message at a time: only sessions of 2025-03-26 take arrays.")
        parts = batch.parse(values)
        await self._touch(session)
        requests = [part for part in parts if isinstance(part, jsonrpc.Request)]
        errors = [part for part in parts if isinstance(part, InvalidRequest)]
        if errors and not requests:
            await self.respond(400, b"[%b]" % b",".join(map(self.render, errors)))
            return
        answer = BatchAnswer(self, session, len(requests) + len(errors))
        watcher = asyncio.create_task(answer.watch()) if requests else None
        try:
            for error in errors:
                await answer.settle(self.render(error))
            work = [asyncio.create_task(self._request(session, each, Part(self, answer))) for each in requests]
            for part in parts:
                if not isinstance(part, jsonrpc.Request | InvalidRequest):
                    await dialogue.take(self.hub, session, self.caller, part, address=self.client_address)
            await asyncio.gather(*work)
        finally:
            if watcher is not None:
                watcher.cancel()
        if not requests:
            await self.respond(202, b"", ())

    async def _touch(self, session: SessionView) -> None:
        verdict = await self.hub.ledger.append(Touch(session.session_id))
        if not verdict.session_alive:
            self.hub.sessions.forget(session.session_id)
            raise SessionNotFound

    async def _listen(self) -> None:
        if not envelope.accepts_sse(self.headers.accept):
            raise NotAcceptable("Accept must name text/event-stream.")
        session = await self._session()
        await self._touch(session)
        if self.headers.last_event_id:
            await self._resume(session, self.headers.last_event_id)
            return
        stream = self.hub.streams.open(session.session_id, EVERY_LIST)
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
        if not await self.hub.sessions.end(session.session_id, reason="closed by the client"):
            raise SessionNotFound
        await self.respond(204, b"", ())
