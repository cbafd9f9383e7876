"""The load: N clients, each with one keep-alive connection, each sending when its answer has come.

    load.py < job.json > figures.json

A program of its own, so that it can have a core of its own. Every answer is checked whole: status, JSON, id
and result. It measures its own share of a processor too, since a client that is busy all the time measures
itself. `wire.py` says what it sends.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from array import array
from collections.abc import Sequence
from typing import Any

import orjson
import uvloop

from benchmarks import wire
from benchmarks.processes import processor_seconds, tree

FIRST_ID = 10_000_000
"""Ids keep their width, so that the head of the request stays the same."""

_PATIENCE_SECONDS = 30


class Wrong(Exception):
    """An answer that is not the right one."""


class Client(asyncio.Protocol):
    """One connection. What comes is an answer to the one request that is out."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.buffer = bytearray()
        self.missing = 0
        self.request_id = FIRST_ID
        self.request: tuple[bytes, bytes] = (b"", b"")
        self.answered: asyncio.Future[tuple[int, dict[str, str], bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.WriteTransport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self.load.fail(Wrong(f"The server closed a connection: {exc}"))

    # One exchange by hand: the handshake and the end of a session -----------------------------------

    async def exchange(self, request: bytes, status: int) -> dict[str, str]:
        self.answered = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        got, headers, body = await asyncio.wait_for(self.answered, _PATIENCE_SECONDS)
        self.answered = None
        if got != status:
            raise Wrong(f"status {got} instead of {status}: {body[:300]!r}")
        return headers

    # The loop -----------------------------------------------------------------------------------------

    def send(self) -> None:
        head, tail = self.request
        self.sent = time.perf_counter()
        self.transport.write(head + b"%d" % self.request_id + tail)

    def data_received(self, data: bytes) -> None:
        buffer = self.buffer
        buffer += data
        if len(buffer) < self.missing:
            return
        end = buffer.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        head = bytes(buffer[:end])
        length = content_length(head)
        if length < 0:
            self.load.fail(Wrong(f"An answer without Content-Length: {head[:300]!r}"))
            return
        self.missing = end + length
        if len(buffer) < self.missing:
            return
        body = bytes(buffer[end : self.missing])
        del buffer[: self.missing]
        self.missing = 0
        if self.answered is not None:
            self.answered.set_result((int(head[9:12]), wire.headers_of(head), body))
            return
        load = self.load
        now = load.heard = time.perf_counter()
        if wrong := load.judge(head, body, self.request_id):
            load.fail(Wrong(f"{wrong}: {head[:100]!r} {body[:300]!r}"))
            return
        if load.counting:
            load.latencies.append(now - self.sent)
        if load.running:
            self.request_id += load.step
            self.send()
        else:
            load.open -= 1
            if not load.open and not load.done.done():
                load.done.set_result(None)


class Load:
    """One job: connect, shake hands, warm up, count, end."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.step = 0 if job.get("fixed") else 1
        self.tools: int | None = job.get("tools")
        self.latencies = array("d")
        self.counting = False
        self.running = True
        self.open = 0
        self.known = b""
        self.heard = time.perf_counter()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    def judge(self, head: bytes, body: bytes, request_id: int) -> str:
        """Say what is wrong with an answer; an empty text if nothing is."""
        if not head.startswith(b"HTTP/1.1 200"):
            return "not 200"
        if self.tools is not None:
            return self._judge_list(body, request_id)
        try:
            document = orjson.loads(body)
            result = document["result"]
            if document["id"] != request_id:
                return f"not the id {request_id}"
            if result["structuredContent"]["result"] != 42 or result.get("isError"):
                return "not 42"
            if float(result["content"][0]["text"]) != 42:
                return "not 42 in the text"
        except (ValueError, LookupError, TypeError):
            return "not an answer"
        return ""

    def _judge_list(self, body: bytes, request_id: int) -> str:
        """Parse the first list; of the others, compare the bytes: the client must stay lighter than the server."""
        plain = body.replace(b"%d" % request_id, b"ID", 1)
        if plain == self.known:
            return ""
        try:
            document = orjson.loads(body)
            if document["id"] != request_id:
                return f"not the id {request_id}"
            if len({tool["name"] for tool in document["result"]["tools"]}) != self.tools:
                return f"not {self.tools} tools"
        except (ValueError, LookupError, TypeError):
            return "not an answer"
        self.known = plain
        return ""

    async def run(self) -> dict[str, Any]:
        job, loop = self.job, asyncio.get_running_loop()
        clients: list[Client] = []
        for _ in range(job["clients"]):
            _, client = await loop.create_connection(lambda: Client(self), "127.0.0.1", job["port"])
            clients.append(client)
        requests = [await self._begin(client) for client in clients]
        self.open = len(clients)
        for client, request in zip(clients, requests, strict=True):
            client.request = request
            client.send()
        await self._wait(job["warm"])
        self.counting = True
        pids = tree(job["pid"], job.get("without", ""))
        server, own, start = processor_seconds(pids), time.process_time(), time.perf_counter()
        if not job.get("calls"):
            await self._wait(job["seconds"])
        while len(self.latencies) < (job.get("calls") or job.get("least_calls", 1)):
            await self._wait(0.05)
        self.counting = False
        seconds = time.perf_counter() - start
        own, server = time.process_time() - own, processor_seconds(pids) - server
        self.running = False
        await asyncio.wait_for(asyncio.shield(self.done), _PATIENCE_SECONDS)
        for client in clients:
            if session := getattr(client, "session", ""):
                await client.exchange(wire.delete(job["port"], job["key"], session), job["deleted"])
        return figures_of(self.latencies, seconds, server, own)

    async def _begin(self, client: Client) -> tuple[bytes, bytes]:
        """Return the request of this client, before and after its id; shake hands first where the era does."""
        job = self.job
        session = ""
        if job["era"] == "handshake":
            headers = await client.exchange(wire.initialize(job["port"], job["key"]), 200)
            session = client.session = headers["mcp-session-id"]  # type: ignore[attr-defined]
            await client.exchange(wire.initialized(job["port"], job["key"], session), 202)
        raw = wire.request(job["port"], job["key"], job["method"], job["tool"], FIRST_ID, session)
        head, _, tail = raw.partition(b"%d" % FIRST_ID)
        return head, tail

    async def _wait(self, seconds: float) -> None:
        """Let the load run; an answer that was wrong, or a long silence, ends it."""
        await asyncio.wait([self.done], timeout=seconds)
        if self.done.done():
            self.done.result()
        if time.perf_counter() - self.heard > _PATIENCE_SECONDS:
            raise Wrong(f"No answer for {_PATIENCE_SECONDS} s.")


def figures_of(latencies: Sequence[float], seconds: float, server: float, own: float) -> dict[str, Any]:
    """Return what a job found: seconds of each call, of the whole, and of the processor at both ends."""
    ordered = sorted(latencies)
    calls = len(ordered)

    def at(share: float) -> float:
        return round(ordered[min(calls - 1, int(calls * share))] * 1000, 3)

    return {
        "calls": calls,
        "seconds": seconds,
        "per_second": calls / seconds,
        "server_us_per_call": server / calls * 1e6,
        "client_busy": own / seconds,
        "p50_ms": at(0.50),
        "p95_ms": at(0.95),
        "p99_ms": at(0.99),
    }


def content_length(head: bytes) -> int:
    start = head.find(b"content-length: ")
    if start < 0:
        head = head.lower()
        start = head.find(b"content-length: ")
    return -1 if start < 0 else int(head[start + 16 : head.find(b"\r", start)])


async def main() -> None:
    job = json.load(sys.stdin)
    try:
        figures = await Load(job).run()
    except (Wrong, OSError, TimeoutError) as error:
        figures = {"error": f"{type(error).__name__}: {error}"}
    json.dump(figures, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # the connections need no goodbye


if __name__ == "__main__":
    uvloop.run(main())
