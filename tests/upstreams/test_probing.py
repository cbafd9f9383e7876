"""Of what era an upstream is, when its first answers are not its own: a proxy's, or none."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.servers import until
from tests.upstreams.conftest import Operator, Peer

AWAY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
MODERN = "2026-07-28"


class Front(socketserver.ThreadingTCPServer):
    """Stands before a server. Connections whose turn is in `instead` get these bytes and are closed."""

    daemon_threads = True

    def __init__(self, port: int, instead: list[bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Relay)
        self.behind = port
        self.instead = instead

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"


class Relay(socketserver.BaseRequestHandler):
    server: Front
    request: socket.socket

    def handle(self) -> None:
        if self.server.instead:
            self.request.recv(65536)
            self.request.sendall(self.server.instead.pop(0))
            return
        with socket.create_connection(("127.0.0.1", self.server.behind)) as behind:
            back = threading.Thread(target=self._pass_on, args=[behind, self.request], daemon=True)
            back.start()
            self._pass_on(self.request, behind)
            back.join()

    @staticmethod
    def _pass_on(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one side has gone


@contextmanager
def front(peer: Peer, instead: list[bytes]) -> Iterator[str]:
    with Front(peer.port, instead) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.url
        server.shutdown()


@pytest.mark.parametrize(
    ("slug", "instead"), [("away", [AWAY]), ("long_away", [AWAY, AWAY, AWAY]), ("broken_off", [b""])]
)
def test_an_upstream_that_was_not_there_at_first_is_not_taken_for_an_old_one(
    operator: Operator, running: Callable[..., Peer], slug: str, instead: list[bytes]
) -> None:
    with front(running("sdk_v2.py", "http"), list(instead)) as url:
        operator.connect(slug, url=url)
        until(lambda: operator.row(slug)["version"])
        version = operator.row(slug)["version"]
        operator.change(slug, enabled=False)
    assert version == MODERN
