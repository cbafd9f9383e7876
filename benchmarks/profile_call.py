"""Where the time of one tools/call goes inside the hub: the application driven in this process, without HTTP.

    python -m benchmarks.profile_call [--calls 5000] [--clients 32] [--era stateless|handshake] [--lines 30]
                                      [--upstream URL]

For the read-only and for the recorded tool it prints the microseconds per call without a profiler, then, from
cProfile, the functions of the event loop's thread by their own time. The profiler makes Python code look two
to three times as slow as it is, and C code not: read the second table for shares, the first for amounts. The
ledger's thread is told by its processor time alone.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import os
import pstats
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import uvloop

from benchmarks import wire
from benchmarks.environments import ROOT
from benchmarks.proxied import CONNECT
from benchmarks.servers import HubPlace

_PORT = 8000
_FIRST_ID = 10_000_000
TOOLS = {"read-only": "add", "recorded": "add_recorded"}

Application = Callable[[Any, Any, Any], Awaitable[None]]


class Exchange:
    """One HTTP request as uvicorn would hand it on."""

    __slots__ = ("_body", "answer", "headers", "scope", "status")

    def __init__(self, raw: bytes, path: str = "/mcp") -> None:
        head, _, self._body = raw.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        fields = (line.partition(b": ") for line in lines)
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": first.split()[0].decode(),
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "server": ("127.0.0.1", _PORT),
            "client": ("127.0.0.1", 50000),
            "headers": [(name.lower(), value) for name, _, value in fields],
            "state": {},
        }
        self.status = 0
        self.answer = b""
        self.headers: list[tuple[bytes, bytes]] = []

    async def receive(self) -> dict[str, Any]:
        if self._body is None:
            await asyncio.Event().wait()  # the client stays
        body, self._body = self._body, None  # type: ignore[assignment]
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message["headers"]
        else:
            self.answer += message["body"]


class Driver:
    """Clients that call one after the other, without a network."""

    def __init__(self, application: Application, key: str, era: str) -> None:
        self.application = application
        self.key = key
        self.era = era
        self._next_id = _FIRST_ID

    async def calls(self, tool: str, calls: int, clients: int) -> None:
        """Make so many calls with so many clients at once."""
        sessions = [await self._session() if self.era == "handshake" else "" for _ in range(clients)]
        await asyncio.gather(*(self._client(tool, calls // clients, session) for session in sessions))

    async def _client(self, tool: str, calls: int, session: str) -> None:
        raw = wire.request(_PORT, self.key, "tools/call", tool, _FIRST_ID, session)
        head, _, tail = raw.partition(b"%d" % _FIRST_ID)
        for _ in range(calls):
            self._next_id += 1
            exchange = await self._send(b"%s%d%s" % (head, self._next_id, tail), 200)
            if b'"structuredContent":{"result":42}' not in exchange.answer:
                raise SystemExit(f"A wrong answer: {exchange.answer!r}")

    async def _session(self) -> str:
        exchange = await self._send(wire.initialize(_PORT, self.key), 200)
        session = dict(exchange.headers)[b"mcp-session-id"].decode()
        await self._send(wire.initialized(_PORT, self.key, session), 202)
        return session

    async def _send(self, raw: bytes, status: int) -> Exchange:
        exchange = Exchange(raw)
        await self.application(exchange.scope, exchange.receive, exchange.send)
        if exchange.status != status:
            raise SystemExit(f"Status {exchange.status}: {exchange.answer!r}")
        return exchange


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    """What the harness itself costs."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b'{"result":{"structuredContent":{"result":42}}}'})


async def profile(options: argparse.Namespace, key: str) -> None:
    from mcphub.asgi import application  # sets Django up, so it comes first

    runtime = import_module("mcphub.process.runtime")
    hub = await runtime.ensure()
    loop_thread = threading.get_native_id()
    ledger = next(thread.native_id for thread in threading.enumerate() if thread.name == "mcphub-ledger")
    assert ledger is not None
    driver = Driver(application, key, options.era)
    harness = await _timed(Driver(_nothing, key, "stateless"), "add", options, loop_thread, ledger)
    print(f"{options.era}, {options.clients} clients, {options.calls} calls; Python {sys.version.split()[0]}")
    print(f"The harness itself: {harness[0]:.0f} µs a call, contained in what follows.\n")
    tools = {"proxied": "up_add"} if options.upstream else TOOLS
    while options.upstream and "up_add" not in hub.configuration.catalog.tools:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    for kind, tool in tools.items():
        await driver.calls(tool, max(500, options.clients), options.clients)
        wall, loop_cpu, ledger_cpu = await _timed(driver, tool, options, loop_thread, ledger)
        print(
            f"{kind}: {wall:.0f} µs a call; processor time {loop_cpu:.0f} µs on the event loop, "
            f"{ledger_cpu:.0f} µs on the ledger's thread"
        )
        profiler = cProfile.Profile()
        profiler.enable()
        await driver.calls(tool, options.calls, options.clients)
        profiler.disable()
        _print(profiler, options.calls, options.lines)
    await runtime.stop()


async def _timed(driver: Driver, tool: str, options: argparse.Namespace, *threads: int) -> tuple[float, float, float]:
    """Return microseconds a call: of the clock, and of the processor for each of two threads."""
    before = [_thread_seconds(thread) for thread in threads]
    begun = time.perf_counter()
    await driver.calls(tool, options.calls, options.clients)
    wall = time.perf_counter() - begun
    used = [_thread_seconds(thread) - start for thread, start in zip(threads, before, strict=True)]
    scale = 1e6 / options.calls
    return wall * scale, used[0] * scale, used[1] * scale


def _thread_seconds(thread: int) -> float:
    """Processor time of one thread, to the nanosecond (schedstat), not to the tick."""
    return int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[0]) / 1e9


def _print(profiler: cProfile.Profile, calls: int, lines: int) -> None:
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    total = sum(own for _, _, own, _, _ in stats.values())
    modules: Counter[str] = Counter()
    for (file, _, name), (_, _, own, _, _) in stats.items():
        modules[module_of(file, name)] += own
    print(f"  under the profiler {total / calls * 1e6:.0f} µs a call; by module:")
    for module, own in modules.most_common(14):
        print(f"    {own / total:>6.1%} {own / calls * 1e6:>7.1f} µs  {module}")
    print("  by function, own time:")
    print("     share      own     with   times a call")
    ordered = sorted(stats.items(), key=lambda item: -item[1][2])
    for (file, line, name), (_, count, own, cumulative, _) in ordered[:lines]:
        where = name if file == "~" else f"{module_of(file, name)}:{line} {name}"
        print(
            f"    {own / total:>6.1%} {own / calls * 1e6:>6.1f} µs {cumulative / calls * 1e6:>5.0f} µs "
            f"{count / calls:>6.1f}  {where}"
        )
    print()


def module_of(file: str, name: str) -> str:
    if file == "~":
        return "(C)"
    path = Path(file)
    if path.is_relative_to(ROOT) and "site-packages" not in path.parts:
        return str(path.relative_to(ROOT))
    parts = path.parts
    if "site-packages" in parts:
        return "/".join(parts[parts.index("site-packages") + 1 :])
    return f"python: {path.name}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.profile_call", description="Profile the call path.")
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--era", choices=["stateless", "handshake"], default="stateless")
    parser.add_argument("--lines", type=int, default=30)
    parser.add_argument("--upstream", metavar="URL")
    options = parser.parse_args()
    options.calls -= options.calls % options.clients
    with tempfile.TemporaryDirectory(prefix="mcphub-profile-") as folder:
        place = HubPlace(Path(sys.executable), Path(folder) / "data")
        place.furnish()
        if options.upstream:
            place.settings = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
            place.command("shell", "-c", CONNECT.format(url=options.upstream))
        for name in [name for name in os.environ if name.startswith("MCPHUB_")]:
            del os.environ[name]
        os.environ.update(place.variables())
        os.environ["DJANGO_SETTINGS_MODULE"] = "mcphub.settings"
        uvloop.run(profile(options, place.key))


if __name__ == "__main__":
    main()
