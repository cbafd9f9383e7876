"""Many GET streams, each of a session of its own. Speaks lines of JSON with the program that started it.

in   {"port", "key", "stages": [1000, 9000]}
out  {"open": 1000}, {"open": 9000}                  after each stage, then it waits for a line
out  {"told": 9000, "first": …, "last": …}           times of day at which one event arrived
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import uvloop

from benchmarks import wire

_EVENT = b"notifications/tools/list_changed"
_OPENERS = 128
_PATIENCE_SECONDS = 60


class Listener(asyncio.Protocol):
    """One connection that asked for a stream."""

    def __init__(self, crowd: Crowd, request: bytes) -> None:
        self.crowd = crowd
        self.request = request
        self.buffer = b""
        self.is_told = False
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(self.request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.begun.done():
            if b"\r\n\r\n" not in self.buffer:
                return
            if self.buffer.startswith(b"HTTP/1.1 200"):
                self.begun.set_result(None)
            else:
                self.begun.set_exception(ValueError(repr(self.buffer[:300])))
        if not self.is_told and _EVENT in self.buffer:
            self.is_told = True
            self.crowd.times.append(time.time())
            if len(self.crowd.times) == self.crowd.streams:
                self.crowd.all_told.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.begun.done():
            self.begun.set_exception(ConnectionError("The server closed a stream."))
        self.crowd.lost += 1


class Crowd:
    """All streams of this program."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.port, self.key = job["port"], job["key"]
        self.streams = 0
        self.lost = 0
        self.times: list[float] = []
        self.all_told = asyncio.Event()

    async def grow(self, more: int, *, with_session: bool) -> None:
        left = iter(range(more))
        opener = self._open_sessions if with_session else self._subscribe
        await asyncio.gather(*(opener(left) for _ in range(min(_OPENERS, max(more, 1)))))
        self.streams += more

    async def _open_sessions(self, left: Iterator[int]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        for _ in left:
            writer.write(wire.initialize(self.port, self.key))
            session = (await self._answer(reader))["mcp-session-id"]
            writer.write(wire.initialized(self.port, self.key, session))
            await self._answer(reader)
            await self._listen(wire.listen(self.port, self.key, session))
        writer.close()

    async def _subscribe(self, left: Iterator[int]) -> None:
        for number in left:
            await self._listen(wire.subscribe(self.port, self.key, number))

    async def _listen(self, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        _, listener = await loop.create_connection(lambda: Listener(self, request), "127.0.0.1", self.port)
        await asyncio.wait_for(listener.begun, _PATIENCE_SECONDS)

    @staticmethod
    async def _answer(reader: asyncio.StreamReader) -> dict[str, str]:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _PATIENCE_SECONDS)
        headers = wire.headers_of(head)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if head[9:12] not in (b"200", b"202"):
            raise ValueError(repr(head[:100] + body[:300]))
        return headers


async def main() -> None:
    loop = asyncio.get_running_loop()
    job = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    crowd = Crowd(job)
    try:
        for kind in ("sessions", "subscriptions"):
            begun = time.perf_counter()
            await crowd.grow(job[kind], with_session=kind == "sessions")
            _tell({"open": crowd.streams, "seconds": time.perf_counter() - begun})
            await loop.run_in_executor(None, sys.stdin.readline)
        await asyncio.wait_for(crowd.all_told.wait(), _PATIENCE_SECONDS)
    except TimeoutError:
        _tell({"error": f"{len(crowd.times)} of {crowd.streams} streams were told, {crowd.lost} were lost"})
    except (OSError, ValueError, LookupError, EOFError) as error:
        _tell({"error": f"{type(error).__name__}: {error}"})
    else:
        _tell({"told": len(crowd.times), "first": min(crowd.times), "last": max(crowd.times)})
    os._exit(0)  # thousands of connections need no goodbye


def _tell(words: dict[str, Any]) -> None:
    print(json.dumps(words), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
