"""Why an upstream cannot be reached: told alike to who calls and to who tries the connection out, on every way."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sessions_app.protocol import errors
from tests.servers import free_port
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.backends.http.template import Template
from tools_catalog.upstream import probe
from tools_catalog.upstream.client import UpstreamClient
from tools_catalog.upstream.opening import opened
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import ConnectionSpec

SECRET = "hush-7391-hush"


class Server(socketserver.ThreadingTCPServer):
    """Says `first` to whoever connects, over TLS where it has a certificate, and then listens in silence."""

    daemon_threads = True

    def __init__(self, first: bytes = b"", tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Listener)
        self.first, self.tls = first, tls


class Listener(socketserver.BaseRequestHandler):
    server: Server
    request: socket.socket

    def handle(self) -> None:
        with contextlib.suppress(OSError):  # whoever connected has gone
            if self.server.tls is not None:
                self.server.tls.wrap_socket(self.request, server_side=True).close()
                return
            self.request.sendall(self.server.first)
            while self.request.recv(4096):
                pass


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """TLS with a certificate that a server made for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path: Path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


@contextmanager
def listening(server: Server) -> Iterator[int]:
    """Return the port of a server."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def spec(transport: str, url: str, seconds: float = PATIENCE_SECONDS) -> ConnectionSpec:
    header = Template.parse("Bearer {secret:UP}", "headers")
    return ConnectionSpec(
        id=1, slug="up", transport=transport, url=url, headers=(("Authorization", header),), connect_seconds=seconds
    )


def secret(name: str, to: object) -> str:
    return SECRET


async def called(url: str, seconds: float = PATIENCE_SECONDS) -> str:
    """Connect as for a call."""
    with pytest.raises(errors.ConnectionFailed) as caught:
        await opened(
            lambda is_unprobed: UpstreamClient(
                spec("streamable-http", url, seconds), Scrubber(secret), "1", is_unprobed=is_unprobed
            )
        )
    return str(caught.value)


async def tried(transport: str, url: str, seconds: float) -> str:
    steps = await probe.probe(spec(transport, url, seconds), secret, "1")
    assert [(step.kind, step.is_good) for step in steps] == [("address", True), ("connect", False)]
    return steps[-1].outcome


WAYS: dict[str, Callable[[str, float], Coroutine[Any, Any, str]]] = {
    "a call": called,
    "the test of Streamable HTTP": lambda url, seconds: tried("streamable-http", url, seconds),
    "the test of HTTP+SSE": lambda url, seconds: tried("sse", url, seconds),
}
TOO_LATE = ("No connection was made in time.", "The upstream did not answer within 1 s.")
CASES = {
    "nobody there": ("http://127.0.0.1:{}/mcp", ("Nothing takes connections there.",)),
    "no such name": ("http://nowhere.invalid:{}/mcp", ("The name cannot be resolved.",)),
    "no TLS": ("https://127.0.0.1:{}/mcp", ("It does not speak TLS there.",)),
    "its own certificate": ("https://127.0.0.1:{}/mcp", ("Its certificate is not trusted.",)),
    "silence": ("https://127.0.0.1:{}/mcp", TOO_LATE),
}


@contextmanager
def serving(case: str, certified: ssl.SSLContext) -> Iterator[int]:
    match case:
        case "no TLS":
            server = Server(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        case "its own certificate":
            server = Server(tls=certified)
        case "silence":
            server = Server()
        case _:
            yield free_port()
            return
    with listening(server) as port:
        yield port


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", WAYS)
def test_who_asks_is_told_why(case: str, way: str, settings: Any, certified: ssl.SSLContext, caplog: Any) -> None:
    settings.MCPHUB_EGRESS_ALLOW = ("127.0.0.1",)
    address, words = CASES[case]
    seconds = 1.0 if words is TOO_LATE else PATIENCE_SECONDS
    with serving(case, certified) as port:
        said = asyncio.run(WAYS[way](address.format(port), seconds))
    assert any(each in said for each in words), said
    assert SECRET not in said + caplog.text


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
def test_a_name_that_leads_inside_is_told_so(transport: str, settings: Any) -> None:
    settings.MCPHUB_EGRESS_ALLOW = ()
    steps = asyncio.run(probe.probe(spec(transport, "http://localhost:9/mcp"), secret, "1"))
    assert not steps[-1].is_good
    assert "MCPHUB_EGRESS_ALLOW" in steps[-1].outcome


def test_a_call_that_the_guard_refuses_says_so(settings: Any) -> None:
    settings.MCPHUB_EGRESS_ALLOW = ()
    with pytest.raises(errors.EgressRefused, match="MCPHUB_EGRESS_ALLOW"):
        asyncio.run(called("http://localhost:9/mcp"))
