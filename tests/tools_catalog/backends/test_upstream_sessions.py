"""Streamable HTTP towards an upstream with sessions: what goes out, its streams, and how a session ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from backend_peers import Peer, Received, ScriptedContext, reply, serving

from sessions_app.protocol import errors
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.upstream.client import UpstreamClient
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.upstream.transports import streamable_http
from tools_catalog.upstream.transports.base import SessionLost

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
CALL = {"name": "echo", "arguments": {}}
GOOD = {"content": [{"type": "text", "text": "good"}]}


class Upstream:
    """Answers what a server of 2025-11-25 does. `seen` are the methods that came, `GET` and `DELETE` among them."""

    def __init__(self, *, session: str = "s1", stream: bytes | None = reply(405), call: bytes | None = None) -> None:
        self.session, self.stream, self.call = session, stream, call
        self.seen: list[str] = []
        self.received: list[Received] = []
        self.came = asyncio.Condition()
        self.opened = asyncio.Event()
        self.opened.set()

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        message = json.loads(request.body) if request.body else {"method": request.method}
        async with self.came:
            self.seen.append(message.get("method", "response"))
            self.received.append(request)
            self.came.notify_all()
        await self.answer(request, message, writer)
        if b"Connection: close" in (self.stream or b"") and request.method == "GET":
            writer.close()

    async def answer(self, request: Received, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        match message.get("method"):
            case "GET":
                await self.opened.wait()
                writer.write(self.stream or b"")
                if not self.stream:
                    writer.close()
            case "initialize":
                result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "n"}}
                named = {"Mcp_Session_Id": self.session} if self.session else {}
                writer.write(whole(message["id"], result, **named))
            case "tools/call":
                writer.write(self.call if self.call is not None else whole(message["id"], GOOD))
                if self.call is not None and b"Connection: close" in self.call:
                    writer.close()
            case "server/discover":
                error = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}
                writer.write(reply(400, json.dumps(error).encode(), "application/json"))
            case _:
                writer.write(reply(202))

    async def until(self, method: str) -> Received:
        """Wait until such a message came; give it."""
        async with asyncio.timeout(PATIENCE_SECONDS), self.came:
            await self.came.wait_for(lambda: method in self.seen)
            return self.received[self.seen.index(method)]


def whole(id_: Any, result: Any, **headers: str) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}).encode()
    return reply(200, body, "application/json", **headers)


def event(document: Any, **fields: str) -> bytes:
    head = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return f"{head}data: {json.dumps(document) if document is not None else ''}\n\n".encode()


@asynccontextmanager
async def connected(upstream: Upstream) -> AsyncIterator[tuple[UpstreamClient, Peer]]:
    async with serving(upstream) as server:
        spec = ConnectionSpec(
            id=1, slug="up", transport="streamable-http", url=f"{server.url}/mcp", connect_seconds=PATIENCE_SECONDS
        )
        policy = EgressPolicy(allow=("127.0.0.1",))
        client = UpstreamClient(spec, Scrubber(lambda name, host: ""), "1", policy=policy)
        await client.open()
        try:
            yield client, server
        finally:
            await client.close()


async def called(client: UpstreamClient) -> Any:
    return await client.request("tools/call", CALL, Caller())


class Caller(ScriptedContext):
    log_level = None


def test_a_session_names_itself_in_each_request_and_is_ended() -> None:
    async def run() -> Upstream:
        upstream = Upstream()
        async with connected(upstream) as (client, _):
            assert await called(client) == GOOD
        return upstream

    upstream = asyncio.run(run())
    begun = upstream.seen.index("initialize")
    assert "mcp-session-id" not in upstream.received[begun].headers
    assert upstream.seen[-1] == "DELETE"
    for request in upstream.received[begun + 1 :]:
        assert request.headers["mcp-session-id"] == "s1"
        assert request.headers["mcp-protocol-version"] == "2025-11-25"


@pytest.mark.parametrize("stream", [EVENTS, reply(405), None], ids=["a stream", "none", "broken off"])
def test_the_first_call_of_a_session_follows_the_answer_to_its_stream(stream: bytes | None) -> None:
    async def run() -> list[str]:
        upstream = Upstream(stream=stream)
        upstream.opened.clear()
        async with connected(upstream) as (client, _):
            await upstream.until("GET")
            call = asyncio.create_task(called(client))
            for _ in range(20):
                await asyncio.sleep(0)
            assert "tools/call" not in upstream.seen
            upstream.opened.set()
            await call
        return upstream.seen

    assert "tools/call" in asyncio.run(run())


def test_without_a_session_there_is_no_stream() -> None:
    async def run() -> list[str]:
        upstream = Upstream(session="")
        async with connected(upstream) as (client, _):
            await called(client)
        return upstream.seen

    assert not {"GET", "DELETE"} & set(asyncio.run(run()))


def test_an_upstream_that_never_answers_the_stream_is_called_without_it_and_waited_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> list[str]:
        upstream = Upstream()
        upstream.opened.clear()
        async with connected(upstream) as (client, _):
            await called(client)
            monkeypatch.setattr(streamable_http, "_STREAM_SECONDS", 10 * PATIENCE_SECONDS)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await called(client)
        return upstream.seen

    assert asyncio.run(run()).count("tools/call") == 2


def test_a_session_that_is_gone_took_no_request() -> None:
    async def run() -> list[str]:
        upstream = Upstream(call=reply(404))
        async with connected(upstream) as (client, _):
            with pytest.raises(SessionLost):
                await called(client)
            assert client.closed.is_set()
        return upstream.seen

    assert "DELETE" not in asyncio.run(run())


def test_a_call_that_is_given_up_is_cancelled_there() -> None:
    async def run() -> dict[str, Any]:
        upstream = Upstream(call=b"")
        async with connected(upstream) as (client, _):
            call = asyncio.create_task(called(client))
            id_ = json.loads((await upstream.until("tools/call")).body)["id"]
            call.cancel()
            told = json.loads((await upstream.until("notifications/cancelled")).body)
            assert told["params"]["requestId"] == id_
            return told

    assert asyncio.run(run())["method"] == "notifications/cancelled"


class Resuming(Upstream):
    """Ends the stream of a call after an event with an id, and gives `rests` to who resumes it."""

    def __init__(self, *rests: bytes) -> None:
        super().__init__(session="s1", call=EVENTS + b"id: e1\nretry: 1\ndata:\n\n")
        self.rests = list(rests)
        self.resumed: list[str] = []

    async def answer(self, request: Received, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if request.method == "GET" and "last-event-id" in request.headers:
            self.resumed.append(request.headers["last-event-id"])
            writer.write(self.rests.pop(0))
            writer.close()
            return
        await super().answer(request, message, writer)


@pytest.mark.parametrize("between", [b"", EVENTS + event({"jsonrpc": "2.0", "method": "notifications/x"}, id="e2")])
def test_the_stream_of_a_call_is_resumed_where_it_ended(between: bytes) -> None:
    rest = EVENTS + event({"jsonrpc": "2.0", "id": 3, "result": GOOD}, id="e3")
    upstream = Resuming(*([between] if between else []), rest)

    async def run() -> Any:
        async with connected(upstream) as (client, _):
            return await called(client)

    assert asyncio.run(run()) == GOOD
    assert upstream.resumed == (["e1", "e2"] if between else ["e1"])


def test_a_stream_that_cannot_be_resumed_broke() -> None:
    async def run() -> None:
        async with connected(Resuming(reply(404), reply(404))) as (client, _):
            with pytest.raises(errors.TransportError):
                await called(client)

    asyncio.run(run())


def test_what_the_upstream_asks_unasked_is_answered() -> None:
    ping = {"jsonrpc": "2.0", "id": "p1", "method": "ping"}
    other = {"jsonrpc": "2.0", "id": "p2", "method": "of/nobody"}

    async def run() -> list[dict[str, Any]]:
        upstream = Upstream(stream=EVENTS + event(None, id="e0") + event(ping) + b"data: {{{\n\n" + event(other))
        async with connected(upstream), asyncio.timeout(PATIENCE_SECONDS), upstream.came:
            await upstream.came.wait_for(lambda: upstream.seen.count("response") >= 2)
        return [
            json.loads(one.body)
            for one, what in zip(upstream.received, upstream.seen, strict=True)
            if what == "response"
        ]

    told = {each["id"]: each for each in asyncio.run(run())}
    assert told["p1"]["result"] == {}
    assert told["p2"]["error"]["code"] == -32601
