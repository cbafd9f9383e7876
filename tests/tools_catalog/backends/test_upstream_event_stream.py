"""HTTP+SSE towards an upstream: messages come and go, nothing leaves the origin, and an end says why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from backend_peers import Peer, Received, Script, reply, serving
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from sessions_app.protocol import errors
from tools_catalog.egress_rules import EgressPolicy
from tools_catalog.upstream import event_stream, http
from tools_catalog.upstream.spec import ConnectionSpec

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
ENDPOINT = b"event: endpoint\ndata: /messages?mark=1\n\n"
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}
WORD = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 5, "reason": "ä"})


def message(document: Any) -> bytes:
    return b"event: message\ndata: " + json.dumps(document).encode() + b"\n\n"


def telling(*events: bytes, stays: bool = False) -> Script:
    """Send these events on the stream, and take every POST."""

    def script(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.method == "POST":
            writer.write(reply(202))
            return
        writer.write(EVENTS + b"".join(events))
        if not stays:
            writer.close()

    return script


def connected(script: Script, use: Callable[[Any, Any, Peer], Any], **words: Any) -> tuple[Any, list[str]]:
    """Connect and use both streams; give what came of it, and why the connection ended."""
    whys: list[str] = []

    async def run() -> Any:
        async with serving(script) as server:
            spec = ConnectionSpec(
                id=1, slug="up", transport="sse", url=f"http://127.0.0.1:{server.port}/sse",
                **{"max_response_bytes": 5_000_000, "max_notifications": 50, "connect_seconds": 5.0, **words},
            )  # fmt: skip
            policy = EgressPolicy(allow=("127.0.0.1",))
            made = http.client(spec, lambda name, host: "", whys.append, 5.0, policy)
            try:
                async with event_stream.connect(made, spec, whys.append) as (read, write):
                    return await use(read, write, server)
            except errors.HubError as error:
                return str(error)
            finally:
                await made.aclose()

    return asyncio.run(run()), whys


async def heard(read: Any, write: Any, server: Peer) -> list[Any]:
    return [item.message.model_dump(exclude_unset=True) async for item in read]


def test_what_is_no_message_is_passed_over_and_the_end_is_told() -> None:
    came, whys = connected(telling(b"data: {}\n\ndata: no JSON\n\n", ENDPOINT, b": alive\n\n", message(PONG)), heard)
    assert came == [PONG]
    assert whys == ["The upstream closed the connection."]


def test_a_message_is_posted_where_the_upstream_wants_it() -> None:
    posted = asyncio.Event()

    def script(request: Received, writer: asyncio.StreamWriter) -> None:
        telling(ENDPOINT, stays=True)(request, writer)
        if request.method == "POST":
            posted.set()

    async def speak(read: Any, write: Any, server: Peer) -> Received:
        await write.send(SessionMessage(WORD))
        await posted.wait()
        return server.received[-1]

    sent, _ = connected(script, speak)
    assert (sent.method, sent.target) == ("POST", "/messages?mark=1")
    assert json.loads(sent.body) == WORD.model_dump(exclude_unset=True)


@pytest.mark.parametrize(("size", "comes"), [(3_000_000, True), (6_000_000, False)])
def test_a_message_is_as_large_as_the_connection_allows(size: int, comes: bool) -> None:
    large = {**PONG, "result": {"text": "x" * size}}
    came, whys = connected(telling(ENDPOINT, message(large)), heard)
    assert came == ([large] if comes else [])
    assert whys == [
        "The upstream closed the connection."
        if comes
        else "The upstream sent a message of more than 5000000 bytes."
    ]  # fmt: skip


def test_too_many_notifications_end_it() -> None:
    word = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
    _, whys = connected(telling(ENDPOINT, *[message(word)] * 100, stays=True), heard)
    assert whys == ["The upstream sends too many notifications."]


@pytest.mark.parametrize("endpoint", ["http://elsewhere.example/m", "//127.0.0.2/m", "https://127.0.0.1/m", "http://["])
def test_no_message_goes_to_another_server(endpoint: str) -> None:
    told, whys = connected(telling(b"event: endpoint\ndata: " + endpoint.encode() + b"\n\n", stays=True), heard)
    assert "messages" in told
    assert whys == [told]


def redirecting(location: str, times: int) -> Script:
    """Redirect so many requests, then tell a message."""

    def script(request: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal times
        if times:
            times -= 1
            writer.write(b"HTTP/1.1 307 Moved\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % location.encode())
        else:
            telling(ENDPOINT, message(PONG))(request, writer)

    return script


def test_a_redirect_is_followed_within_the_origin_twice() -> None:
    came, _ = connected(redirecting("/events/", 2), heard)
    assert came == [PONG]


@pytest.mark.parametrize(
    ("location", "times"),
    [("/events/", 3), ("http://elsewhere.example/events", 1), ("//127.0.0.2/events", 1), ("https://127.0.0.1/", 1)],
)
def test_no_other_redirect_is_followed(location: str, times: int) -> None:
    with pytest.raises(httpx2.HTTPStatusError) as caught:
        connected(redirecting(location, times), heard)
    assert caught.value.response.status_code == 307


def test_no_credentials_of_a_redirect_are_sent() -> None:
    received = []

    def script(request: Received, writer: asyncio.StreamWriter) -> None:
        received.append(request)
        host = request.headers["host"]
        redirecting(f"http://ann:secret@{host}/events", 1)(request, writer)

    with pytest.raises(httpx2.HTTPStatusError):
        connected(script, heard)
    assert len(received) == 1


def test_a_stream_that_never_says_where_messages_go_is_no_connection() -> None:
    told, _ = connected(telling(message(PONG)), heard)
    assert told == "The upstream closed the connection."
