"""Clients over every transport that keep a journal of what they asked and what they were told."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx2

from tests.servers import ROOT

HANDSHAKE, STATELESS, FIRST = "2025-11-25", "2026-07-28", "2024-11-05"
_BOTH = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "rig", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_HEADERS = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "count"}
_PATIENCE_SECONDS = 20
_INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@dataclass
class Entry:
    """One call as its client knows it. `answers` holds (invocation id, is an error, text, was a repeat).

    `refusals` holds codes, with a `!` where the client was not told to try again; `waits` the seconds of each attempt
    that was answered.
    """

    name: str
    way: str
    attempts: int = 0
    asked_at: float = 0.0
    waits: list[float] = field(default_factory=list)
    answers: list[tuple[str, bool, str, bool]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def told(self, message: Mapping[str, Any]) -> None:
        """Take an answer of JSON-RPC, or a frame of the remote profile."""
        self.waits.append(time.monotonic() - self.asked_at)
        frame = message.get("details", {})
        if frame.get("errorCode") == "interrupted" and "result" in frame:
            message = frame  # the end of the call, as the other transports have it; asking again changes nothing
        if "result" not in message:
            told = message["error"]["data"] if "error" in message else {"errorCode": message["code"], **frame}
            self.refusals.append(told["errorCode"] + ("" if told.get("retryable") else "!"))
            return
        result = message["result"]
        meta = result["_meta"]
        text = result["content"][0]["text"] if result["content"] else ""
        self.answers.append(
            (meta["mcphub/invocationId"], result.get("isError", False), text, "mcphub/duplicateOf" in meta)
        )


class Bearer(Protocol):
    """With what a client calls."""

    text: str

    async def renewed(self, text: str) -> bool:
        """Return whether there is another text since this one was refused."""


class Key:
    """A key, which is good from the first call to the last."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def renewed(self, text: str) -> bool:
        return False


class Lost(Exception):
    """The line broke before the answer came."""


_BROKEN = (httpx2.HTTPError, httpx2.StreamError, OSError, Lost, TimeoutError)


class Client:
    """Calls `count` with a new name each time, as fast as it is answered, until told to stop."""

    way = ""
    endpoint = "/mcp"
    """For which a token must be; empty where only keys are taken."""

    def __init__(self, label: str, url: str, key: str, stopping: asyncio.Event) -> None:
        self.url = url
        self.journal: list[Entry] = []
        self.troubles: list[str] = []
        self.label = label
        self.bearer: Bearer = Key(key)
        self._stopping = stopping
        self._ids = itertools.count(1)

    async def run(self) -> None:
        async with httpx2.AsyncClient(base_url=self.url, timeout=_PATIENCE_SECONDS) as http:
            self._http = http
            while not self._stopping.is_set():
                try:
                    async with self._line():
                        while not self._stopping.is_set():
                            await self._turn()
                except _BROKEN as trouble:
                    self.troubles.append(f"{type(trouble).__name__} {trouble}")
                    await asyncio.sleep(0.2)

    @contextlib.asynccontextmanager
    async def _line(self) -> AsyncIterator[None]:
        """Open what calls need, until it breaks."""
        yield

    async def _turn(self) -> None:
        entry = Entry(f"{self.label}-{len(self.journal)}", self.way)
        self.journal.append(entry)
        await self._call(entry)

    async def _call(self, entry: Entry) -> None:
        """Call, and give the entry what is answered; raise one of `_BROKEN` where nothing is."""
        raise NotImplementedError

    def _body(self, entry: Entry, **more: Any) -> dict[str, Any]:
        entry.attempts += 1
        entry.asked_at = time.monotonic()
        params = {"name": "count", "arguments": {"name": entry.name}, **more}
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": "tools/call", "params": params}

    @staticmethod
    def _hello(revision: str) -> dict[str, Any]:
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "rig", "version": "1"}}
        return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}

    async def _post(self, body: Any, path: str = "/mcp", **headers: str) -> httpx2.Response:
        """Post; what was refused because the token was replaced meanwhile ran nowhere, and is posted again."""
        while True:
            text = self.bearer.text
            sent = {**_BOTH, "Authorization": f"Bearer {text}", **headers}
            answer = await self._http.post(path, json=body, headers=sent)
            if answer.status_code != 401 or not await self.bearer.renewed(text):
                return answer

    async def _again_and_again(self, entry: Entry, body: Any, headers: dict[str, str]) -> None:
        """Where no answer comes ask again, as the hub promises that it may be done: it runs once."""
        while True:
            entry.asked_at = time.monotonic()
            try:
                answer = await self._post(body, **headers)
            except _BROKEN:
                if self._stopping.is_set():
                    raise
                await asyncio.sleep(0.1)
                continue
            entry.told(answer.json())
            if answer.status_code == 404:
                raise Lost
            if answer.status_code != 503 or self._stopping.is_set():
                return
            await asyncio.sleep(0.1)


class Stateless(Client):
    """A request that describes itself; what is not answered is given up."""

    way = "stateless"

    async def _call(self, entry: Entry) -> None:
        entry.told((await self._post(self._body(entry, _meta=_META), **_HEADERS)).json())


class Keyed(Client):
    """A request that describes itself, under an idempotency key."""

    way = "stateless, keyed"

    async def _call(self, entry: Entry) -> None:
        headers = {**_HEADERS, "Idempotency-Key": entry.name}
        await self._again_and_again(entry, self._body(entry, _meta=_META), headers)


class Session(Client):
    """A session of Streamable HTTP, which outlives the processes that serve it."""

    way = "session"

    @contextlib.asynccontextmanager
    async def _line(self) -> AsyncIterator[None]:
        answer = await self._post(self._hello(HANDSHAKE))
        if answer.status_code != 200:
            raise Lost
        self._headers = {"MCP-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": answer.headers["mcp-session-id"]}
        await self._post(_INITIALIZED, **self._headers)
        yield

    async def _call(self, entry: Entry) -> None:
        await self._again_and_again(entry, self._body(entry), self._headers)


class _Streamed(Client):
    """Posts, and hears the answer on a stream that ends with its process."""

    path = ""

    @contextlib.asynccontextmanager
    async def _line(self) -> AsyncIterator[None]:
        text = self.bearer.text
        headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {text}"}
        self._events: asyncio.Queue[tuple[str, str] | None] = asyncio.Queue()
        async with self._http.stream("GET", self.path, headers=headers, timeout=60) as answer:
            if answer.status_code == 401:
                await self.bearer.renewed(text)
            if answer.status_code != 200:
                raise Lost(f"{answer.status_code}")
            reader = asyncio.create_task(self._read(answer))
            try:
                await self._open()
                yield
            finally:
                reader.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await reader

    async def _read(self, answer: httpx2.Response) -> None:
        event = "message"
        try:
            async for line in answer.aiter_lines():
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if name == "event":
                    event = value
                elif name == "data":
                    self._events.put_nowait((event, value))
                    event = "message"
        except _BROKEN:
            pass
        finally:
            self._events.put_nowait(None)

    async def _hear(self) -> tuple[str, Any]:
        while True:
            told = await asyncio.wait_for(self._events.get(), _PATIENCE_SECONDS)
            if told is None:
                raise Lost
            if told[0] != "heartbeat":
                return told[0], told[1] if told[0] == "endpoint" else json.loads(told[1])

    async def _open(self) -> None:
        raise NotImplementedError

    async def _ask(self, path: str, body: Any, id: Any, entry: Entry | None = None) -> None:
        answer = await self._post(body, path)
        if answer.status_code != 202:
            if entry is not None:
                entry.told(answer.json())
            raise Lost
        while True:
            _, message = await self._hear()
            if message.get("id", message.get("requestId")) == id:
                break
        if entry is not None:
            entry.told(message)
        elif "error" in message:
            raise Lost


class EventStream(_Streamed):
    """HTTP+SSE of 2024-11-05."""

    way, path, endpoint = "sse", "/sse", "/sse"

    async def _open(self) -> None:
        _, self._endpoint = await self._hear()
        await self._ask(self._endpoint, self._hello(FIRST), 0)
        await self._post(_INITIALIZED, self._endpoint)

    async def _call(self, entry: Entry) -> None:
        body = self._body(entry)
        await self._ask(self._endpoint, body, body["id"], entry)


class Remote(_Streamed):
    """The remote profile."""

    way, path, endpoint = "remote", "/mcp/events", "/mcp/events"

    async def _open(self) -> None:
        _, ready = await self._hear()
        self._connection = ready["connectionId"]

    async def _call(self, entry: Entry) -> None:
        body = self._body(entry)
        await self._ask("/mcp/messages", {"connectionId": self._connection, "message": body}, body["id"], entry)


class Stdio(Client):
    """A process of its own on the hub's data, which may be killed like the hub."""

    way, endpoint = "stdio", ""
    environment: Mapping[str, str]
    """Of a hub; the key is added to it."""

    _process: asyncio.subprocess.Process | None = None

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    @contextlib.asynccontextmanager
    async def _line(self) -> AsyncIterator[None]:
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "mcphub.cli",
            "stdio",
            cwd=ROOT,
            start_new_session=True,
            env={**self.environment, "MCPHUB_API_KEY": self.bearer.text},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            if "error" in await self._ask(self._hello(HANDSHAKE)):
                raise Lost  # the database was away; whoever goes on all the same is refused for good
            self._say(_INITIALIZED)
            yield
            assert process.stdin is not None
            process.stdin.close()
            await asyncio.wait_for(process.wait(), _PATIENCE_SECONDS)
        finally:
            self.kill()
            await process.wait()

    def _say(self, message: Any) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _ask(self, message: Any) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        self._say(message)
        while True:
            line = await asyncio.wait_for(self._process.stdout.readline(), 60)
            if not line.endswith(b"\n"):
                raise Lost
            answer = json.loads(line)
            if answer.get("id") == message["id"]:
                return answer

    async def _call(self, entry: Entry) -> None:
        entry.told(await self._ask(self._body(entry)))


_ROUND: list[type[Client]] = [Session, Stateless, EventStream, Keyed, Session, Remote, Stateless, Stdio]


def crowd(
    count: int, url: str, key: str, stopping: asyncio.Event, environment: Mapping[str, str], label: str = "c"
) -> list[Client]:
    """Return clients over all transports, one in eight over stdio. Their calls are named after `label`."""
    clients = [_ROUND[number % len(_ROUND)](f"{label}{number}", url, key, stopping) for number in range(count)]
    for client in clients:
        if isinstance(client, Stdio):
            client.environment = environment
    return clients
