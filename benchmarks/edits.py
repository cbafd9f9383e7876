"""How soon an operator's edit reaches who listens: from its commit to the arrival, for every kind of listener.

Two hubs over one database stand for two workers, so that each is known to have its listeners.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks import wire
from benchmarks.calls import READ_ONLY, Place, a_database, reachable
from benchmarks.environments import ROOT
from benchmarks.measuring import Bench, say
from benchmarks.servers import HubPlace, environment, hub

GOAL_MS = 250
_EVENT = b"notifications/tools/list_changed"
_EACH = 2
"""Listeners of a kind for each hub."""
_PATIENCE_SECONDS = 20
_LONGEST_PAUSE_SECONDS = 0.2
"""Between two edits, by chance: so that they meet every moment between two polls."""

OPERATOR = """
import sys, time
from django.db import transaction
from tools_catalog.models import McpToolDefinition as T
for line in sys.stdin:
    with transaction.atomic():
        T.objects.filter(name={tool!r}).set_enabled(line.strip() == "on")
        transaction.on_commit(lambda: print(time.time(), flush=True))
"""


@dataclass
class Listener:
    kind: str
    seconds: list[float] = field(default_factory=list)
    """From each edit's commit to its news."""
    told: asyncio.Event = field(default_factory=asyncio.Event)
    at: float = 0.0

    async def follow(self, chunks: AsyncIterator[bytes]) -> None:
        tail = b""
        async for chunk in chunks:
            tail = tail[-len(_EVENT) :] + chunk
            if _EVENT in tail:
                tail = b""
                if not self.told.is_set():
                    self.at = time.time()
                    self.told.set()


class Crowd:
    """Listeners of every kind. Enter it: all listen."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self._following: list[asyncio.Task[None]] = []
        self._open: list[asyncio.StreamWriter] = []
        self._programs: list[asyncio.subprocess.Process] = []

    async def attach(self, port: int, key: str) -> None:
        """Listen to a hub: by a GET stream, HTTP+SSE, a subscription, the remote profile."""
        for number in range(_EACH):
            session = (await self._asked(port, wire.initialize(port, key)))["mcp-session-id"]
            await self._asked(port, wire.initialized(port, key, session))
            await self._stream("GET stream", port, wire.listen(port, key, session))
            await self._stream("subscription", port, wire.subscribe(port, key, number))
            await self._stream("remote profile", port, wire.get(port, key, "/mcp/events"), until=b"event: ready")
            head = await self._stream("HTTP+SSE", port, wire.get(port, key, "/sse"), until=b"event: endpoint")
            path = head.partition(b"data: ")[2].partition(b"\n")[0].strip().decode()
            for request in (wire.initialize(port, key, path), wire.initialized(port, key, "", path)):
                await self._asked(port, request)

    async def start(self, command: Sequence[str], variables: Mapping[str, str]) -> None:
        """Listen over stdio, in both eras."""
        hello = wire.body_of(wire.initialize(0, ""))
        for kind, first in (("stdio", hello), ("stdio, stateless", wire.body_of(wire.subscribe(0, "", 1)))):
            program = await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=ROOT,
                env=variables,
            )
            self._programs.append(program)
            assert program.stdin is not None
            assert program.stdout is not None
            program.stdin.write(first + b"\n")
            await asyncio.wait_for(program.stdout.readline(), 3 * _PATIENCE_SECONDS)
            if kind == "stdio":
                program.stdin.write(wire.body_of(wire.initialized(0, "", "")) + b"\n")
            self._follow(kind, program.stdout)

    async def hear(self, committed: float) -> None:
        """Wait until all were told of an edit; note how long it took each."""
        everybody = asyncio.gather(*(each.told.wait() for each in self.listeners))
        try:
            await asyncio.wait_for(everybody, _PATIENCE_SECONDS)
        except TimeoutError:
            deaf = sorted({each.kind for each in self.listeners if not each.told.is_set()})
            raise TimeoutError(f"not told within {_PATIENCE_SECONDS} s: {', '.join(deaf)}") from None
        for each in self.listeners:
            each.seconds.append(max(0.0, each.at - committed))

    def expect(self) -> None:
        for each in self.listeners:
            each.told.clear()

    async def close(self) -> None:
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
        for writer in self._open:
            writer.close()
        for program in self._programs:
            with contextlib.suppress(ProcessLookupError):
                program.kill()
            await program.wait()

    async def _stream(self, kind: str, port: int, request: bytes, until: bytes = b"\r\n\r\n") -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        self._open.append(writer)
        writer.write(request)
        head = b""
        while until not in head or not head.endswith(b"\n"):
            head += await asyncio.wait_for(reader.read(65536), _PATIENCE_SECONDS)
            if reader.at_eof() or not head.startswith(b"HTTP/1.1 200"):
                raise ConnectionError(f"{kind}: {head[:300]!r}")
        self._follow(kind, reader)
        return head

    def _follow(self, kind: str, reader: asyncio.StreamReader) -> None:
        async def chunks() -> AsyncIterator[bytes]:
            while chunk := await reader.read(65536):
                yield chunk

        listener = Listener(kind)
        self.listeners.append(listener)
        self._following.append(asyncio.create_task(listener.follow(chunks())))

    async def _asked(self, port: int, request: bytes) -> dict[str, str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _PATIENCE_SECONDS)
        writer.close()
        if head[9:12] not in (b"200", b"202"):
            raise ConnectionError(repr(head[:300]))
        return wire.headers_of(head)


async def measure(
    hubs: Sequence[tuple[int, str]], command: Sequence[str], variables: Mapping[str, str], tool: str, edits: int
) -> dict[str, list[float]]:
    """Return the milliseconds from each of so many edits to each listener, by the kind of listener.

    `hubs` are ports and keys, `command` and `variables` how an `mcphub` command runs on their data, `tool` is what is
    switched off and on. Raises OSError for a hub that refuses, TimeoutError where the news does not come.
    """
    crowd = Crowd()
    operator = await asyncio.create_subprocess_exec(
        *command,
        "shell",
        "--no-imports",
        "-c",
        OPERATOR.format(tool=tool),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=variables,
    )
    assert operator.stdin is not None
    assert operator.stdout is not None
    try:
        for port, key in hubs:
            await crowd.attach(port, key)
        await crowd.start([*command, "stdio"], {**variables, "MCPHUB_API_KEY": hubs[0][1]})
        for number in range(edits + 1):
            crowd.expect()
            operator.stdin.write(b"on\n" if number % 2 else b"off\n")
            committed = float(await asyncio.wait_for(operator.stdout.readline(), 3 * _PATIENCE_SECONDS))
            await crowd.hear(committed)
            if not number:  # the streams were just opened
                for each in crowd.listeners:
                    each.seconds.clear()
            await asyncio.sleep(random.uniform(0.05, _LONGEST_PAUSE_SECONDS))
    finally:
        operator.kill()
        await operator.wait()
        await crowd.close()
    found: dict[str, list[float]] = {}
    for each in crowd.listeners:
        found.setdefault(each.kind, []).extend(seconds * 1000 for seconds in each.seconds)
    return found


def quantile(values: Sequence[float], share: float) -> float:
    """Nearest rank."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def in_words(values: Sequence[float]) -> str:
    return f"p50 {quantile(values, 0.5):.0f}, p99 {quantile(values, 0.99):.0f}, max {max(values):.0f} ms"


def edits(bench: Bench, place: Place) -> None:
    """An edit's way to every kind of listener, with two workers, on both databases."""
    rounds = 20 * bench.rounds
    _one(bench, "SQLite", place.hub("sqlite-edits"), rounds)
    if why := reachable(place.postgres):
        bench.notes.append(f"edits on PostgreSQL were left out, as none is reachable: {why}")
        return
    with a_database(place) as database:
        _one(bench, "PostgreSQL", place.hub("postgres-edits", database=database), rounds)


def _one(bench: Bench, name: str, where: HubPlace, rounds: int) -> None:
    command = [str(where.python), "-m", "mcphub.cli"]
    variables = environment(where.variables())
    with hub("first", where, pinned=False) as first, hub("second", where, pinned=False) as second:
        hubs = [(first.port, where.key), (second.port, where.key)]
        found = asyncio.run(measure(hubs, command, variables, READ_ONLY, rounds))
    say(f"\nedits, {name}:")
    for kind, values in found.items():
        bench.figures.append({"part": "edits", "database": name, "listener": kind, "ms": [round(v, 1) for v in values]})
        what = f"edit to {kind}, {name}, p99 of {len(values)}"
        bench.limit("edits", what, [quantile(values, 0.99)], GOAL_MS, "ms", in_words(values))
