"""Receivers of checkpoints, on loopback: a syslog of each kind and a webhook, which keep what they get."""

from __future__ import annotations

import contextlib
import http.server
import queue
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.waiting import PATIENCE_SECONDS


@contextlib.contextmanager
def datagrams(where: Path | None = None) -> Iterator[tuple[str, queue.Queue[bytes]]]:
    """Return the address of a syslog over UDP, or over a unix socket of datagrams, and what it gets."""
    heard: queue.Queue[bytes] = queue.Queue()
    with socket.socket(socket.AF_UNIX if where else socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(str(where) if where else ("127.0.0.1", 0))
        address = f"unix:{where}" if where else f"udp://127.0.0.1:{listener.getsockname()[1]}"
        listener.settimeout(PATIENCE_SECONDS)

        def hear() -> None:
            with contextlib.suppress(OSError):
                while True:
                    heard.put(listener.recv(65536))

        threading.Thread(target=hear, daemon=True).start()
        yield address, heard


@contextlib.contextmanager
def lines(where: Path | None = None) -> Iterator[tuple[str, queue.Queue[bytes]]]:
    """Return the address of a syslog over TCP, or over a unix socket of streams, and what each connection brings."""
    heard: queue.Queue[bytes] = queue.Queue()
    with socket.socket(socket.AF_UNIX if where else socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(str(where) if where else ("127.0.0.1", 0))
        listener.listen()
        address = f"unix:{where}" if where else f"tcp://127.0.0.1:{listener.getsockname()[1]}"

        def hear() -> None:
            with contextlib.suppress(OSError):
                while True:
                    line, _ = listener.accept()
                    with line, line.makefile("rb") as whole:
                        heard.put(whole.read())

        threading.Thread(target=hear, daemon=True).start()
        yield address, heard


class Webhook:
    """A server that answers each POST with `status`, and keeps the bodies."""

    def __init__(self, port: int = 0, status: int = 204) -> None:
        self.status = status
        self.bodies: queue.Queue[bytes] = queue.Queue()
        self.tries = threading.Semaphore(0)
        """One for each request, however it was answered."""
        webhook = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self.send_response(webhook.status)
                if webhook.status in (301, 307):
                    self.send_header("location", "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()
                if 200 <= webhook.status < 300:
                    webhook.bodies.put(body)
                webhook.tries.release()

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook?password=canary"

    def __enter__(self) -> Webhook:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def await_tries(self, count: int) -> None:
        for _ in range(count):
            assert self.tries.acquire(timeout=PATIENCE_SECONDS)
