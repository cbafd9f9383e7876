"""`/mcp`: Streamable HTTP, with sessions for the four handshake revisions and without for the stateless one.

The header decides the era, the body must agree. Answers are JSON unless something has to be said before them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, ClassVar

from django.conf import settings

from invocations.origin import Origin
from invocations.records import Touch
from mcphub.server import methods
from mcphub.server.context import RequestContext
from mcphub.server.listening import HEARTBEAT, Filter
from mcphub.transports.base import JSON, HubConsumer
from sessions_app.models import Transport
from sessions_app.protocol import envelope, json, jsonrpc, revisions, sse
from sessions_app.protocol.errors import (
    HubError,
    InvalidRequest,
    MethodNotAllowed,
    MethodNotFound,
    NotAcceptable,
    Refused,
    ServerBusy,
    ServerError,
    SessionNotFound,
)  # fmt: skip
from sessions_app.store import SessionView

logger = logging.getLogger(__name__)

TRANSPORT = Transport.STREAMABLE_HTTP.value
_KEPT_ORIGINS = 1000
_COMMIT_AFTER_SECONDS = 10
"""A call that runs longer is answered as an event stream, so that proxies see signs of life."""


class StreamableHttp(HubConsumer):
    allowed_methods: ClassVar[tuple[str, ...]] = ("POST", "GET", "DELETE")

    async def handle(self) -> None:
        method = self.scope["method"]
        if revisions.is_stateless(self.headers.protocol_version):
            if method != "POST":
                self.allowed_methods = ("POST",)  # type: ignore[misc]
                raise MethodNotAllowed("This protocol version takes POST only.")
            await self._stateless()
        elif method == "POST":
            await self._handshake()
        elif method == "GET":
            await self._listen()
        else:
            await self._end()

    # The stateless era ---------------------------------------------------------------------------

    async def _stateless(self) -> None:
        self._need_accept()
        self.need_json()
        await self._describing_itself(json.loads(await self.read_body()))

    async def _describing_itself(self, value: Any) -> None:
        climbed = envelope.climb(value, self.headers, methods.STATELESS)
        if isinstance(climbed, jsonrpc.Notification):
            await self.respond(202, b"", ())
            return
        request = climbed.request
        voice = Answer(self)
        try:
            context = RequestContext(
                hub=self.hub, origin=await self._origin(climbed), revision=revisions.revision(climbed.protocol_version),
                request_id=request.id, voice=voice, progress_token=climbed.progress_token,
                log_level=climbed.log_level, watch=voice.watch, headers=self.headers,
            )  # fmt: skip
            result = await methods.STATELESS[request.method](context, request.params)
        except HubError as error:
            error.request_id = request.id
            await voice.fail(error)
        except asyncio.CancelledError:
            await voice.cut_off(request)
        except Exception:
            await voice.crash(request)
        else:
            await voice.finish(jsonrpc.encode_result(request.id, result))

    async def _origin(self, climbed: envelope.Envelope) -> Origin:
        name, client_version = climbed.client_name or "", climbed.client_version or ""
        session_id = await self.hub.sessions.implicit(
            self.caller, transport=TRANSPORT, client_name=name, client_version=client_version,
            protocol_version=climbed.protocol_version,
        )  # fmt: skip
        known = self.caller.origins
        key = (session_id, name, client_version, climbed.protocol_version, self.client_address)
        origin: Origin | None = known.get(key)
        if origin is None:
            origin = Origin(
                caller=self.caller, session_id=session_id, transport=TRANSPORT,
                protocol_version=climbed.protocol_version, client_name=name, client_version=client_version,
                client_address=self.client_address,
            )  # fmt: skip
            if len(known) < _KEPT_ORIGINS:
                known[key] = origin
        trace = climbed.trace_parent
        return origin.of_request(climbed.client_capabilities, trace.split("-")[1] if trace else "")

    # The handshake era ---------------------------------------------------------------------------

    async def _handshake(self) -> None:
        self._need_accept()
        self.need_json()
        value = json.loads(await self.read_body())
        if isinstance(value, dict) and _describes_itself(value):
            # The body is of the stateless era, the header is not: the ladder says so.
            await self._describing_itself(value)
            return
        if isinstance(value, list):
            raise InvalidRequest("Send one message at a time: this server takes no batches.")
        message = jsonrpc.parse(value)
        try:
            if isinstance(message, jsonrpc.Request) and message.method == "initialize":
                await self._initialize(message)
                return
            session = await self._session()
            if isinstance(message, jsonrpc.Request):
                await self._request(session, message)
            else:
                await self._take(session, message)
        except HubError as error:
            if isinstance(message, jsonrpc.Request):
                error.request_id = message.id
            raise

    async def _initialize(self, message: jsonrpc.Request) -> None:
        session = await self.hub.sessions.open(self.caller, TRANSPORT, **methods.client_of(message.params))
        result = methods.initialize(message.params, session.protocol_version)
        await self.respond(
            200, jsonrpc.encode_result(message.id, result), (JSON, (b"mcp-session-id", session.session_id.encode()))
        )

    async def _session(self) -> SessionView:
        session_id = self.headers.session_id
        if session_id is None:
            raise InvalidRequest("The header Mcp-Session-Id is missing. Send initialize first, then its session id.")
        return await self.hub.sessions.find(session_id, self.caller, TRANSPORT)

    async def _request(self, session: SessionView, message: jsonrpc.Request) -> None:
        voice = Answer(self, cancels=False)
        try:
            handler = methods.HANDSHAKE.get(message.method)
            if message.method != "tools/call":
                await self._touch(session)
            if handler is None:
                raise MethodNotFound(f"There is no method {message.method[:100]!r} here.", method=message.method[:100])
            meta = message.params.get("_meta")
            token = meta.get("progressToken") if isinstance(meta, dict) else None
            context = RequestContext(
                hub=self.hub, origin=origin_of(session, self.caller, self.client_address),
                revision=revisions.revision(session.protocol_version), request_id=message.id, voice=voice,
                progress_token=token if isinstance(token, str | int) and not isinstance(token, bool) else None,
                log_level=session.log_level or "info", watch=voice.watch,
            )  # fmt: skip
            result = await handler(context, message.params)
        except HubError as error:
            error.request_id = message.id
            await voice.fail(error, status=None if isinstance(error, SessionNotFound | Refused) else 200)
        except asyncio.CancelledError:
            await voice.cut_off(message)
        except Exception:
            await voice.crash(message)
        else:
            await voice.finish(jsonrpc.encode_result(message.id, result))

    async def _take(self, session: SessionView, message: jsonrpc.Message) -> None:
        """Take a notification, or an answer that nobody waits for."""
        await self._touch(session)
        if isinstance(message, jsonrpc.Notification) and message.method == "notifications/cancelled":
            context = RequestContext(
                hub=self.hub, origin=origin_of(session, self.caller, self.client_address),
                revision=revisions.revision(session.protocol_version), request_id=0,
            )  # fmt: skip
            await methods.notifications_cancelled(context, message.params)
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
        stream = self.hub.streams.open(session.session_id, Filter(tools=True))
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

    async def _end(self) -> None:
        session = await self._session()
        if not await self.hub.sessions.end(session.session_id, reason="closed by the client"):
            raise SessionNotFound
        await self.respond(204, b"", ())

    def _need_accept(self) -> None:
        if not envelope.accepts(self.headers.accept):
            raise NotAcceptable


class Answer:
    """The answer to one POST: JSON, or an event stream once something is said before the result."""

    __slots__ = ("_cancels", "_door", "_lock")

    def __init__(self, door: HubConsumer, *, cancels: bool = True) -> None:
        self._door = door
        self._cancels = cancels
        self._lock: asyncio.Lock | None = None

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        await self.send(jsonrpc.encode_notification(method, params))

    async def send(self, message: bytes) -> None:
        await self._write(sse.frame(message) if message != HEARTBEAT else sse.comment())

    async def finish(self, body: bytes) -> None:
        if self._door.has_begun:
            await self._door.write(sse.frame(body), last=True)
        else:
            await self._door.respond(200, body)

    async def fail(self, error: HubError, status: int | None = None) -> None:
        """Answer an error: with its status, or in the stream where that has begun."""
        if self._door.has_begun:
            await self._door.write(sse.frame(self._door.render(error)), last=True)
        elif status is None:
            await self._door.refuse(error)
        else:
            await self._door.respond(status, self._door.render(error))

    async def crash(self, request: jsonrpc.Request) -> None:
        """Answer a failure of our own to the request that met it. Called while the exception is handled."""
        logger.exception("The method %s failed", request.method[:100])
        error = ServerError()
        error.request_id = request.id
        await self.fail(error)

    async def cut_off(self, request: jsonrpc.Request) -> None:
        """Answer what the hub's own stop cuts off; pass every other cancellation on. Called while one is handled."""
        task = asyncio.current_task()
        if task is None or not self._door.hub.is_draining:
            raise
        task.uncancel()
        error = ServerBusy("The hub stopped before the answer was there. Look in the audit before trying again.")
        error.request_id = request.id
        error.retry_after_seconds = 1
        await self.fail(error)

    async def watch(self) -> None:
        """Return when the client has gone, if that cancels; keep a silent connection alive meanwhile."""
        gone = asyncio.create_task(self._door.gone())
        pause = min(_COMMIT_AFTER_SECONDS, settings.MCPHUB_HEARTBEAT_SECONDS)
        try:
            while not gone.done():
                await asyncio.wait([gone], timeout=pause)
                if not gone.done():
                    await self._write(sse.comment("working"))
                pause = settings.MCPHUB_HEARTBEAT_SECONDS
            if not self._cancels:
                await asyncio.Event().wait()
        finally:
            gone.cancel()

    async def _write(self, chunk: bytes) -> None:
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if not self._door.has_begun:
                await self._door.begin_stream()
            await self._door.write(chunk)


def origin_of(session: SessionView, caller: Any, address: str) -> Origin:
    return Origin(
        caller=caller, session_id=session.session_id, transport=session.transport,
        protocol_version=session.protocol_version, client_name=session.client_name,
        client_version=session.client_version, client_address=address,
        client_capabilities=session.client_capabilities, handshake=True,
    )  # fmt: skip


def _describes_itself(value: dict[str, Any]) -> bool:
    params = value.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and envelope.PROTOCOL_VERSION in meta
