"""`/sse` and `/messages`: HTTP+SSE of 2024-11-05, which clients of every handshake revision still speak.

The stream and the posts may reach different workers: an answer finds its stream through the change bus.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any
from urllib.parse import parse_qs

from asgiref.sync import sync_to_async
from django.conf import settings

from invocations.records import Touch
from mcphub.server import methods
from mcphub.server.context import RequestContext
from mcphub.server.listening import HEARTBEAT, Filter
from mcphub.transports.base import HubConsumer
from mcphub.transports.streamable_http import origin_of
from sessions_app import bus
from sessions_app.models import Transport
from sessions_app.protocol import envelope, json, jsonrpc, revisions, sse
from sessions_app.protocol.errors import (
    HubError,
    InvalidRequest,
    MethodNotFound,
    NotAcceptable,
    ServerBusy,
    ServerError,
    SessionNotFound,
)  # fmt: skip
from sessions_app.protocol.lifecycle import SessionEvent
from sessions_app.store import SessionView

logger = logging.getLogger(__name__)

TRANSPORT = Transport.SSE.value


class EventStream(HubConsumer):
    """`GET /sse`: opens the session; its end is the session's end."""

    allowed_methods = ("GET",)

    async def handle(self) -> None:
        if not envelope.accepts_sse(self.headers.accept):
            raise NotAcceptable("Accept must name text/event-stream.")
        session = await self.hub.sessions.open(self.caller, TRANSPORT)
        stream = self.hub.streams.open(session.session_id, Filter(tools=True))
        watcher = asyncio.create_task(self.gone())
        watcher.add_done_callback(lambda _: stream.close())
        try:
            await self.begin_stream()
            await self.write(sse.frame(f"/messages?sessionId={session.session_id}".encode(), event="endpoint"))
            async for message in stream:
                if message == HEARTBEAT:
                    await self.hub.ledger.append(Touch(session.session_id))
                    await self.write(sse.comment())
                else:
                    await self.write(sse.frame(message, event="message"))
            await self.write(b"", last=True)
        finally:
            watcher.cancel()
            self.hub.streams.remove(stream)
            await asyncio.shield(self.hub.sessions.end(session.session_id, SessionEvent.CLOSE, "the stream ended"))


class Messages(HubConsumer):
    """`POST /messages?sessionId=`: takes one message; what it answers goes out on the stream."""

    async def handle(self) -> None:
        query = parse_qs(self.scope["query_string"].decode("latin-1"))
        self.need_json()
        value = json.loads(await self.read_body())
        message = jsonrpc.parse(value)
        try:
            ids = query.get("sessionId") or query.get("session_id")
            if not ids:
                raise InvalidRequest("The query needs sessionId. Open /sse first: its first event tells the address.")
            session = await self.hub.sessions.find(ids[0], self.caller, TRANSPORT)
            if not (await self.hub.ledger.append(Touch(session.session_id))).session_alive:
                self.hub.sessions.forget(session.session_id)
                raise SessionNotFound
            if len(self.hub.background) >= settings.MCPHUB_MAX_CALLS:
                raise ServerBusy
        except HubError as error:
            error.request_id = jsonrpc.readable_id(value)
            raise
        self.hub.spawn(asyncio.create_task(self._work(session, message)))
        await self.respond(202, json.dumps({"status": "accepted", "sessionId": session.session_id}))

    async def _work(self, session: SessionView, message: jsonrpc.Message) -> None:
        voice = StreamVoice(self, session.session_id)
        if isinstance(message, jsonrpc.Notification):
            if message.method == "notifications/cancelled":
                await methods.notifications_cancelled(self._context(session, 0, voice, None), message.params)
            return
        if not isinstance(message, jsonrpc.Request):
            return
        try:
            if message.method == "initialize":
                client = methods.client_of(message.params)
                session = await self.hub.sessions.initialize(session.session_id, **client)
                result: Any = methods.initialize(message.params, session.protocol_version)
            else:
                handler = methods.HANDSHAKE.get(message.method)
                if handler is None:
                    raise MethodNotFound(f"There is no method {message.method[:100]!r} here.")
                if not session.initialized and message.method not in methods.BEFORE_INITIALIZE:
                    raise InvalidRequest("The session is not initialized. Send initialize first.")
                meta = message.params.get("_meta")
                token = meta.get("progressToken") if isinstance(meta, dict) else None
                token = token if isinstance(token, str | int) and not isinstance(token, bool) else None
                result = await handler(self._context(session, message.id, voice, token), message.params)
            body = jsonrpc.encode_result(message.id, result)
        except HubError as error:
            error.request_id = message.id
            body = self.render(error)
        except Exception:
            logger.exception("The method %s failed", message.method[:100])
            failure = ServerError()
            failure.request_id = message.id
            body = self.render(failure)
        await voice.send(body)

    def _context(
        self, session: SessionView, request_id: str | int, voice: StreamVoice, token: str | int | None
    ) -> RequestContext:
        version = session.protocol_version or revisions.HANDSHAKE[0]
        return RequestContext(
            hub=self.hub, origin=origin_of(session, self.caller, self.client_address),
            revision=revisions.revision(version), request_id=request_id, voice=voice, progress_token=token,
            log_level=session.log_level or "info",
        )  # fmt: skip


class StreamVoice:
    """Speaks on the session's stream, in this process or in the one that holds it."""

    def __init__(self, door: HubConsumer, session_id: str) -> None:
        self._door = door
        self._session_id = session_id

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        await self.send(jsonrpc.encode_notification(method, params))

    async def send(self, message: bytes) -> None:
        if not self._door.hub.streams.send(self._session_id, message):
            await sync_to_async(bus.publish)(bus.SESSION_MESSAGE, f"{self._session_id} {message.decode()}")
