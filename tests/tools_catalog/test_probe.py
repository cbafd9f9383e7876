"""A connection that is tried out: what the person who set it up is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.waiting import PATIENCE_SECONDS
from tools_catalog.upstream import probe
from tools_catalog.upstream.spec import ConnectionSpec


class _Shop(BaseHTTPRequestHandler):
    """Answers every request with the same JSON, as any API may that knows nothing of MCP."""

    def do_POST(self) -> None:
        body = b'{"products": [], "said": "canary"}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_DELETE = do_POST

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def shop() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Shop) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/api"
        server.shutdown()
        thread.join()


def test_an_address_that_speaks_no_mcp_is_told_in_a_sentence(shop: str, settings, caplog) -> None:
    settings.MCPHUB_EGRESS_ALLOW = ("127.0.0.1",)

    def secret(name: str, host: str) -> str:
        raise LookupError(name)

    spec = ConnectionSpec(id=1, slug="shop", transport="streamable-http", url=shop, connect_seconds=PATIENCE_SECONDS)
    steps = asyncio.run(probe.probe(spec, secret, "1"))
    assert [(step.kind, step.is_good) for step in steps] == [("address", True), ("connect", False)]
    assert steps[-1].outcome == ("The upstream answers JSON, but no JSON-RPC. Is this the address of an MCP endpoint?")
    assert "canary" not in caplog.text  # an answer may repeat a secret
