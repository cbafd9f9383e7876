"""The common part of transports with one stream for everything: a child process, HTTP+SSE."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from typing import Final

from sessions_app.protocol import errors
from tools_catalog.upstream.limits import Flood
from tools_catalog.upstream.transports.base import MessageHandler, OutgoingRequest, SessionLost, Transport
from tools_catalog.upstream.transports.reading import Message, UnreadableMessage, messages_of, number_of

_COMPLETE: Final = "notifications/elicitation/complete"
_FOR_REQUESTS: Final = frozenset({"notifications/progress", "notifications/message", _COMPLETE})
"""Notifications for a request before its response, in order of arrival."""


class PendingRequest:
    """A request that awaits its response. Its messages wait here, so that a slow caller delays no other's."""

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


class StreamBroken(errors.TransportError):
    """The stream ended in the midst of a request, which may have been taken."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The connection broke within the call. {why}".strip())
        self.why = why


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
        self.is_session_unknown = False
        """The upstream refused a message because it knows the session no more: what was sent was not taken."""

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
            if self.is_session_unknown:
                raise SessionLost(self._ended or "")
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
        """The stream carries the upstream's unsolicited messages anyway."""

    def end(self, why: str) -> None:
        """Fail all requests under way: nothing comes any more."""
        if self._ended is not None:
            return
        self._ended = why
        self.handler.lost(why)
        for pending in self._pending.values():
            pending.fail(self._broken())

    def is_too_much(self, messages: list[Message]) -> bool:
        """Count messages that came, none for what cannot be read; return whether that was one too many."""
        counted = [self.flood.is_over_with(response="method" not in message) for message in messages]
        return any(counted) if counted else self.flood.is_over_with(response=False)

    async def read(self, raw: bytes) -> list[Message]:
        """Return the messages that came as one, if any. An answer that cannot be read fails its request at once."""
        try:
            return await messages_of(raw)
        except UnreadableMessage as error:
            if error.is_answer:
                self._fail(error.answered, error)
            return []
        except errors.ResultInvalid:
            return []

    def _fail(self, answered: int | None, error: errors.HubError) -> None:
        """Fail the request that an answer names; the one under way where it names none."""
        pending = self._pending.get(answered) if answered is not None else self._only()
        if pending is not None:
            pending.fail(error)

    def _only(self) -> PendingRequest | None:
        return next(iter(self._pending.values())) if len(self._pending) == 1 else None

    async def route(self, message: Message) -> None:
        """Bring a message to the request that it is for, or to the handler."""
        method = message.get("method")
        if method is None:
            pending = self._named(message.get("id"))
            if message.get("id") is None and (pending := self._only()) is not None and message.get("error") is None:
                pending.fail(errors.ResultInvalid("The upstream's answer names no request: its id is null."))
                return
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
        number = number_of(id_)
        return self._pending.get(number) if number is not None else None

    def _broken(self) -> errors.TransportError:
        return StreamBroken(self._ended or "")
