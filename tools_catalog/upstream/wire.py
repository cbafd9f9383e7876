"""A lean HTTP/1.1 client of one origin: guarded connections that stay warm, responses read as they come.

HTTP is most of a relayed call's cost. A general client makes objects of requests, headers, streams and timeouts; this
one writes bytes and lets llhttp read the response. A connection carries one request at a time.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections import deque
from contextlib import suppress
from typing import Any, Protocol

import httpcore2
import httptools
import httpx2

from sessions_app.protocol import errors
from tools_catalog.egress import guard as egress
from tools_catalog.egress import kept
from tools_catalog.egress import proxy as proxies
from tools_catalog.egress.proxy import ProxyAddress
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.upstream import unreached

_HELD_BYTES = 256 * 1024
"""Unread bytes of a response above which the other side is made to wait."""
_DRAIN_SECONDS = 1.0
"""For the end of a response of which all that was wanted has come."""
_MOST_HEADER_BYTES = 64 * 1024
_LISTS = frozenset({b"www-authenticate"})
"""Headers that a server and what stands before it each write a line of."""


class RequestNotSent(Exception):
    """No connection could be made: nothing reached the other side. Its message is the reason."""


class Broken(errors.TransportError):
    """The connection broke, or the data is not HTTP. The request may have been taken."""


class _Untaken(Broken):
    """A kept connection had been closed before the request came: it was surely not received."""


class TooLarge(errors.ResultInvalid):
    sentence = "The upstream's answer is too large."


class WireResponse:
    """A response with a complete head. Read its body by `chunk`, then `release` it."""

    __slots__ = ("_chunks", "_connection", "_error", "_size", "_waiter", "headers", "is_whole", "status", "url")

    def __init__(self, connection: _HttpConnection) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.url: httpx2.URL
        """Where it came from, after redirects. Set by `HttpEndpoint`."""
        self.is_whole = False
        self._connection = connection
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def read(self, most: int) -> bytes:
        """Return the whole body, and be done with it. Raises Broken; TooLarge above `most` bytes."""
        if self.is_whole and self._size <= most:
            return b"".join(self._chunks)
        chunks, size = [], 0
        while chunk := await self.chunk():
            size += len(chunk)
            if size > most:
                self.close()
                raise TooLarge
            chunks.append(chunk)
        self.release()
        return b"".join(chunks)

    async def chunk(self) -> bytes:
        """Return the data received since; empty at the end. Raises Broken. Cancelled, it ends the connection."""
        while not self._chunks:
            if self.is_whole:
                return b""
            await self._more()
        chunk = self._chunks.popleft() if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        if self._size > _HELD_BYTES and not self.is_whole:
            self._connection.transport.resume_reading()
        self._size = 0
        return chunk

    def release(self) -> None:
        """Be done with it. A connection with an unfinished response is reused if the rest comes soon."""
        if not self.is_whole:
            self._connection.let_go(self)

    def close(self) -> None:
        """Want no more of it: the connection ends, unless the response is whole."""
        if not self.is_whole:
            self._connection.close()

    async def head(self) -> None:
        """Wait for status and headers. Raises Broken. Cancelled, it ends the connection."""
        while not self.status:
            await self._more()

    async def _more(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        except BaseException:
            self.close()
            raise
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _take(self, body: bytes) -> None:
        self._chunks.append(body)
        before, self._size = self._size, self._size + len(body)
        if before <= _HELD_BYTES < self._size:
            self._connection.transport.pause_reading()
        self._wake()

    def _end(self, error: Exception | None) -> None:
        if not self.is_whole and self._error is None:
            self._error, self.is_whole = error, error is None
            self._wake()


class _ResponseParser(Protocol):
    def feed_data(self, data: bytes) -> None: ...
    def get_status_code(self) -> int: ...
    def should_keep_alive(self) -> bool: ...


class _HttpConnection(asyncio.Protocol):
    """One connection. Methods named `on_…` are called by the parser."""

    def __init__(self, pool: ConnectionPool) -> None:
        self.transport: asyncio.Transport
        self.is_open = True
        self.free_until = 0.0
        self._acknowledged: int | None = None
        """Bytes that the other side had acknowledged before the request, if it is not the first of the connection."""
        self._pool = pool
        self._response: WireResponse | None = None
        self._parser: _ResponseParser
        self._head_size = 0
        self._is_drained = False

    def ask(self, request: bytes) -> WireResponse:
        self._response = response = WireResponse(self)
        self._parser = httptools.HttpResponseParser(self)
        self._head_size = 0
        self._acknowledged = kept.acknowledged(self._socket()) if self.free_until else None
        self.transport.write(request)
        return response

    def _socket(self) -> Any:
        return self.transport.get_extra_info("socket")

    def is_silent(self) -> bool:
        """Return whether nothing came since the last response. The data includes its end, which the event loop has not
        seen yet.
        """
        looking = select.poll()
        looking.register(self._socket().fileno(), select.POLLIN)
        return not looking.poll(0)

    async def tunnel(self, request: bytes) -> int:
        """Ask a proxy for a tunnel; give the status of its response. Raises Broken."""
        response = self.ask(request)
        await response.head()
        self._response = None
        self._pool.forget(self)  # a response that is whole has given it back
        return response.status

    def let_go(self, response: WireResponse) -> None:
        """Read the rest of a response that nobody wants any more, if it comes soon."""
        if self._response is not response:
            return
        if response.status and self.is_open and response._error is None:
            self._is_drained = True
            response._chunks.clear()
            if response._size > _HELD_BYTES:
                self.transport.resume_reading()
            asyncio.get_running_loop().call_later(_DRAIN_SECONDS, self._give_up, response)
        else:
            self.close()

    def close(self) -> None:
        self.is_open = False
        response, self._response = self._response, None
        if response is not None:
            response._end(Broken("The connection broke within the call."))
        self.transport.abort()

    def _give_up(self, response: WireResponse) -> None:
        if self._response is response:
            self.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self._socket().setsockopt(*egress.RECEIVE_BUFFER)

    def eof_received(self) -> None:
        self.is_open = False
        if self._response is not None and kept.is_untaken(self._socket(), self._acknowledged):
            self._response._end(_Untaken("The upstream had closed the connection before the request came."))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        response = self._response
        if response is not None:
            # A body of no stated length ends with the connection.
            is_end = (
                error is None
                and response.status
                and not (b"content-length" in response.headers or b"transfer-encoding" in response.headers)
            )
            response._end(None if is_end else Broken("The connection broke within the answer."))

    def data_received(self, data: bytes) -> None:
        if self._response is None:
            self.close()  # nobody asked
            return
        self._acknowledged = None
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            response = self._response
            if response is not None:
                response._end(Broken("The upstream's answer is no HTTP. Check the address and port of the connection."))
            self.is_open = False
            self.transport.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        response = self._response
        self._head_size += len(name) + len(value)
        if response is None or self._head_size > _MOST_HEADER_BYTES:
            raise ValueError("too much of a head")  # the parser makes its own error of it
        name = name.lower()
        if name in _LISTS and name in response.headers:
            value = response.headers[name] + b", " + value  # several lines are one list (RFC 9110, section 5.3)
        response.headers[name] = value

    def on_headers_complete(self) -> None:
        response, status = self._response, self._parser.get_status_code()
        if response is None:
            return
        if status < 200:
            response.headers.clear()  # an interim response; the real one follows
        else:
            response.status = status
            response._wake()

    def on_body(self, body: bytes) -> None:
        if self._response is not None and not self._is_drained:
            self._response._take(body)

    def on_message_complete(self) -> None:
        response = self._response
        if response is None or not response.status:
            return
        if response._size > _HELD_BYTES and not self._is_drained:
            self.transport.resume_reading()
        response._end(None)
        self._response = None
        self._is_drained = False
        if self.is_open and self._parser.should_keep_alive():
            self._pool.keep(self, kept.idle_seconds(response.headers.get(b"keep-alive", b"").decode("latin-1")))
        else:
            self.close()


class ConnectionPool:
    """The connections to one origin: scheme, host and port. They leave through `proxy`, where there is one."""

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        host: str,
        port: int,
        is_tls: bool,
        seconds: float,
        resolve: egress.Resolve = egress.resolve_with_system,
        proxy: ProxyAddress | None = None,
    ) -> None:
        self._policy = policy
        self._resolve = resolve
        self._host = host
        self._port = port
        self._tls: ssl.SSLContext | None = egress.tls_context() if is_tls else None
        self._seconds = seconds
        self._proxy = proxy
        self._free: list[_HttpConnection] = []
        self._all: set[_HttpConnection] = set()
        self._sweep: asyncio.TimerHandle | None = None

    async def send(self, request: bytes) -> WireResponse:
        """Send a whole request; give the response once its head is there. Raises NotSent, Broken, EgressRefused.

        Cancelled, it ends the connection: that is how a call over HTTP is taken back.
        """
        while (connection := self._warm()) is not None:
            response = connection.ask(request)
            with suppress(_Untaken):
                await response.head()
                return response
        response = (await self._connect()).ask(request)
        await response.head()
        return response

    def keep(self, connection: _HttpConnection, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        connection.free_until = loop.time() + seconds
        self._free.append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(seconds, self._close_idle)

    def forget(self, connection: _HttpConnection) -> None:
        if connection in self._free:
            self._free.remove(connection)

    def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection in list(self._all):
            connection.close()
        self._all.clear()
        self._free.clear()

    def _close_idle(self) -> None:
        """Close connections that may carry no other request. Many servers never do, so those of a burst would stay."""
        loop = asyncio.get_running_loop()
        now, free = loop.time(), self._free
        self._free = [connection for connection in free if now < connection.free_until]
        for connection in set(free).difference(self._free):
            connection.close()
            self._all.discard(connection)
        soonest = min((connection.free_until for connection in self._free), default=None)
        self._sweep = None if soonest is None else loop.call_at(soonest, self._close_idle)

    def _warm(self) -> _HttpConnection | None:
        if not self._free:
            return None
        now = asyncio.get_running_loop().time()
        while self._free:
            connection = self._free.pop()
            if connection.is_open and now < connection.free_until and connection.is_silent():
                return connection
            connection.close()
            self._all.discard(connection)
        return None

    async def _connect(self) -> _HttpConnection:
        self._all = {connection for connection in self._all if connection.is_open}
        try:
            async with asyncio.timeout(self._seconds):
                made = await self._connect_anywhere()
        except (OSError, httpcore2.ConnectError) as error:  # a timeout is one, too
            raise RequestNotSent(unreached.reason(error)) from error
        self._all.add(made)
        return made

    async def _connect_anywhere(self) -> _HttpConnection:
        """Connect to the first of the checked addresses that takes connections, or through the proxy to it."""
        failure: Exception = httpcore2.ConnectError("The name has no address.")
        proxy = self._proxy
        for target in await egress.checked_targets(self._policy, self._host, self._port, self._resolve, proxy):
            try:
                if proxy is not None:
                    return await self._connect_through(proxy, target)
                return await self._open(target, self._port, self._tls, self._host)
            except (OSError, RequestNotSent) as error:  # TLS's errors are of the first
                failure = error
        raise failure

    async def _connect_through(self, proxy: ProxyAddress, target: str) -> _HttpConnection:
        tls = egress.tls_context() if proxy.is_tls else None
        try:
            made = await self._open(proxy.host, proxy.port, tls, proxy.host)
        except OSError as error:
            raise RequestNotSent(proxies.SILENT) from error
        try:
            if refused := proxies.refusal_of(await made.tunnel(proxy.tunnel_request(target, self._port))):
                raise RequestNotSent(refused)
            if self._tls is not None:
                loop = asyncio.get_running_loop()
                inside = await loop.start_tls(made.transport, made, self._tls, server_hostname=self._host)
                assert inside is not None
                made.transport = inside
        except BaseException as error:
            made.close()
            if isinstance(error, Broken):
                raise RequestNotSent(proxies.refusal_of(0)) from error
            raise
        return made

    async def _open(self, host: str, port: int, tls: ssl.SSLContext | None, name: str) -> _HttpConnection:
        _, made = await asyncio.get_running_loop().create_connection(
            lambda: _HttpConnection(self), host, port, ssl=tls, server_hostname=name if tls is not None else None
        )
        return made
