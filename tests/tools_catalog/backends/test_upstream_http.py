"""Streamable HTTP towards an upstream with sessions: nothing is asked of it before the hub hears its questions."""

from __future__ import annotations

import asyncio
import json

import httpx2
import pytest

from tools_catalog.upstream.http import UpstreamTransport
from tools_catalog.upstream.spec import ConnectionSpec

URL = "http://upstream.example/mcp"
SPEC = ConnectionSpec(id=1, slug="up", transport="streamable-http", url=URL)
SESSION = {"mcp-session-id": "s1"}


class Upstream(httpx2.AsyncBaseTransport):
    """Takes every message, and answers the stream once it is `opened`: with that status, or with that error."""

    def __init__(self, stream: int | Exception = 200) -> None:
        self.stream = stream
        self.opened = asyncio.Event()
        self.asked = asyncio.Event()
        self.seen: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            self.asked.set()
            await self.opened.wait()
            self.seen.append("stream")
            if isinstance(self.stream, Exception):
                raise self.stream
            return httpx2.Response(self.stream, stream=httpx2.ByteStream(b""), request=request)
        message = json.loads(await request.aread())
        self.seen.append(message["method"])
        return httpx2.Response(202 if "id" not in message else 200, stream=httpx2.ByteStream(b"{}"), request=request)


def post(method: str, headers: dict[str, str], **more: object) -> httpx2.Request:
    content = json.dumps({"jsonrpc": "2.0", **more, "method": method})
    return httpx2.Request("POST", URL, headers=headers, content=content)


async def begun(upstream: Upstream, headers: dict[str, str]) -> tuple[UpstreamTransport, list[asyncio.Task[object]]]:
    """Give what the SDK has under way when a session has just begun: its stream and a call."""
    transport = UpstreamTransport(upstream, SPEC, lambda name, host: "", lambda why: None, 5.0)
    stream = asyncio.create_task(transport.handle_async_request(httpx2.Request("GET", URL, headers=headers)))
    await upstream.asked.wait()
    await transport.handle_async_request(post("notifications/initialized", headers))
    call = asyncio.create_task(transport.handle_async_request(post("tools/call", headers, id=1)))
    for _ in range(20):
        await asyncio.sleep(0)
    return transport, [stream, call]


@pytest.mark.parametrize("stream", [200, 405, httpx2.ReadError("gone")])
def test_the_first_call_of_a_session_follows_the_answer_to_its_stream(stream: int | Exception) -> None:
    async def run() -> list[str]:
        upstream = Upstream(stream)
        transport, tasks = await begun(upstream, SESSION)
        assert upstream.seen == ["notifications/initialized"]
        upstream.opened.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        await transport.aclose()
        return upstream.seen

    assert asyncio.run(run()) == ["notifications/initialized", "stream", "tools/call"]


def test_without_a_session_there_is_no_stream_to_wait_for() -> None:
    async def run() -> list[str]:
        upstream = Upstream()
        transport, (stream, call) = await begun(upstream, {})
        await call
        stream.cancel()
        await transport.aclose()
        return upstream.seen

    assert asyncio.run(run()) == ["notifications/initialized", "tools/call"]


def test_an_upstream_that_never_answers_the_stream_is_called_without_it_and_waited_for_once() -> None:
    async def run() -> list[str]:
        upstream = Upstream()
        transport, (stream, call) = await begun(upstream, SESSION)
        await call
        second = asyncio.create_task(transport.handle_async_request(post("tools/list", SESSION, id=2)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert second.done()
        stream.cancel()
        await transport.aclose()
        return upstream.seen

    assert asyncio.run(run()) == ["notifications/initialized", "tools/call", "tools/list"]
