"""Listeners of this process: GET streams of sessions, HTTP+SSE streams, subscriptions of stateless callers.

A plain registry. The change bus wakes each process once per event; from here it reaches all of its streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from sessions_app.caller import Caller
from sessions_app.protocol import jsonrpc
from sessions_app.protocol.errors import ServerBusy
from sessions_app.protocol.json import Json

_HELD_MESSAGES = 1000
"""A stream whose client reads slower than this is ended rather than allowed to grow."""

HEARTBEAT = b""
"""Yielded by a stream at each interval, besides its messages: the transport sends a sign of life in its own form."""

RESOURCE_UPDATED = "notifications/resources/updated"

Kind = Literal["tools", "prompts", "resources"]


@dataclass(frozen=True, slots=True)
class Filter:
    """The notifications that a listener requested."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: frozenset[str] = frozenset()
    """Resources whose changes a stateless listener receives; a session's are rows."""

    def wire(self) -> dict[str, Json]:
        """Return the accepted subset, as the acknowledgement states it."""
        lists = {f"{kind}ListChanged": True for kind in ("tools", "prompts", "resources") if getattr(self, kind)}
        return {**lists, "resourceSubscriptions": sorted(self.uris)} if self.uris else lists


EVERY_LIST = Filter(tools=True, prompts=True, resources=True)
"""The default notifications on a session's stream."""


class Stream:
    """Messages on their way to one listener. Iterate it; it ends when closed."""

    __slots__ = (
        "_held",
        "_waiter",
        "carries_answers",
        "credential",
        "is_closed",
        "meta",
        "principal",
        "session_id",
        "wanted",
    )

    def __init__(
        self,
        principal: str,
        credential: str,
        session_id: str | None,
        wanted: Filter,
        meta: dict[str, Json] | None,
        *,
        carries_answers: bool = False,
    ) -> None:
        self.carries_answers = carries_answers
        """Requests of its session are answered on it."""
        self.principal = principal
        self.credential = credential
        self.session_id = session_id
        self.wanted = wanted
        self.meta = meta
        self.is_closed = False
        # Thousands of streams are idle: an empty deque and an event take more than a kilobyte each.
        self._held: deque[bytes] | None = None
        self._waiter: asyncio.Future[None] | None = None

    def push(self, message: bytes) -> None:
        if self.is_closed:
            return
        if self._held is None:
            self._held = deque()
        if len(self._held) >= _HELD_MESSAGES:
            self.close()
        else:
            self._held.append(message)
            self._wake()

    def beat(self) -> None:
        """Return a sign of life, unless the client has not read the last one yet."""
        if HEARTBEAT not in (self._held or ()):
            self.push(HEARTBEAT)

    def close(self) -> None:
        """End the stream after its queued messages."""
        self.is_closed = True
        self._wake()

    def abandon(self) -> None:
        """End the stream without its queued messages: the listener wants no more."""
        self._held = None
        self.close()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> bytes:
        while not self._held:
            if self.is_closed:
                raise StopAsyncIteration
            self._held = None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self._waiter = None
        return self._held.popleft()


def _busy(words: str) -> ServerBusy:
    error = ServerBusy(words)
    error.retry_after_seconds = 30
    return error


class Streams:
    """All streams of this process."""

    def __init__(self, heartbeat_seconds: float, limit: int, limit_per_caller: int) -> None:
        self._heartbeat_seconds = heartbeat_seconds
        self._limit = limit
        self._limit_per_caller = limit_per_caller
        self._by_caller: Counter[str] = Counter()
        self._streams: OrderedDict[Stream, float] = OrderedDict()
        """When each is due a sign of life, the soonest first."""
        self._by_session: dict[str, list[Stream]] = {}
        self._heart: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def start(self) -> None:
        self._heart = asyncio.create_task(self._beat(), name="mcphub-heartbeat")

    async def stop(self) -> None:
        if self._heart is not None:
            self._heart.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._heart
        for stream in list(self._streams):
            if not stream.carries_answers:
                stream.close()

    def sessions(self) -> list[str]:
        """Return the sessions whose requests are answered on a stream of this process."""
        return [name for name, own in self._by_session.items() if own[-1].carries_answers]

    def end_sessions(self, but: Collection[str] = ()) -> None:
        """End the streams that answers go out on, but those of some sessions."""
        for stream in self._streams:
            if stream.carries_answers and stream.session_id not in but:
                stream.close()

    def open(
        self,
        caller: Caller,
        session_id: str | None,
        wanted: Filter,
        meta: dict[str, Json] | None = None,
        *,
        carries_answers: bool = False,
    ) -> Stream:
        """Make a stream for a caller; raise ServerBusy at a bound. `meta` stands in each notification of the hub.

        One that `carries_answers` outlives `stop`, until `end_sessions`.
        """
        if len(self._streams) >= self._limit:
            raise _busy("The hub holds as many streams as it may. Try again later.")
        principal = caller.principal
        if self._by_caller[principal] >= self._limit_per_caller:
            raise _busy(f"The caller has {self._limit_per_caller} streams open. Close some, or try again later.")
        stream = Stream(principal, caller.credential, session_id, wanted, meta, carries_answers=carries_answers)
        self._by_caller[principal] += 1
        self._streams[stream] = time.monotonic() + self._heartbeat_seconds
        if session_id is not None:
            self._by_session.setdefault(session_id, []).append(stream)
        return stream

    def remove(self, stream: Stream) -> None:
        stream.close()
        if self._streams.pop(stream, None) is not None:
            self._by_caller[stream.principal] -= 1
            if not self._by_caller[stream.principal]:
                del self._by_caller[stream.principal]
        if stream.session_id is not None:
            own = self._by_session.get(stream.session_id, [])
            if stream in own:
                own.remove(stream)
            if not own:
                self._by_session.pop(stream.session_id, None)

    def uris(self) -> set[str]:
        """Return the resources followed by stateless listeners of this process."""
        return {uri for stream in self._streams for uri in stream.wanted.uris}

    def send(self, session_id: str, message: bytes) -> bool:
        """Put a message on one stream of the session; False where this process holds none."""
        own = self._by_session.get(session_id)
        if not own:
            return False
        own[-1].push(message)
        return True

    def end_session(self, session_id: str) -> None:
        for stream in list(self._by_session.get(session_id, ())):
            stream.close()

    def end_of(self, ended: Collection[str]) -> None:
        """End the streams of callers that may no longer listen, or of keys (`key:<id>`) that are no longer valid."""
        for stream in self._streams:
            if stream.principal in ended or stream.credential in ended:
                stream.close()

    def end_opened_by(self, credentials: Collection[str]) -> None:
        """End the streams that were opened with these credentials; of a person's other ways in they go on."""
        for stream in self._streams:
            if stream.credential in credentials:
                stream.close()

    def tell_list_changed(self, kind: Kind) -> None:
        """Notify every listener once: of a session with several streams, the newest."""
        method = f"notifications/{kind}/list_changed"
        plain = jsonrpc.encode_notification(method, {})
        for own in self._by_session.values():
            if getattr(own[-1].wanted, kind):
                own[-1].push(plain)
        for stream in self._streams:
            if stream.session_id is None and getattr(stream.wanted, kind):
                stream.push(jsonrpc.encode_notification(method, {"_meta": stream.meta}))

    def tell_updated(self, subscribed: Iterable[tuple[str, str]], concerns: Callable[[str], bool]) -> None:
        """Notify the followers: sessions according to `subscribed`, by ID and URI, others by their request."""
        for session_id, uri in subscribed:
            self.send(session_id, jsonrpc.encode_notification(RESOURCE_UPDATED, {"uri": uri}))
        for stream in self._streams:
            for uri in filter(concerns, stream.wanted.uris):
                stream.push(jsonrpc.encode_notification(RESOURCE_UPDATED, {"uri": uri, "_meta": stream.meta}))

    async def _beat(self) -> None:
        while True:
            now = time.monotonic()
            while self._streams and (due := next(iter(self._streams.values()))) <= now:
                stream = next(iter(self._streams))
                stream.beat()
                # Counted from the beat that was due, so that a late one makes the next ones no later.
                following = due + self._heartbeat_seconds
                self._streams[stream] = following if following > now else now + self._heartbeat_seconds
                self._streams.move_to_end(stream)
            soonest = next(iter(self._streams.values()), now + self._heartbeat_seconds)
            await asyncio.sleep(max(0.0, soonest - now))
