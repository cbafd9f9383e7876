"""The response to a POST on `/mcp`: JSON, or an event stream once something is sent before the result."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from django.conf import settings

from invocations.call_source import ClientChannel
from mcphub.server.listening import HEARTBEAT
from mcphub.server.resuming import CallStream
from mcphub.transports.base import HubConsumer
from sessions_app.protocol import revisions, sse
from sessions_app.protocol.errors import HubError
from sessions_app.store import SessionView

logger = logging.getLogger(__name__)

_COMMIT_AFTER_SECONDS = 10
"""A call that runs longer is answered as an event stream, so that proxies see signs of life."""
_RETRY_MS = 500
"""The client's delay before it reconnects to a stream."""


class StatelessResponse(ClientChannel):
    """Without a session the stream is the call, and a client that goes has given it up."""

    __slots__ = ("_consumer", "_lock")

    def __init__(self, consumer: HubConsumer) -> None:
        self._consumer = consumer
        self._lock: asyncio.Lock | None = None

    async def send(self, message: bytes) -> None:
        if message == HEARTBEAT:
            await self._comment()
        else:
            await self._event(message)

    async def finish(self, body: bytes) -> None:
        if self._consumer.has_begun:
            await self._event(body, last=True)
        else:
            await self._consumer.respond(200, body)

    async def fail(self, error: HubError, status: int | None = None) -> None:
        """Answer an error: with its status, or in the stream where that has begun."""
        if self._consumer.has_begun:
            await self._event(self._consumer.render(error), last=True)
        elif status is None:
            await self._consumer.refuse(error)
        else:
            await self._consumer.respond(status, self._consumer.render(error))

    async def watch(self) -> None:
        """Return when the client has gone; keep a silent connection alive meanwhile."""
        gone = asyncio.create_task(self._consumer.gone())
        pause = min(_COMMIT_AFTER_SECONDS, settings.MCPHUB_HEARTBEAT_SECONDS)
        try:
            while not gone.done():
                await asyncio.wait([gone], timeout=pause)
                if not gone.done():
                    await self._comment()
                pause = settings.MCPHUB_HEARTBEAT_SECONDS
        finally:
            gone.cancel()

    async def _comment(self) -> None:
        async with self._held():
            await self._begin()
            await self._consumer.write(sse.comment("working"))

    async def _event(self, message: bytes, *, last: bool = False) -> None:
        async with self._held():
            await self._begin()
            await self._consumer.write(sse.frame(message), last=last)

    async def _begin(self) -> Any:
        if not self._consumer.has_begun:
            await self._consumer.begin_stream()

    def _held(self) -> asyncio.Lock:
        if self._lock is None:
            self._lock = asyncio.Lock()
        return self._lock


class SessionResponse(StatelessResponse):
    """In a session a client that goes cancels nothing, and may come back for the rest of the stream."""

    __slots__ = ("_session", "_stream")

    def __init__(self, consumer: HubConsumer, session: SessionView) -> None:
        super().__init__(consumer)
        self._session = session
        self._stream: CallStream | None = None
        """None while the answer is to be JSON."""

    async def watch(self) -> None:
        await super().watch()
        if self._stream is not None:
            self._stream.is_attached = False
        await asyncio.Event().wait()

    async def close(self) -> None:
        """End the connection before the answer is there. Clients before 2025-11-25 would take that for a failure."""
        if revisions.revision(self._session.protocol_version).priming_events:
            async with self._held():
                await self._begin()
            await self._consumer.hub.resuming.flushed()
            await self._release()

    async def _release(self) -> None:
        async with self._held():
            if self._stream is not None and self._stream.is_attached:
                self._stream.is_attached = False
                await self._consumer.write(b"", last=True)

    async def _comment(self) -> None:
        async with self._held():
            stream: CallStream = await self._begin()
            if stream.is_attached:
                await self._consumer.write(sse.comment("working"))

    async def _event(self, message: bytes, *, last: bool = False) -> None:
        async with self._held():
            stream: CallStream = await self._begin()
            event_id = stream.keep(message, is_last=last)
            if stream.is_attached:
                await self._consumer.write(sse.frame(message, id=event_id), last=last)

    async def _begin(self) -> Any:
        if self._stream is None:
            self._stream = self._consumer.hub.resuming.open(self._session.session_id, self._release)
            await self._consumer.begin_stream()
            # Parsers of older clients choke on an event without data.
            if revisions.revision(self._session.protocol_version).priming_events:
                first = sse.frame(b"", id=self._stream.keep(b""), retry_ms=_RETRY_MS)
                await self._consumer.write(first)
        return self._stream
