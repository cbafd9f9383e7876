"""HTTP+SSE towards an upstream: messages come and go, nothing leaves the origin, and an end says why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from backend_peers import Peer, Received, Script, reply, serving

from sessions_app.protocol import errors
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.upstream.http import HttpEndpoint
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.upstream.transports.base import Message, OutgoingRequest, notification
from tools_catalog.upstream.transports.event_stream import EventStream

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
ENDPOINT = b"event: endpoint\ndata: /messages?mark=1\n\n"
PING: Message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
CANCELLED = notification("notifications/cancelled", {"requestId": 5, "reason": "ä"})


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


class Recorder:
    """Keeps what the upstream sends by itself, and why the stream ended."""

    def __init__(self) -> None:
        self.took: list[Message] = []
        self.whys: list[str] = []
        self.ended = asyncio.Event()

    async def take(self, message: Message, request: OutgoingRequest | None) -> None:
        self.took.append(message)

    def lost(self, why: str) -> None:
        self.whys.append(why)
        self.ended.set()


def connected(script: Script, use: Callable[[EventStream, Recorder, Peer], Any], **words: Any) -> tuple[Any, list[str]]:
    """Connect and use the stream; give what came of it, and why the connection ended."""
    recorder = Recorder()

    async def run() -> Any:
        async with serving(script) as server:
            spec = ConnectionSpec(
                id=1,
                slug="up",
                transport="sse",
                url=f"http://127.0.0.1:{server.port}/sse",
                **{
                    "max_response_bytes": 5_000_000,
                    "max_notifications": 50,
                    "connect_seconds": PATIENCE_SECONDS,
                    **words,
                },
            )
            policy = EgressPolicy(allow=("127.0.0.1",))
            stream = EventStream(spec, HttpEndpoint(spec, lambda name, host: "", policy), recorder)
            try:
                await stream.open()
                return await use(stream, recorder, server)
            except errors.HubError as error:
                return str(error)
            finally:
                await stream.close()

    return asyncio.run(run()), recorder.whys


async def heard(stream: EventStream, recorder: Recorder, server: Peer) -> list[Message]:
    await recorder.ended.wait()
    return recorder.took


def test_what_is_no_message_is_passed_over_and_the_end_is_told() -> None:
    came, whys = connected(telling(b"data: {}\n\ndata: no JSON\n\n", ENDPOINT, b": alive\n\n", message(PING)), heard)
    assert came == [PING]
    assert whys == ["The upstream closed the connection."]


def test_a_message_is_posted_where_the_upstream_wants_it() -> None:
    posted = asyncio.Event()

    def script(request: Received, writer: asyncio.StreamWriter) -> None:
        telling(ENDPOINT, stays=True)(request, writer)
        if request.method == "POST":
            posted.set()

    async def speak(stream: EventStream, recorder: Recorder, server: Peer) -> Received:
        await stream.send(CANCELLED)
        await posted.wait()
        return server.received[-1]

    sent, _ = connected(script, speak)
    assert (sent.method, sent.target) == ("POST", "/messages?mark=1")
    assert sent.body == CANCELLED


@pytest.mark.parametrize(("size", "comes"), [(3_000_000, True), (6_000_000, False)])
def test_a_message_is_as_large_as_the_connection_allows(size: int, comes: bool) -> None:
    large = {**PING, "params": {"text": "x" * size}}
    came, whys = connected(telling(ENDPOINT, message(large)), heard)
    assert came == ([large] if comes else [])
    assert whys == [
        "The upstream closed the connection." if comes else "The upstream sent a message of more than 5000000 bytes."
    ]


def test_too_many_notifications_end_it() -> None:
    word = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
    _, whys = connected(telling(ENDPOINT, *[message(word)] * 100, stays=True), heard)
    assert whys == ["The upstream sends too many notifications."]


@pytest.mark.parametrize("endpoint", ["http://elsewhere.example/m", "//127.0.0.2/m", "https://127.0.0.1/m", "http://["])
def test_no_message_goes_to_another_server(endpoint: str) -> None:
    told, whys = connected(telling(b"event: endpoint\ndata: " + endpoint.encode() + b"\n\n", stays=True), heard)
    assert "messages sent to another server" in told
    assert whys == [told]


def redirecting(location: str, times: int) -> Script:
    """Redirect so many requests, then tell a message."""

    def script(request: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal times
        if times:
            times -= 1
            writer.write(b"HTTP/1.1 307 Moved\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % location.encode())
        else:
            telling(ENDPOINT, message(PING))(request, writer)

    return script


def test_a_redirect_is_followed_within_the_origin_twice() -> None:
    came, _ = connected(redirecting("/events/", 2), heard)
    assert came == [PING]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_messages_follow_a_redirect_of_their_address(status: int) -> None:
    posted = asyncio.Event()

    def script(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.method == "POST" and request.target == "/messages?mark=1":
            writer.write(reply(status, Location="/messages/?mark=1"))
            return
        telling(ENDPOINT, stays=True)(request, writer)
        if request.method == "POST":
            posted.set()

    async def speak(stream: EventStream, recorder: Recorder, server: Peer) -> Received:
        await stream.send(CANCELLED)
        await posted.wait()
        return server.received[-1]

    sent, whys = connected(script, speak)
    assert (sent.method, sent.target, sent.body) == ("POST", "/messages/?mark=1", CANCELLED)
    assert whys == ["The connection ended."]


@pytest.mark.parametrize(
    ("location", "times"),
    [("/events/", 3), ("http://elsewhere.example/events", 1), ("//127.0.0.2/events", 1), ("https://127.0.0.1/", 1)],
)
def test_no_other_redirect_is_followed(location: str, times: int) -> None:
    refused, _ = connected(redirecting(location, times), heard)
    assert f"sends the request on to {location}, which the hub does not follow (status 307)" in refused


def test_no_credentials_of_a_redirect_are_sent() -> None:
    received = []

    def script(request: Received, writer: asyncio.StreamWriter) -> None:
        received.append(request)
        host = request.headers["host"]
        redirecting(f"http://ann:secret@{host}/events", 1)(request, writer)

    connected(script, heard)
    assert len(received) == 1


def test_a_stream_that_never_says_where_messages_go_is_no_connection() -> None:
    told, _ = connected(telling(message(PING)), heard)
    assert told == "The upstream closed the connection."
