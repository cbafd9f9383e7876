"""Streams of calls that outlive their connection (MCP, Streamable HTTP, Resumability and redelivery).

A stream is numbered and stored by the process that runs the call, behind its sending: the live path never waits for
the database. A client that comes back, to whichever process, reads the rows and goes on with new ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from weakref import WeakValueDictionary

from channels.db import database_sync_to_async
from django.conf import settings

from sessions_app import bus, events
from sessions_app.events import CallStreamEvent
from sessions_app.kit.database import persistently
from sessions_app.protocol.errors import InvalidRequest, ServerBusy
from tools_catalog.secrets import SecretError, decrypt, encrypt

logger = logging.getLogger(__name__)

_EVENT_ID = re.compile(r"([A-Za-z0-9_-]{16})\.([0-9]{1,9})")
_MOST_WAITING = 20_000
"""Events not yet written; beyond it the oldest are let go."""
_LATE_SECONDS = 1.0
"""For events that another process is about to write."""
_LOOKS_SECONDS = 5.0
"""Between two looks of a follower that nobody woke."""
_WRITE_SECONDS = 10.0
"""How long events are tried to be written while the database is away."""
_GRACE_SECONDS = 30
"""Beyond the longest call, after which a stream without an end counts as one of a dead process."""
_TRIM_EVERY = 100


class CallStream:
    """The stream of one answer, in the process that runs the call."""

    __slots__ = ("__weakref__", "_count", "_resuming", "id", "is_attached", "release", "session_id")

    def __init__(self, resuming: Resuming, session_id: str, release: Callable[[], Awaitable[None]]) -> None:
        self.id = secrets.token_urlsafe(12)
        self.session_id = session_id
        self.is_attached = True
        """Its own connection is there: waiters elsewhere need no news of each event."""
        self.release = release
        """Ends that connection, because the stream goes on in another."""
        self._resuming = resuming
        self._count = 0

    def keep(self, message: bytes, *, is_last: bool = False) -> str:
        """Number a message and have it kept; give its event id."""
        event = CallStreamEvent(self.session_id, self.id, self._count, message, is_last, not self.is_attached)
        self._count += 1
        self._resuming.keep(event)
        return event.id


class Follower:
    """A connection that came back for a stream. Iterate it: events, and None for a sign of life."""

    def __init__(self, session_id: str, stream: str, number: int, heartbeat_seconds: float) -> None:
        self.session_id = session_id
        self.stream = stream
        self.token = f"{time.time_ns():020d}.{secrets.token_urlsafe(6)}"
        """Later ones sort behind earlier ones."""
        self._number = number
        self._heartbeat_seconds = heartbeat_seconds
        self._until = time.monotonic() + settings.MCPHUB_CALL_TIMEOUT_SECONDS + _GRACE_SECONDS
        self._page: list[CallStreamEvent] = []
        self._ready = asyncio.Event()
        self._is_closed = False

    def wake(self) -> None:
        self._ready.set()

    def close(self) -> None:
        """End at once."""
        self._is_closed = True
        self._ready.set()

    def finish(self) -> None:
        """End after the stored events."""
        self._until = 0
        self._ready.set()

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> CallStreamEvent | None:
        silent_since = time.monotonic()
        while not self._page:
            if self._is_closed:
                raise StopAsyncIteration
            self._ready.clear()
            is_over = time.monotonic() > self._until
            self._page = await database_sync_to_async(_read)(self.session_id, self.stream, self._number)
            if self._page:
                break
            if is_over:
                raise StopAsyncIteration
            if time.monotonic() - silent_since >= self._heartbeat_seconds:
                return None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(_LOOKS_SECONDS, self._heartbeat_seconds)):
                    await self._ready.wait()
        event = self._page.pop(0)
        self._number = event.number
        if event.is_last:
            self.close()
        return event


class Resuming:
    """All resumable streams of this process. One a process."""

    def __init__(self, heartbeat_seconds: float, limit: int) -> None:
        self._heartbeat_seconds = heartbeat_seconds
        self._limit = limit
        self._streams: WeakValueDictionary[str, CallStream] = WeakValueDictionary()
        """Each lives as long as its answer."""
        self._followers: dict[str, Follower] = {}
        self._waiting: list[CallStreamEvent] = []
        self._writing: list[CallStreamEvent] = []
        self._writer: asyncio.Task[None] | None = None
        self._releases: set[asyncio.Future[None]] = set()
        self._untrimmed: Counter[str] = Counter()

    # Keeping -------------------------------------------------------------------------------------

    def open(self, session_id: str, release: Callable[[], Awaitable[None]]) -> CallStream:
        stream = CallStream(self, session_id, release)
        self._streams[stream.id] = stream
        return stream

    def keep(self, event: CallStreamEvent) -> None:
        self._waiting.append(event)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write(), name="mcphub-stream-events")

    async def flushed(self) -> None:
        """Wait until the stored events are written, or have failed."""
        if self._writer is not None:
            await asyncio.shield(self._writer)

    async def stop(self) -> None:
        """Write the waiting events, and let followers read them."""
        await self.flushed()
        for follower in self._followers.values():
            follower.finish()

    async def _write(self) -> None:
        """Write the waiting events; those that gather meanwhile are the next batch."""
        while self._waiting:
            batch, self._waiting = self._waiting[-_MOST_WAITING:], []
            self._writing = batch
            try:
                await persistently(_WRITE_SECONDS, _write, batch)
            except Exception as error:
                logger.warning("%d events of streams could not be kept: %s", len(batch), error)
            finally:
                self._writing = []
            for stream in {event.stream for event in batch}:
                self.grew(stream)
            try:
                await self._trim(batch)
            except Exception as error:
                logger.warning("Events of streams could not be trimmed: %s", error)

    async def _trim(self, batch: list[CallStreamEvent]) -> None:
        if len(self._untrimmed) > _MOST_WAITING:
            self._untrimmed.clear()
        for event in batch:
            # A long message counts as many short ones.
            self._untrimmed[event.session_id] += 1 + len(event.message) * events.MOST_EVENTS // events.MOST_CHARACTERS
        for session_id in {event.session_id for event in batch}:
            if self._untrimmed[session_id] >= _TRIM_EVERY:
                del self._untrimmed[session_id]
                await database_sync_to_async(events.trim)(session_id)

    # Coming back ---------------------------------------------------------------------------------

    async def follow(self, session_id: str, event_id: str) -> Follower:
        """Yield the events after one, in this connection and no other. `leave` in the end.

        Raises InvalidRequest for an event that is not kept, ServerBusy at the bound of connections.
        """
        match = _EVENT_ID.fullmatch(event_id)
        if match is None:
            raise InvalidRequest("Last-Event-ID is not one of the hub's. Open the stream without it.")
        stream, number = match[1], int(match[2])
        until = time.monotonic() + _LATE_SECONDS
        while True:
            is_over = time.monotonic() > until and not self._is_unwritten(stream)
            if await database_sync_to_async(events.is_kept)(session_id, stream, number):
                break
            if is_over:
                raise InvalidRequest(
                    "What follows Last-Event-ID is not kept any more. Send the request again with the same id: "
                    "a call that was made is answered as before."
                )
            await asyncio.sleep(_LATE_SECONDS / 20)
        if len(self._followers) >= self._limit:
            raise ServerBusy("The hub holds as many streams as it may. Try again later.")
        follower = Follower(session_id, stream, number, self._heartbeat_seconds)
        await bus.announce(bus.STREAM_TAKEN, f"{stream} {follower.token}")
        self.taken(stream, follower.token)
        self._followers[stream] = follower
        if await database_sync_to_async(events.is_whole)(session_id, stream, number):
            follower.close()
        return follower

    def _is_unwritten(self, stream_id: str) -> bool:
        """Return whether this process has yet to write events of the stream that it sent."""
        return any(event.stream == stream_id for event in (*self._writing, *self._waiting))

    def leave(self, follower: Follower) -> None:
        follower.close()
        if self._followers.get(follower.stream) is follower:
            del self._followers[follower.stream]

    def taken(self, stream_id: str, token: str) -> None:
        """End the connections that the stream had before."""
        follower = self._followers.get(stream_id)
        if follower is not None and follower.token < token:
            self.leave(follower)
        stream = self._streams.get(stream_id)
        if stream is not None and stream.is_attached:
            release = asyncio.ensure_future(stream.release())
            self._releases.add(release)
            release.add_done_callback(self._releases.discard)

    def grew(self, stream_id: str) -> None:
        follower = self._followers.get(stream_id)
        if follower is not None:
            follower.wake()

    def end_session(self, session_id: str) -> None:
        for follower in [each for each in self._followers.values() if each.session_id == session_id]:
            follower.close()


# Rows ----------------------------------------------------------------------------------------------
# Nobody but the client reads a kept message, so it is encrypted whole.


def _write(batch: Sequence[CallStreamEvent]) -> None:
    events.write([_sealed(event) for event in batch])


def _read(session_id: str, stream: str, number: int) -> list[CallStreamEvent]:
    """Return the events after one, up to an unreadable one: the client then asks again, and is refused."""
    found = []
    for event in events.after(session_id, stream, number):
        try:
            found.append(_opened(event))
        except SecretError as error:
            logger.warning("An event of a stream cannot be read: %s", error)
            break
    return found


def _sealed(event: CallStreamEvent) -> CallStreamEvent:
    if not event.message:
        return event
    return replace(event, message=encrypt(event.message.decode(), aad=_bound(event)).encode())


def _opened(event: CallStreamEvent) -> CallStreamEvent:
    if not event.message:
        return event
    return replace(event, message=decrypt(event.message.decode(), aad=_bound(event)).encode())


def _bound(event: CallStreamEvent) -> str:
    return f"stream event {event.session_id} {event.id}"
