"""An HTTP service that guardrails ask: it finds the word secret, or fails as its path says."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Looker(BaseHTTPRequestHandler):
    """`/look` and `/mask` find; `/hang`, `/die` and `/nonsense` fail."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/hang":
            self.server.over.wait()  # type: ignore[attr-defined]
        if self.path == "/die":
            self.connection.close()
            return
        text = json.dumps(asked["value"])
        answer = {"findings": {"word": text.count("secret")} if "secret" in text else {}}
        if self.path == "/mask":
            answer["value"] = json.loads(text.replace("secret", "…"))
        body = b"nonsense" if self.path == "/nonsense" else json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def looking_service() -> Iterator[str]:
    """Listen on a port of its own; give the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Looker) as server:
        server.daemon_threads = True
        server.over = threading.Event()  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.over.set()  # type: ignore[attr-defined]
            server.shutdown()
