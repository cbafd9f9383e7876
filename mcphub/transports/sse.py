"""`/sse` and `/messages`: HTTP+SSE of 2024-11-05, which clients of every handshake revision still speak.

The stream and the posts may reach different workers: an answer finds its stream through the change bus.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs

from asgiref.sync import sync_to_async
from django.conf import settings

from invocations.records import Touch
from mcphub.server import dialogue
from mcphub.server.listening import EVERY_LIST, HEARTBEAT
from mcphub.transports.base import HubConsumer
from sessions_app import bus
from sessions_app.models import Transport
from sessions_app.protocol import batch, envelope, json, jsonrpc, revisions, sse
from sessions_app.protocol.errors import HubError, InvalidRequest, NotAcceptable, ServerBusy, SessionNotFound
from sessions_app.protocol.lifecycle import SessionEvent
from sessions_app.store import SessionView

TRANSPORT = Transport.SSE.value


class EventStream(HubConsumer):
    """`GET /sse`: opens the session; its end is the session's end."""

    allowed_methods = ("GET",)

    async def handle(self) -> None:
        if not envelope.accepts_sse(self.headers.accept):
            raise NotAcceptable("Accept must name text/event-stream.")
        self.selection()
        session = await self.hub.sessions.open(self.caller, TRANSPORT)
        stream = self.hub.streams.open(session.session_id, EVERY_LIST)
        watcher = asyncio.create_task(self.gone())
        watcher.add_done_callback(lambda _: stream.close())
        try:
            await self.begin_stream()
            base = f"/mcp/s/{self.toolset}" if self.toolset else ""
            await self.write(sse.frame(f"{base}/messages?sessionId={session.session_id}".encode(), event="endpoint"))
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
        parts = batch.parse(value) if isinstance(value, list) else [jsonrpc.parse(value)]
        try:
            self.selection()
            ids = query.get("sessionId") or query.get("session_id")
            if not ids:
                raise InvalidRequest("The query needs sessionId. Open /sse first: its first event tells the address.")
            session = await self.hub.sessions.find(ids[0], self.caller, TRANSPORT)
            if not (await self.hub.ledger.append(Touch(session.session_id))).session_alive:
                self.hub.sessions.forget(session.session_id)
                raise SessionNotFound
            if isinstance(value, list) and not _takes_arrays(session):
                raise InvalidRequest("Send one message at a time: only sessions of 2025-03-26 take arrays.")
            if len(self.hub.background) + len(parts) > settings.MCPHUB_MAX_CALLS:
                raise ServerBusy
        except HubError as error:
            error.request_id = jsonrpc.readable_id(value)
            raise
        for part in parts:
            self.hub.spawn(asyncio.create_task(self._work(session, part)))
        await self.respond(202, json.dumps({"status": "accepted", "sessionId": session.session_id}))

    async def _work(self, session: SessionView, message: batch.Part) -> None:
        address = self.client_address
        voice = StreamVoice(self, session.session_id)
        if isinstance(message, InvalidRequest):
            await voice.send(self.render(message))
        elif isinstance(message, jsonrpc.Request):
            answer = await dialogue.answer(
                self.hub, session, self.caller, message, voice, address=address, toolset=self.toolset
            )
            await voice.send(answer)
        else:
            await dialogue.take(self.hub, session, self.caller, message, address=address)


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


def _takes_arrays(session: SessionView) -> bool:
    return bool(session.protocol_version) and revisions.revision(session.protocol_version).batching
