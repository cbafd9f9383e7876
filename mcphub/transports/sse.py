"""`/sse` and `/messages`: HTTP+SSE of 2024-11-05, which clients of every handshake revision still speak.

The stream and the posts may reach different workers: an answer finds its stream through the change bus.
"""

from __future__ import annotations

import asyncio
import contextlib
from urllib.parse import parse_qs

from django.conf import settings

from invocations.call_source import ClientChannel
from invocations.ledger.records import Touch
from mcphub.process.runtime import Hub
from mcphub.server.exchange import ConnectionExchange, encoded, take
from mcphub.server.listening import EVERY_LIST, HEARTBEAT
from mcphub.transports.base import HubConsumer
from sessions_app import bus, transports
from sessions_app.protocol import batch, envelope, json, jsonrpc, revisions, sse
from sessions_app.protocol.errors import AuditUnavailable, HubError, InvalidRequest, NotAcceptable, ServerBusy
from sessions_app.protocol.lifecycle import SessionEvent
from sessions_app.store import SessionView
from tools_catalog.call import session_news

TRANSPORT = transports.SSE.name


class SseStream(HubConsumer):
    """`GET /sse`: opens the session; its end is the session's end."""

    allowed_methods = ("GET",)

    async def handle(self) -> None:
        if not envelope.accepts_sse(self.headers.accept):
            raise NotAcceptable("Accept must name text/event-stream.")
        self.selection()
        session = await self.hub.sessions.open(self.caller, TRANSPORT)
        stream = self.hub.streams.open(self.caller, session.session_id, EVERY_LIST, carries_answers=True)
        watcher = asyncio.create_task(self.gone())
        watcher.add_done_callback(lambda _: stream.close())
        try:
            await self.begin_stream()
            base = self.scope.get("root_path", "") + (f"/mcp/s/{self.toolset}" if self.toolset else "")
            await self.write(sse.frame(f"{base}/messages?sessionId={session.session_id}".encode(), event="endpoint"))
            async for message in stream:
                if message == HEARTBEAT:
                    await self.write(sse.comment())
                    with contextlib.suppress(AuditUnavailable):  # the next beat says it again
                        await self.hub.ledger.append(Touch(session.session_id))
                else:
                    await self.write(sse.frame(message, event="message"))
            await self.write(b"", last=True)
        finally:
            watcher.cancel()
            self.hub.streams.remove(stream)
            await asyncio.shield(
                self.hub.sessions.end(session.session_id, SessionEvent.CLOSE, transports.SSE.session_end)
            )


class SseMessages(HubConsumer):
    """`POST /messages?sessionId=`: accepts one message; its answer goes out on the stream."""

    async def handle(self) -> None:
        query = parse_qs(self.scope["query_string"].decode("latin-1"))
        value = await self.read_message()
        parts = batch.parse(value) if isinstance(value, list) else [jsonrpc.parse(value)]
        try:
            self.selection()
            ids = query.get("sessionId") or query.get("session_id")
            if not ids:
                raise InvalidRequest("The query needs sessionId. Open /sse first: its first event tells the address.")
            session = await self.hub.sessions.find(ids[0], self.caller, TRANSPORT)
            await self.hub.touch_session(session.session_id)
            if isinstance(value, list) and not _takes_arrays(session):
                raise InvalidRequest("Send one message at a time: only sessions of 2025-03-26 take arrays.")
            if len(self.hub.background) + len(parts) > settings.MCPHUB_MAX_CALLS:
                raise ServerBusy
            for part in parts:
                if part is not None:
                    self.hub.answering.begin(session.session_id, self._work(session, part))
        except HubError as error:
            error.request_id = jsonrpc.readable_id(value)
            raise
        await self.respond(202, json.dumps({"status": "accepted", "sessionId": session.session_id}))

    async def _work(self, session: SessionView, message: jsonrpc.Message | InvalidRequest) -> None:
        channel = StreamChannel(self.hub, session.session_id)
        if isinstance(message, InvalidRequest):
            await channel.send(self.render(message))
        elif isinstance(message, jsonrpc.Request):
            exchange = ConnectionExchange.of(
                self.hub,
                session,
                self.caller,
                message,
                self.client_address,
                configuration=self.configuration,
                channel=channel,
                http=self.http(),
                toolset=self.toolset,
                is_touched=True,
            )
            await channel.send(encoded(self.hub, message, await exchange.answered()))
        else:
            await take(self.hub, session.session_id, message)


class StreamChannel(ClientChannel):
    """Speaks on the session's stream, in this process or in the one that holds it."""

    def __init__(self, hub: Hub, session_id: str) -> None:
        self._hub = hub
        self._session_id = session_id

    async def send(self, message: bytes) -> None:
        if not self._hub.streams.send(self._session_id, message):
            await session_news.announce(bus.SESSION_MESSAGE, self._session_id, message.decode())


def _takes_arrays(session: SessionView) -> bool:
    return bool(session.protocol_version) and revisions.revision(session.protocol_version).batching
