"""A callback on loopback with TLS: it returns challenges, verifies signatures, and keeps what arrived."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.features.audit_export.receivers import certificate


@dataclass
class CallbackReceiver:
    """`status` is of the answer to events, and `control_status` to other messages; `echoes`: it returns challenges."""

    folder: Path
    secrets: list[str]
    status: int = 200
    echoes: bool = True
    control_status: int = 200
    is_plain: bool = False
    """It answers challenges by a text that is no JSON."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of events that were answered with 2xx, each with its headers as `headers`."""
    controls: list[dict[str, Any]] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)
    """By `webhook-id`."""

    def __enter__(self) -> Self:
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, answer = receiver.take(headers, raw)
                self.send_response(status)
                self.send_header("content-length", str(len(answer)))
                self.send_header("location", "https://127.0.0.1:1/elsewhere")
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        context, pem = certificate(self.folder)
        self.certificate = self.folder / "receiver.pem"
        self.certificate.write_text(pem)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # A handshake belongs to the thread of its request: one that does not come must not hold those that do.
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}/hook/secret-path"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, headers: dict[str, str], raw: bytes) -> tuple[int, bytes]:
        assert self.is_signed(headers, raw)
        body = json.loads(raw)
        if "type" in body:
            self.controls.append({**body, "headers": headers})
            answer = {"challenge": body.get("challenge") if self.echoes else "another"}
            is_challenge = body["type"] == "verification"
            return 200 if is_challenge else self.control_status, b"OK" if self.is_plain else json.dumps(answer).encode()
        self.tries[headers["webhook-id"]] += 1
        if 200 <= self.status < 300:
            self.events.append({**body, "headers": headers})
        return self.status, b""

    def is_signed(self, headers: dict[str, str], raw: bytes) -> bool:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + raw
        for secret in self.secrets:
            key = base64.b64decode(secret.removeprefix("whsec_"))
            signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
            if f"v1,{signature}" in headers["webhook-signature"].split():
                return True
        return False

    def subjects(self) -> list[str]:
        return [each["data"]["subject"] for each in self.events]
