"""Receivers of the audit on loopback, each in threads of its own: HTTP that keeps what it gets, syslog with and without
TLS."""

from __future__ import annotations

import contextlib
import datetime
import http.server
import ipaddress
import queue
import re
import socket
import ssl
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.waiting import PATIENCE_SECONDS


@dataclass
class Got:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class HttpReceiver:
    """Answers each request with `status` and `answer`; keeps those that it took."""

    status: int = 200
    answer: bytes = b""
    more: dict[str, str] = field(default_factory=dict)
    most_bytes: int = 2**40
    got: list[Got] = field(default_factory=list)
    tries: int = 0
    keeps_anyway: bool = False
    """Keep also what it then refuses: the answer was lost, not the delivery."""

    def __enter__(self) -> Self:
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status = 413 if len(body) > receiver.most_bytes else receiver.status
                receiver.tries += 1
                if 200 <= status < 300 or receiver.keeps_anyway:
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    receiver.got.append(Got(self.path, headers, body))
                self.send_response(status)
                for name, value in {**receiver.more, "content-length": str(len(receiver.answer))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(receiver.answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Syslog:
    """Reads each connection until its end. `dies_after`: so many bytes later it resets the connection instead."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.heard: queue.Queue[bytes] = queue.Queue()
        self.dies_after: int | None = None
        self._context = context

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"{'tls' if self._context else 'tcp'}://localhost:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                with contextlib.suppress(OSError, ssl.SSLError), line:
                    self._read(line)

    def _read(self, line: socket.socket) -> None:
        if self.dies_after is not None:
            line.recv(self.dies_after)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            return
        if self._context is not None:
            line = self._context.wrap_socket(line, server_side=True)
        with line:  # which is another one under TLS, and may break off
            whole = b""
            while piece := line.recv(65536):
                whole += piece
            self.heard.put(whole)
            if isinstance(line, ssl.SSLSocket):
                line.unwrap()

    def messages(self) -> list[str]:
        """Return the messages of the next connection."""
        whole, found = self.heard.get(timeout=PATIENCE_SECONDS), []
        while whole:
            count, _, whole = whole.partition(b" ")
            found.append(whole[: int(count)].decode())
            whole = whole[int(count) :]
        return found


def certificate(folder: Path) -> tuple[ssl.SSLContext, str]:
    """Return the side of a server on localhost, and the certificate that vouches for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(Encoding.PEM).decode()
    file = folder / "server.pem"
    file.write_text(pem + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context, pem


RFC5424 = re.compile(r"<(108|109)>1 (\S+) (\S+) mcphub (\d+) (\S+) (-|\[meta sequenceId=\"\d+\"\]) (.*)", re.DOTALL)
