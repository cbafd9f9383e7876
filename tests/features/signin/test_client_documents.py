"""A client whose id is an address: what the hub takes from there, and what it does not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from oauth2_provider.cimd import CIMDError

from mcphub.features.signin import client_documents
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.egress import guard
from tools_catalog.egress.rules import EgressPolicy

ID = "https://client.example/id.json"
GOOD = {"client_id": ID, "client_name": "A client", "redirect_uris": ["https://client.example/callback"]}


@contextlib.contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                answer(self)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/id.json"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def saying(body: bytes, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in {"content_type": "application/json", **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(body)

    return answer


def got(address: str, policy: EgressPolicy, seconds: float = PATIENCE_SECONDS) -> tuple[bytes, str]:
    async def fetch() -> tuple[bytes, str]:
        async with guard.client(policy) as client:
            return await client_documents.read_document(client, address, seconds)

    return asyncio.run(fetch())


OPEN = EgressPolicy(allow=("127.0.0.1",))


def test_a_document_is_read_with_how_long_it_holds() -> None:
    with serving(saying(json.dumps(GOOD).encode(), cache_control="max-age=600")) as address:
        body, kept_for = got(address, OPEN)
    assert client_documents.checked(body) == GOOD
    assert kept_for == "max-age=600"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (saying(b"", 302, location=ID), "status 302"),
        (saying(b"", 404), "status 404"),
        (saying(b"<p>", content_type="text/html"), "no JSON"),
        (saying(b"[" + b" " * client_documents.MOST_BYTES), "larger"),
    ],
    ids=["redirects", "missing", "a page", "huge"],
)
def test_a_document_that_is_none_is_not_taken(answer: Any, words: str) -> None:
    with serving(answer) as address, pytest.raises(CIMDError, match=words):
        got(address, OPEN)


def test_a_slow_document_is_not_waited_for() -> None:
    over = threading.Event()
    with serving(lambda request: over.wait(PATIENCE_SECONDS) and None) as address:  # type: ignore[func-returns-value,arg-type]
        with pytest.raises(CIMDError, match="TimeoutError"):
            got(address, OPEN, seconds=0.2)
        over.set()


def test_nothing_is_asked_of_the_network_inside() -> None:
    asked: list[str] = []
    with (
        serving(lambda request: asked.append(request.path)) as address,
        pytest.raises(CIMDError, match="EgressRefused"),
    ):
        got(address, EgressPolicy())
    assert asked == []


@pytest.mark.parametrize(
    "address",
    [
        "http://client.example/id",
        "https://client.example",
        "https://client.example/a/../b",
        "https://u@client.example/b",
    ],
)
def test_not_every_address_is_a_client_id(address: str) -> None:
    with pytest.raises(CIMDError, match="may be"):
        client_documents.GuardedFetcher().fetch(address)


@pytest.mark.parametrize(
    "wrong",
    [
        {"redirect_uris": None},
        {"redirect_uris": []},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": ["http://client.example/callback"]},
        {"redirect_uris": ["https://client.example/callback"] * 21},
        {"redirect_uris": ["https://client.example/" + "x" * 500]},
        {"client_name": ["x"]},
    ],
)
def test_a_document_that_says_something_hostile_is_not_taken(wrong: dict[str, Any]) -> None:
    with pytest.raises(CIMDError):
        client_documents.checked(json.dumps({**GOOD, **wrong}).encode())


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"a":1,"a":2}', b"\xff"])
def test_a_document_is_one_json_object(body: bytes) -> None:
    with pytest.raises(CIMDError):
        client_documents.checked(body)
