"""A proxy before an upstream: passes connections on, or answers them itself."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.upstreams.conftest import Peer


class Front(socketserver.ThreadingTCPServer):
    """A listening proxy. Connections whose turn is in `instead` get these bytes and are closed."""

    daemon_threads = True

    def __init__(self, peer: Peer, instead: list[bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Relay)
        self.behind = peer.port
        """Where connections that begin from now on are passed on to."""
        self.instead = instead
        self.url = f"http://127.0.0.1:{self.server_address[1]}{peer.path}"


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
def front(peer: Peer, instead: list[bytes] | None = None) -> Iterator[Front]:
    with Front(peer, instead or []) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
