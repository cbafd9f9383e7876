"""Streamable HTTP of the stateless era: what goes out, and what every kind of answer becomes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from backend_peers import Peer, Received, Script, ScriptedContext, always, reply, serving
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol import envelope, errors
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.backends.http.template import Template
from tools_catalog.call.context import NoClientInput
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.upstream.asking import Asking
from tools_catalog.upstream.client import UpstreamClient
from tools_catalog.upstream.listing import TOOL
from tools_catalog.upstream.results import check
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import ConnectionSpec

LOCAL = EgressPolicy(allow=("127.0.0.1",))
GOOD = {"content": [{"type": "text", "text": "good"}]}
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


Answer = Callable[[dict[str, Any]], bytes]


def answering(answer: Answer) -> Script:
    """Tell the era, and answer each other request with the bytes that `answer` gives for its message."""

    def script(request: Received, writer: asyncio.StreamWriter) -> None:
        message = json.loads(request.body)
        raw = discovered(message) if message["method"] == "server/discover" else answer(message)
        writer.write(raw)
        if b"Connection: close" in raw:
            writer.close()

    return script


def whole(document: Any, status: str = "200 OK", more: str = "") -> bytes:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def good(message: dict[str, Any]) -> bytes:
    return whole({"jsonrpc": "2.0", "id": message["id"], "result": GOOD})


def discovered(message: dict[str, Any]) -> bytes:
    result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    return whole({"jsonrpc": "2.0", "id": message["id"], "result": result})


def event(document: Any) -> bytes:
    return b"event: message\ndata: " + json.dumps(document).encode() + b"\n\n"


@asynccontextmanager
async def connected(port: int, **words: Any) -> AsyncIterator[UpstreamClient]:
    spec = ConnectionSpec(
        id=1,
        slug="up",
        transport="streamable-http",
        url=f"http://127.0.0.1:{port}/mcp",
        **{"max_response_bytes": 100_000, "max_notifications": 50, "connect_seconds": PATIENCE_SECONDS, **words},
    )
    client = UpstreamClient(spec, Scrubber(lambda name, to: f"{name} for {to.origin}"), "1", policy=LOCAL)
    await client.open()
    try:
        yield client
    finally:
        await client.close()


class AbleClient(NoClientInput):
    def can_ask(self, request: object) -> bool:
        return True


class AbleContext(ScriptedContext):
    input = AbleClient()


CALL = {"name": "echo", "arguments": {"a": 1}}


def asked(script: Script, context: Any = None) -> Any:
    """Ask a server that behaves so; give what came, or the name of the failure."""

    async def run() -> Any:
        async with serving(script) as server, connected(server.port) as client:
            try:
                return await client.request("tools/call", CALL, context or ScriptedContext())
            except errors.HubError as error:
                return error.code

    return asyncio.run(run())


def test_a_request_describes_itself_and_keeps_its_connection() -> None:
    async def run() -> Peer:
        secret = ("Authorization", Template.parse("Bearer {secret:UP}", "h"))
        asking = Asking(samples=True, lists_roots=True)
        async with (
            serving(answering(good)) as server,
            connected(server.port, headers=(secret,), asking=asking) as client,
        ):
            for _ in range(3):
                context = AbleContext(client_capabilities={"elicitation": {}, "sampling": {}, "roots": {}})
                assert await client.request("tools/call", CALL, context) == GOOD
            return server

    server = asyncio.run(run())
    assert server.connections == 1
    calls = server.received[1:]
    messages = [json.loads(request.body) for request in calls]
    meta = messages[0]["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert set(meta["io.modelcontextprotocol/clientCapabilities"]) == {"elicitation", "sampling", "roots", "extensions"}
    sent = {"mcp-method": "tools/call", "mcp-name": "echo", "mcp-protocol-version": "2026-07-28"}
    assert {**sent, "authorization": f"Bearer UP for http://127.0.0.1:{server.port}"}.items() <= calls[
        0
    ].headers.items()
    assert len({message["id"] for message in messages}) == 3


@pytest.mark.parametrize("name", ["a\r\nX-Evil: 1", "ärger", " blank", "=?base64?x?="])
def test_no_name_breaks_out_of_its_header(name: str) -> None:
    async def run() -> dict[str, str]:
        async with serving(answering(good)) as server, connected(server.port) as client:
            await client.request("tools/call", {"name": name, "arguments": {}}, ScriptedContext())
            return server.received[-1].headers

    headers = asyncio.run(run())
    assert envelope.decode_header(headers["mcp-name"]) == name
    assert "x-evil" not in headers


def test_annotated_arguments_are_repeated_in_headers() -> None:
    schema = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"dry": {"type": "boolean", "x-mcp-header": "Dry"}}},
            "absent": {"type": "integer", "x-mcp-header": "Absent"},
        },
    }

    def answer(message: dict[str, Any]) -> bytes:
        tools = {"tools": [{"name": "find", "inputSchema": schema}]}
        result = tools if message["method"] == "tools/list" else GOOD
        return whole({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def run() -> dict[str, str]:
        async with serving(answering(answer)) as server, connected(server.port) as client:
            params = {"name": "find", "arguments": {"region": "eu-1", "deep": {"dry": True}}}
            await client.list_offers(TOOL)
            await client.request("tools/call", params, ScriptedContext())
            return {name: text for name, text in server.received[-1].headers.items() if name.startswith("mcp-param")}

    assert asyncio.run(run()) == {"mcp-param-dry": "true", "mcp-param-region": "eu-1"}


def test_what_is_said_on_the_way_reaches_the_call() -> None:
    def answer(message: dict[str, Any]) -> bytes:
        token = message["params"]["_meta"]["progressToken"]
        step = {"progressToken": token, "progress": 1, "total": 2, "message": "half"}
        foreign = {"progressToken": "another", "progress": 9}
        return (
            EVENTS
            + b": hello\n\n"
            + b"".join(
                event({"jsonrpc": "2.0", **each})
                for each in (
                    {"method": "notifications/progress", "params": step},
                    {"method": "notifications/progress", "params": foreign},
                    {"method": "notifications/message", "params": {"level": "info", "data": {"a": 1}, "logger": "l"}},
                    {"method": "notifications/message", "params": {"level": "loud", "data": 1}},
                    {"id": message["id"], "result": GOOD},
                )
            )
        )

    context = ScriptedContext(meta={"progressToken": "mine"})
    assert asked(answering(answer), context) == GOOD
    assert context.sent == [("progress", 1, 2, "half"), ("log", "info", {"a": 1}, "l")]


ANSWERS: dict[str, tuple[Answer, Any]] = {
    "a body that ends with the connection": (
        lambda m: (
            EVENTS.replace(b"text/event-stream", b"application/json")
            + json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": GOOD}).encode()
        ),
        GOOD,
    ),
    "an interim answer first": (lambda m: b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + good(m), GOOD),
    "the upstream's own error": (
        lambda m: whole({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32602, "message": "no"}}, "400 Bad"),
        "upstream_error",
    ),
    "an error page": (lambda m: whole(b"<html>", "500 Oops").replace(b"/json", b"/xhtml+xml"), "upstream_error"),
    "accepted": (lambda m: b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", "upstream_error"),
    "credentials refused": (lambda m: whole({}, "401 No"), "connection_failed"),
    "compressed": (lambda m: whole(b"\x1f\x8b", more="Content-Encoding: gzip\r\n"), "transport_error"),
    "no HTTP": (lambda m: b"SSH-2.0-OpenSSH_9\r\n", "transport_error"),
    "no JSON": (lambda m: whole(b"{{{"), "result_invalid"),
    "no UTF-8": (lambda m: whole(b'{"jsonrpc":"2.0","id":1,"result":{"x":"\xff"}}'), "result_invalid"),
    "deep": (lambda m: whole(b'{"jsonrpc":"2.0","id":1,"a":' + b"[" * 900 + b"]" * 900 + b"}"), "result_invalid"),
    "no JSON-RPC": (lambda m: whole([1]), "result_invalid"),
    "another's answer": (lambda m: whole({"jsonrpc": "2.0", "id": "x", "result": GOOD}), "result_invalid"),
    "no result": (lambda m: whole({"jsonrpc": "2.0", "id": m["id"]}), "result_invalid"),
    "no list of content": (
        lambda m: whole({"jsonrpc": "2.0", "id": m["id"], "result": {"content": "x"}}),
        "result_invalid",
    ),
    "an error that is none": (lambda m: whole({"jsonrpc": "2.0", "id": m["id"], "error": "x"}), "result_invalid"),
    "too large": (lambda m: whole(b"x" * 200_000), "result_invalid"),
    "too large an event": (lambda m: EVENTS + b"data: " + b"x" * 200_000, "result_invalid"),
    "too large a head": (lambda m: b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n", "transport_error"),
    "a flood": (
        lambda m: EVENTS + event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}) * 60,
        "transport_error",
    ),
    "a stream without the result": (lambda m: EVENTS + b": bye\n\n", "transport_error"),
    "half an answer": (lambda m: good(m).replace(b"OK\r\n", b"OK\r\nConnection: close\r\n")[:-5], "transport_error"),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_every_answer_becomes_a_result_or_a_failure_with_a_name(kind: str) -> None:
    answer, becomes = ANSWERS[kind]
    assert asked(answering(answer)) == becomes


def redirecting(location: str, times: int) -> Script:
    """Send so many calls on to there, and answer the next."""

    def script(request: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal times
        if json.loads(request.body)["method"] == "tools/call" and times:
            times -= 1
            writer.write(reply(307, Location=location))
        else:
            answering(good)(request, writer)

    return script


def test_a_redirect_is_followed_within_the_origin_twice() -> None:
    assert asked(redirecting("/mcp/", 2)) == GOOD


@pytest.mark.parametrize(
    ("location", "times"),
    [("/mcp/", 3), ("http://elsewhere.example/mcp", 1), ("//127.0.0.2/mcp", 1), ("http://a:b@127.0.0.1/mcp", 1)],
)
def test_no_other_redirect_is_followed(location: str, times: int) -> None:
    assert asked(redirecting(location, times)) == "upstream_error"


def test_a_call_that_is_given_up_ends_its_connection() -> None:
    async def run() -> None:
        begun = asyncio.Event()
        gone = asyncio.Event()

        async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(int(re.search(rb"Content-Length: (\d+)", head)[1]))  # type: ignore[index]
            writer.write(discovered(json.loads(body)))
            while await reader.read(1000):
                begun.set()
            writer.close()
            gone.set()

        server = await asyncio.start_server(hang, "127.0.0.1", 0)
        async with server, connected(server.sockets[0].getsockname()[1]) as client:
            call = asyncio.create_task(client.request("tools/call", CALL, ScriptedContext()))
            await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.wait_for(gone.wait(), PATIENCE_SECONDS)

    asyncio.run(run())


def test_nothing_is_sent_where_nobody_listens_or_the_guard_refuses() -> None:
    async def run(policy: EgressPolicy, expected: type[Exception]) -> None:
        async with serving(always(b"")) as server:
            port = server.port
        spec = ConnectionSpec(id=1, slug="up", transport="streamable-http", url=f"http://127.0.0.1:{port}/")
        client = UpstreamClient(spec, Scrubber(lambda name, host: ""), "1", policy=policy)
        with pytest.raises(expected):
            await client.open()

    asyncio.run(run(LOCAL, errors.ConnectionFailed))
    asyncio.run(run(EgressPolicy(), errors.EgressRefused))


MEMBERS = st.sampled_from(["content", "type", "text", "data", "resource", "uri", "isError", "_meta", "resultType"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_no_result_makes_the_check_stumble(value: Any) -> None:
    if isinstance(value, dict):
        with contextlib.suppress(errors.ResultInvalid):
            check(value)
