"""What the transports with one stream for everything have in common: a child process, HTTP+SSE."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from typing import Final

from sessions_app.protocol import errors
from tools_catalog.upstream.limits import Flood
from tools_catalog.upstream.transports.base import Message, MessageHandler, OutgoingRequest, Transport

_COMPLETE: Final = "notifications/elicitation/complete"
_FOR_REQUESTS: Final = frozenset({"notifications/progress", "notifications/message", _COMPLETE})
"""What a request may be told before its response, in the order in which it came."""


class PendingRequest:
    """A request whose response is awaited. What is for it waits here, so that a slow caller holds up no other's."""

    __slots__ = ("_error", "_messages", "_waiter", "request")

    def __init__(self, request: OutgoingRequest) -> None:
        self.request = request
        self._messages: deque[Message] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None

    async def next(self) -> Message:
        while not self._messages:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._messages.popleft()

    def put(self, message: Message) -> None:
        self._messages.append(message)
        self._wake()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._wake()

    def __len__(self) -> int:
        return len(self._messages)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class SharedStream(Transport):
    """Matches responses with requests on a stream that carries both ways' messages of all calls."""

    is_one_stream = True

    def __init__(self, handler: MessageHandler, max_notifications: int) -> None:
        self.handler = handler
        self.flood = Flood(max_notifications)
        self._most_waiting = max_notifications
        self._pending: dict[int, PendingRequest] = {}
        self._ended: str | None = None
        """Why the stream ended, once it has."""

    @abstractmethod
    def send_soon(self, message: bytes) -> None:
        """Send a notification without waiting for room; it may be dropped."""

    async def exchange(self, request: OutgoingRequest) -> Message:
        if self._ended is not None:
            raise self._broken()
        pending = self._pending[request.id] = PendingRequest(request)
        self.flood.request_sent()
        try:
            await self.send(request.encode())
            while "method" in (message := await pending.next()):
                await self.handler.take(message, request)
            return message
        except asyncio.CancelledError:
            if self._ended is None and (cancellation := request.cancellation) is not None:
                self.send_soon(cancellation)
            raise
        finally:
            del self._pending[request.id]

    def with_sessions(self) -> SharedStream:
        return self

    async def begin_session(self, version: str) -> None:
        """The stream carries what the upstream says unasked anyway."""

    def end(self, why: str) -> None:
        """Fail all requests under way: nothing comes any more."""
        if self._ended is not None:
            return
        self._ended = why
        self.handler.lost(why)
        for pending in self._pending.values():
            pending.fail(self._broken())

    def is_too_much(self, message: Message | None) -> bool:
        """Count a message that came, None for one that cannot be read; tell whether that was one too many."""
        return self.flood.is_over_with(response=message is not None and "method" not in message)

    async def route(self, message: Message) -> None:
        """Bring a message to the request that it is for, or to the handler."""
        method = message.get("method")
        if method is None:
            pending = self._named(message.get("id"))
        elif method in _FOR_REQUESTS and "id" not in message:
            pending = self._concerned(method, message.get("params"))
            if pending is not None and len(pending) > self._most_waiting:
                return
        else:
            pending = None
        if pending is not None:
            pending.put(message)
        elif method is not None:
            await self.handler.take(message, None)

    def _concerned(self, method: str, params: object) -> PendingRequest | None:
        if method == "notifications/progress":
            return self._named(params.get("progressToken")) if isinstance(params, dict) else None
        if method == _COMPLETE:
            call = self.handler.call_at_address(params.get("elicitationId")) if isinstance(params, dict) else None
            of_one = (pending for pending in self._pending.values() if pending.request.context is call)
            return next(of_one, None) if call is not None else None
        of_calls = [pending for pending in self._pending.values() if pending.request.is_call]
        return of_calls[0] if len(of_calls) == 1 else None

    def _named(self, id_: object) -> PendingRequest | None:
        if isinstance(id_, str) and id_.isascii() and id_.isdigit() and len(id_) < 20:
            id_ = int(id_)  # some servers write every id as a text
        return self._pending.get(id_) if isinstance(id_, int) and not isinstance(id_, bool) else None

    def _broken(self) -> errors.TransportError:
        return errors.TransportError(f"The connection broke within the call. {self._ended}".strip())
