"""A server that misbehaves again and again leaves nothing open in the hub, in whatever way it does so."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from backend_peers import Received, ScriptedContext, reply, serving

from sessions_app.protocol import errors
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.upstream.client import UpstreamClient
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import ConnectionSpec, LaunchSpec
from tools_catalog.upstream.transports.base import SessionLost

GOOD = {"content": [{"type": "text", "text": "good"}]}
TIMES = 3
BURST = 8
MOST_BYTES = 20_000
HEAD = b"HTTP/1.1 200 OK\r\n"
EVENTS = HEAD + b"Content-Type: text/event-stream\r\n\r\n"
CHUNKS = HEAD + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
LONG = HEAD + b"Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
NOTE = b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n\n'


class Caller(ScriptedContext):
    log_level = None


def result_for(asked: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "n"}},
        "tools/call": GOOD,
        "ping": {},
    }.get(asked.get("method", ""), {})
    return {"jsonrpc": "2.0", "id": asked.get("id"), "result": found}


def answer_to(asked: dict[str, Any]) -> bytes:
    return json.dumps(result_for(asked)).encode()


Way = Callable[[dict[str, Any]], tuple[bytes, bool]]
"""The bytes in place of the answer, and whether the connection ends after them."""


def stays(raw: bytes) -> Way:
    return lambda asked: (raw, False)


def ends(raw: bytes) -> Way:
    return lambda asked: (raw, True)


OVER_HTTP: dict[str, Way] = {
    "a status": stays(reply(500, b"oops")),
    "a status and an end": ends(reply(503, b"oops", Connection="close")),
    "a page": stays(reply(200, b"<html>", "text/html")),
    "no credentials": stays(reply(401)),
    "a redirect": stays(reply(307, Location="/elsewhere")),
    "a session that is gone": stays(reply(404)),
    "no content": stays(reply(204)),
    "no HTTP": ends(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "nothing": ends(b""),
    "a body that is cut": ends(LONG),
    "chunks that are cut": ends(CHUNKS + b"5\r\n{"),
    "too large a body": stays(reply(200, b" " * 10 * MOST_BYTES, "application/json")),
    "chunks without an end": stays(CHUNKS + b"%x\r\n%b\r\n" % (2 * MOST_BYTES, b" " * 2 * MOST_BYTES)),
    "an answer that cannot be read": stays(reply(200, b'{"jsonrpc":"2.0","result":{"x":NaN}}', "application/json")),
    "bytes after the answer": lambda asked: (reply(200, answer_to(asked), "application/json") + b"more", False),
    "two answers": lambda asked: (reply(200, answer_to(asked), "application/json") * 2, False),
    "events without an answer": stays(reply(200, b": hi\n\n", "text/event-stream")),
    "events that are cut": ends(EVENTS + b"data: {"),
    "events after the answer": lambda asked: (EVENTS + b"data: " + answer_to(asked) + b"\n\n", False),
    "a flood of events": stays(EVENTS + NOTE * 200),
    "too large an event": stays(EVENTS + b"data: " + b"x" * 2 * MOST_BYTES),
    "silence": stays(b""),
    "half a body": stays(LONG),
    "events without an end": stays(EVENTS + NOTE),
}
SILENT = {"silence", "half a body", "events without an end"}
"""Ways in which a call ends by its caller only."""


class Server:
    """A server with sessions and a stream of each; a call asks for a way to misbehave by its arguments.

    Of the calls with others, all but one are answered on connections that may not be used again.
    """

    def __init__(self) -> None:
        self.misbehaved = asyncio.Event()
        self.burst: list[tuple[asyncio.StreamWriter, dict[str, Any]]] = []

    def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.method == "GET":
            writer.write(EVENTS + b": open\n\n")
            return
        asked = json.loads(request.body or b"{}")
        way = asked.get("params", {}).get("arguments", {}).get("way")
        if way == "with others":
            self.burst.append((writer, asked))
            if len(self.burst) == BURST:
                for each, its in self.burst[1:]:
                    each.write(reply(200, answer_to(its), "application/json", Keep_Alive="timeout=1"))
            return
        if way is not None:
            raw, is_end = OVER_HTTP[way](asked)
            writer.write(raw)
            if is_end:
                writer.close()
            self.misbehaved.set()
        elif "id" not in asked:
            writer.write(reply(202))
        else:
            writer.write(reply(200, answer_to(asked), "application/json", Mcp_Session_Id="s"))


MESSAGES: dict[str, Way] = {
    "a stream that ends": ends(b""),
    "a line that is no event": ends(b"\xff\xfe\n\ndata: {"),
    "an answer that cannot be read": lambda asked: (
        b'data: {"jsonrpc":"2.0","id":%d,"result":NaN}\n\n' % asked["id"],
        False,
    ),
    "too large an event": stays(b"data: " + b"x" * 2 * MOST_BYTES),
    "a flood": stays(NOTE * 300),
    "silence": stays(b""),
}


class EventServer:
    """A server of HTTP+SSE: each answer comes by the stream."""

    def __init__(self) -> None:
        self.misbehaved = asyncio.Event()
        self.stream: asyncio.StreamWriter

    def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        if request.method == "GET":
            self.stream = writer
            writer.write(EVENTS + b"event: endpoint\ndata: /messages\n\n")
            return
        asked = json.loads(request.body)
        way = asked.get("params", {}).get("arguments", {}).get("way")
        writer.write(reply(202))
        if way is not None:
            raw, is_end = MESSAGES[way](asked)
            self.stream.write(raw)
            if is_end:
                self.stream.close()
            self.misbehaved.set()
        elif "id" in asked:
            self.stream.write(b"data: " + answer_to(asked) + b"\n\n")


PROGRAM = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    way = (asked.get("params") or {}).get("arguments", {}).get("way")
    if "id" not in asked: continue
    if way == "an exit": sys.exit(3)
    if way == "half a line and an exit": sys.stdout.write('{"jsonrpc"'); sys.stdout.flush(); os._exit(0)
    if way == "a closed output": os.close(1); continue
    if way == "too large a line": sys.stdout.write("x" * 200_000 + "\\n"); sys.stdout.flush(); continue
    if way == "a flood": sys.stdout.write('{"jsonrpc":"2.0","method":"n"}\\n' * 3000); sys.stdout.flush(); continue
    if way == "an answer that cannot be read":
        print('{"jsonrpc":"2.0","id":%d,"result":NaN}' % asked["id"], flush=True); continue
    results = {"initialize": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "n"}},
               "tools/call": {"content": [{"type": "text", "text": "good"}]}}
    if asked["method"] not in results:
        error = {"code": -32601, "message": "Method not found"}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}), flush=True)
"""
LINES = (
    "an exit",
    "half a line and an exit",
    "a closed output",
    "too large a line",
    "a flood",
    "an answer that cannot be read",
)


class Connected:
    """A connection that is made anew when it ended, as the hub does."""

    def __init__(self, **spec: Any) -> None:
        self.spec = ConnectionSpec(
            id=1,
            slug="up",
            era="handshake",
            max_response_bytes=MOST_BYTES,
            max_notifications=50,
            connect_seconds=PATIENCE_SECONDS,
            **spec,
        )
        self.client: UpstreamClient | None = None

    async def call(self, **arguments: str) -> Any:
        """Return the result, or the error as it was raised."""
        if self.client is not None and self.client.closed.is_set():
            await self.close()
        if self.client is None:
            policy = EgressPolicy(allow=("127.0.0.1",))
            self.client = UpstreamClient(self.spec, Scrubber(lambda name, host: ""), "1", policy=policy)
            await self.client.open()
        try:
            return await self.client.request("tools/call", {"name": "echo", "arguments": arguments}, Caller())
        except (errors.HubError, SessionLost) as error:
            return error

    async def close(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            await client.close()


def opened() -> int:
    """Return how many descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))


async def grown(up: Connected, way: str, misbehaved: asyncio.Event | None) -> int:
    """Return how many more descriptors are open after the server misbehaved; wait for what closes by itself."""
    await misbehave(up, way, misbehaved)
    assert await up.call() == GOOD
    before = opened()
    for _ in range(TIMES):
        await misbehave(up, way, misbehaved)
        assert await up.call() == GOOD
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while opened() > before:  # noqa: ASYNC110 - the other ends of sockets close in turns of the loop, without a word
                await asyncio.sleep(0)
    except TimeoutError:
        return opened() - before
    return 0


async def misbehave(up: Connected, way: str, misbehaved: asyncio.Event | None) -> None:
    if way not in SILENT:
        await up.call(way=way)
        return
    assert misbehaved is not None
    misbehaved.clear()
    waiting = asyncio.create_task(up.call(way=way))
    await misbehaved.wait()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


def left_open(transport: str, way: str) -> int:
    async def run() -> int:
        async with AsyncExitStack() as stack:
            server = EventServer() if transport == "sse" else Server()
            peer = await stack.enter_async_context(serving(server))
            up = Connected(transport=transport, url=f"{peer.url}/mcp")
            stack.push_async_callback(up.close)
            return await grown(up, way, server.misbehaved)

    return asyncio.run(run())


@pytest.mark.parametrize("way", OVER_HTTP)
def test_a_misbehaving_server_leaves_nothing_open_over_http(way: str) -> None:
    assert left_open("streamable-http", way) == 0


def test_connections_of_a_burst_close_though_calls_go_on() -> None:
    """Each call takes the connection that was given back last, so what a burst opened is not looked at again."""

    async def run() -> int:
        async with AsyncExitStack() as stack:
            server = Server()
            peer = await stack.enter_async_context(serving(server))
            up = Connected(transport="streamable-http", url=f"{peer.url}/mcp")
            stack.push_async_callback(up.close)
            assert await up.call() == GOOD
            before = opened()
            burst = [asyncio.create_task(up.call(way="with others")) for _ in range(BURST)]
            waiting = set(burst)
            while len(waiting) > 1:
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            writer, last = server.burst[0]
            writer.write(reply(200, answer_to(last), "application/json"))
            assert await asyncio.gather(*burst) == [GOOD] * BURST
            async with asyncio.timeout(PATIENCE_SECONDS):
                while opened() > before:
                    assert await up.call() == GOOD
            return peer.connections

    assert asyncio.run(run()) > BURST


@pytest.mark.parametrize("way", MESSAGES)
def test_a_misbehaving_server_leaves_nothing_open_over_a_stream_of_events(way: str) -> None:
    assert left_open("sse", way) == 0


@pytest.mark.program
@pytest.mark.parametrize("way", LINES)
def test_a_misbehaving_program_leaves_nothing_open(way: str) -> None:
    async def run() -> int:
        launch = LaunchSpec(name="odd", command=sys.executable, arguments=("-c", PROGRAM), is_unconfined=True)
        up = Connected(transport="stdio", launch=launch)
        try:
            return await grown(up, way, None)
        finally:
            await up.close()

    assert asyncio.run(run()) == 0
