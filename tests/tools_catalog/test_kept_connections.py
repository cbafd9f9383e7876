"""Connections that are kept between requests, and servers that close them in silence."""

from __future__ import annotations

import asyncio
import select
import socket
import struct
import threading
from collections.abc import Awaitable, Callable

import httpx2
import pytest

from sessions_app.protocol import errors
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.egress import guard, kept
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.upstream.http import HttpEndpoint
from tools_catalog.upstream.spec import ConnectionSpec

POLICY = EgressPolicy(allow=("127.0.0.1",))
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n%b\r\nok"

Ask = Callable[[], Awaitable[bytes]]


class Server:
    """A server of threads. The request that `misbehave` names by its number gets no answer."""

    def __init__(self, *, header: bytes = b"", misbehave: Callable[[socket.socket], None] | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self.connections: list[socket.socket] = []
        self.requests = 0
        self._header = header
        self._misbehave = misbehave
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection, len(self.connections) == 1), daemon=True).start()

    def _serve(self, connection: socket.socket, is_first: bool) -> None:
        answered = 0
        while True:
            if is_first and answered == 1 and self._misbehave is not None:
                self._misbehave(connection)
                return
            received = b""
            while b"the body" not in received:
                try:
                    data = connection.recv(65536)
                except OSError:
                    return
                if not data:
                    return
                received += data
            self.requests += 1
            connection.sendall(ANSWER % self._header)
            answered += 1

    def take_and_close(self, connection: socket.socket) -> None:
        """Read a whole request, and end the connection without an answer."""
        while b"the body" not in connection.recv(65536):
            pass
        self.requests += 1
        connection.close()

    @staticmethod
    def close_unread(connection: socket.socket) -> None:
        """Wait for a request and reset the connection: a client cannot know that nobody read it."""
        connection.recv(1, socket.MSG_PEEK)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def close(self) -> None:
        self._listener.close()
        for connection in self.connections:
            connection.close()


@pytest.fixture(params=["upstream", "service"])
def talk(request: pytest.FixtureRequest) -> Callable[[str, Callable[[Ask], Awaitable[None]]], None]:
    """Run a conversation with a server: as an MCP upstream's, and as that of everything else that leaves the hub."""

    async def as_upstream(url: str, use: Callable[[Ask], Awaitable[None]]) -> None:
        spec = ConnectionSpec(
            id=1,
            slug="upstream",
            transport="streamable-http",
            url=url,
            max_response_bytes=1000,
            connect_seconds=PATIENCE_SECONDS,
        )
        endpoint = HttpEndpoint(spec, lambda name, host: "", POLICY)

        async def ask() -> bytes:
            return await (await endpoint.send(b"POST", b"", b"the body")).read(1000)

        try:
            await use(ask)
        finally:
            endpoint.close()

    async def as_service(url: str, use: Callable[[Ask], Awaitable[None]]) -> None:
        async with guard.client(POLICY) as client:

            async def ask() -> bytes:
                async with guard.stream(client, "POST", url, content=b"the body") as response:
                    return await response.aread()

            await use(ask)

    way = as_upstream if request.param == "upstream" else as_service
    return lambda url, use: asyncio.run(asyncio.wait_for(way(url, use), PATIENCE_SECONDS))


@pytest.fixture
def goodbyes_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The goodbye of a server is still under way when a client looks whether its connection is open."""

    class Poll:
        def register(self, *_: object) -> None: ...

        def poll(self, *_: object) -> list[tuple[int, int]]:
            return []

    monkeypatch.setattr(select, "poll", Poll)


def test_connection_is_used_again(talk) -> None:
    server = Server()

    async def use(ask: Ask) -> None:
        assert [await ask() for _ in range(3)] == [b"ok"] * 3

    talk(server.url, use)
    server.close()
    assert (len(server.connections), server.requests) == (1, 3)


def test_connection_is_given_up_before_the_end_that_its_server_names(talk) -> None:
    server = Server(header=b"Keep-Alive: timeout=1, max=100\r\n")

    async def use(ask: Ask) -> None:
        assert [await ask() for _ in range(3)] == [b"ok"] * 3

    talk(server.url, use)
    server.close()
    assert (len(server.connections), server.requests) == (3, 3)


@pytest.mark.usefixtures("goodbyes_travel")
@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="the system does not count acknowledged bytes")
def test_request_that_crosses_the_goodbye_of_its_server_is_sent_again(talk) -> None:
    server = Server()

    async def use(ask: Ask) -> None:
        assert await ask() == b"ok"
        server.connections[0].shutdown(socket.SHUT_RDWR)
        server.connections[0].close()
        # Nothing is awaited from here to the request: the event loop does not see the end before.
        assert await ask() == b"ok"

    talk(server.url, use)
    server.close()
    assert (len(server.connections), server.requests) == (2, 2)


@pytest.mark.parametrize("habit", ["take_and_close", "close_unread"])
def test_request_that_may_have_been_received_is_sent_once(talk, habit: str) -> None:
    server = Server()
    server._misbehave = getattr(server, habit)

    async def use(ask: Ask) -> None:
        assert await ask() == b"ok"
        with pytest.raises((errors.TransportError, httpx2.RemoteProtocolError, httpx2.ReadError)):
            await ask()

    talk(server.url, use)
    server.close()
    assert len(server.connections) == 1
    assert server.requests == (2 if habit == "take_and_close" else 1)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 4),
        ("", 4),
        ("max=100", 4),
        ("timeout=5", 4),
        ("timeout=2, max=100", 1),
        ("max=5,Timeout = 20", 19),
        ("timeout=0", 0),
        ("timeout=86400", 60),
        ("timeout=-1", 4),
        ("mytimeout=9", 4),
    ],
)
def test_time_that_a_connection_may_be_idle(header: str | None, seconds: float) -> None:
    assert kept.idle_seconds(header) == seconds
