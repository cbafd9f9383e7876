"""A lean HTTP/1.1 client of one origin: guarded connections that stay warm, answers read as they come.

Most of what a relayed call costs is HTTP. A general client makes objects of requests, headers, streams and timeouts;
this one writes bytes and lets llhttp read the answer. A connection carries one request at a time.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import Any

import httpcore2
import httptools

from tools_catalog import egress
from tools_catalog.egress_rules import EgressPolicy
from tools_catalog.upstream import unreached

_IDLE_SECONDS = 60.0
_HELD_BYTES = 256 * 1024
"""Unread bytes of an answer above which the other side is made to wait."""
_DRAIN_SECONDS = 1.0
"""For the end of an answer of which all that was wanted has come."""
_MOST_HEADER_BYTES = 64 * 1024


class NotSent(Exception):
    """No connection could be made: nothing reached the other side. Its words say why."""


class Broken(Exception):
    """The connection broke, or what came is no HTTP. The request may have been taken."""


class Answer:
    """A response whose head has come. Read its body by `chunk`, then `release` it."""

    __slots__ = ("_chunks", "_error", "_line", "_size", "_waiter", "headers", "is_whole", "status")

    def __init__(self, line: _Line) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.is_whole = False
        self._line = line
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def chunk(self) -> bytes:
        """Give what came since; empty at the end. Raises Broken."""
        while not self._chunks:
            if self.is_whole:
                return b""
            await self._more()
        chunk = self._chunks.popleft() if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        if self._size > _HELD_BYTES:
            self._line.transport.resume_reading()
        self._size = 0
        return chunk

    def release(self) -> None:
        """Be done with it. A connection whose answer is not whole yet is used again if the rest comes soon."""
        self._line.let_go(self)

    def close(self) -> None:
        """Want no more of it: the connection ends."""
        self._line.close()

    async def _head(self) -> None:
        while not self.status:
            await self._more()

    async def _more(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _take(self, body: bytes) -> None:
        self._chunks.append(body)
        before, self._size = self._size, self._size + len(body)
        if before <= _HELD_BYTES < self._size:
            self._line.transport.pause_reading()
        self._wake()

    def _end(self, error: Exception | None) -> None:
        if not self.is_whole and self._error is None:
            self._error, self.is_whole = error, error is None
            self._wake()


class _Line(asyncio.Protocol):
    """One connection. Methods named `on_…` are called by the parser."""

    def __init__(self, origin: Origin) -> None:
        self.transport: asyncio.Transport
        self.is_open = True
        self.free_since = 0.0
        self._origin = origin
        self._answer: Answer | None = None
        self._parser: Any = None
        self._head_size = 0
        self._is_drained = False
        self._stays = False
        """The other side keeps the connection open."""

    def ask(self, request: bytes) -> Answer:
        self._answer = answer = Answer(self)
        self._parser = httptools.HttpResponseParser(self)
        self._head_size = 0
        self._stays = False
        self.transport.write(request)
        return answer

    def let_go(self, answer: Answer) -> None:
        if self._answer is not answer:
            return
        if answer.is_whole:
            self._finish()
        elif answer.status and self.is_open and answer._error is None:
            self._is_drained = True
            answer._chunks.clear()
            if answer._size > _HELD_BYTES:
                self.transport.resume_reading()
            asyncio.get_running_loop().call_later(_DRAIN_SECONDS, self._give_up, answer)
        else:
            self.close()

    def close(self) -> None:
        self.is_open = False
        self._answer = None
        self.transport.abort()

    def _give_up(self, answer: Answer) -> None:
        if self._answer is answer:
            self.close()

    def _finish(self) -> None:
        self._answer = None
        self._is_drained = False
        if self.is_open and self._stays:
            self._origin.keep(self)
        else:
            self.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        transport.get_extra_info("socket").setsockopt(*egress.RECEIVE_BUFFER)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        answer = self._answer
        if answer is not None:
            # A body of no stated length ends with the connection.
            is_end = (
                error is None
                and answer.status
                and not (b"content-length" in answer.headers or b"transfer-encoding" in answer.headers)
            )
            answer._end(None if is_end else Broken("The connection broke within the answer."))

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self.close()  # nobody asked
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            answer = self._answer
            if answer is not None:
                answer._end(Broken("What came is no HTTP."))
            self.is_open = False
            self.transport.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        answer = self._answer
        self._head_size += len(name) + len(value)
        if answer is None or self._head_size > _MOST_HEADER_BYTES:
            raise ValueError("too much of a head")  # the parser makes its own error of it
        answer.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        answer, status = self._answer, self._parser.get_status_code()
        if answer is None:
            return
        if status < 200:
            answer.headers.clear()  # an interim answer; the real one follows
        else:
            answer.status = status
            answer._wake()

    def on_body(self, body: bytes) -> None:
        if self._answer is not None and not self._is_drained:
            self._answer._take(body)

    def on_message_complete(self) -> None:
        answer = self._answer
        if answer is None or not answer.status:
            return
        self._stays = self._parser.should_keep_alive()
        answer._end(None)
        if self._is_drained:
            self._finish()


class Origin:
    """The connections to one scheme, host and port."""

    def __init__(
        self, policy: EgressPolicy, *, host: str, port: int, is_tls: bool, seconds: float,
        resolve: egress.Resolve = egress.resolve_with_system,
    ) -> None:  # fmt: skip
        self._policy = policy
        self._resolve = resolve
        self._host = host
        self._port = port
        self._tls: ssl.SSLContext | None = egress.tls_context() if is_tls else None
        self._seconds = seconds
        self._free: list[_Line] = []
        self._all: set[_Line] = set()

    async def send(self, request: bytes) -> Answer:
        """Send a whole request; give the answer once its head is there. Raises NotSent, Broken, EgressRefused.

        Cancelled, it ends the connection: that is how a call over HTTP is taken back.
        """
        answer = (self._warm() or await self._connect()).ask(request)
        try:
            await answer._head()
        except BaseException:
            answer._line.close()
            raise
        return answer

    def keep(self, line: _Line) -> None:
        line.free_since = asyncio.get_running_loop().time()
        self._free.append(line)

    def close(self) -> None:
        for line in list(self._all):
            line.close()
        self._all.clear()
        self._free.clear()

    def _warm(self) -> _Line | None:
        now = asyncio.get_running_loop().time()
        while self._free:
            line = self._free.pop()
            if line.is_open and now - line.free_since < _IDLE_SECONDS:
                return line
            self._forget(line)
        return None

    def _forget(self, line: _Line) -> None:
        line.close()
        self._all.discard(line)

    async def _connect(self) -> _Line:
        self._all = {line for line in self._all if line.is_open}
        loop = asyncio.get_running_loop()
        failure: Exception | None = None
        try:
            async with asyncio.timeout(self._seconds):
                for address in await egress.checked_addresses(self._policy, self._host, self._port, self._resolve):
                    try:
                        _, line = await loop.create_connection(
                            lambda: _Line(self), str(address), self._port, ssl=self._tls,
                            server_hostname=self._host if self._tls is not None else None,
                        )  # fmt: skip
                    except OSError as error:  # TLS's errors are too
                        failure = error
                        continue
                    self._all.add(line)
                    return line
        except (OSError, httpcore2.ConnectError) as error:  # a timeout is one, too
            raise NotSent(unreached.reason(error)) from error
        raise NotSent(unreached.reason(failure or httpcore2.ConnectError("The name has no address."))) from failure
