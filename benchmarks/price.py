"""The price of a call: how many bytecodes Python runs for one, in how many frames, on the event loop's thread.

    python -m benchmarks.price [--update] [--functions CALL]

The application is driven in this process, without HTTP, after calls that warm it up. A frame is counted each time it is
entered, so a coroutine counts again after each wait. Of several calls the cheapest is taken: a busy machine makes a
call wait more often, never less, so the figures hold on every machine with the same version of Python.

- *recorded*: `tools/call` of a stateless client, of a tool that is not read-only: intent and outcome are committed.
- *read-only*: the same of a tool that only reads: the outcome alone is committed.
- *refused*: the same with arguments that break the tool's schema.
- *proxied*: the same of a read-only tool of an upstream over Streamable HTTP.

`benchmarks/price.json` holds them for the version of Python that is named there. `make price` compares: what is two per
cent (proxied: six) away from the table has to be looked at, and written down with `--update`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from benchmarks import wire
from benchmarks.environments import ROOT
from benchmarks.profile_call import Application, Exchange, module_of
from benchmarks.proxied import CONNECT
from benchmarks.servers import HubPlace, peer

TABLE = ROOT / "benchmarks" / "price.json"
TOLERANCE = 0.02
_OF_PROXIED = 0.06
"""A coroutine is entered once for each piece in which an upstream's answer comes."""
_WARM = 60
_COUNTED = 15
_PATIENCE_SECONDS = 60
_HARNESS = f"{ROOT / 'benchmarks'}{os.sep}"

Price = tuple[int, int]
"""Bytecodes and frames."""


class Meter:
    """Counts what this thread runs while it is on."""

    def __init__(self) -> None:
        self.bytecodes: Counter[CodeType] = Counter()
        self.frames: Counter[CodeType] = Counter()

    def _entered(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if frame.f_code.co_filename.startswith(_HARNESS):
            return None
        self.frames[frame.f_code] += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._ran

    def _ran(self, frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        if event == "opcode":
            self.bytecodes[frame.f_code] += 1
        return self._ran

    async def of(self, journey: Callable[[], Awaitable[None]]) -> tuple[Counter[CodeType], Counter[CodeType]]:
        """Return bytecodes and frames of one journey, by function."""
        self.bytecodes, self.frames = Counter(), Counter()
        sys.settrace(self._entered)
        try:
            await asyncio.create_task(journey())  # type: ignore[arg-type]
        finally:
            sys.settrace(None)
        return self.bytecodes, self.frames


class Client:
    """Sends one request after the other, each made before it is counted."""

    def __init__(self, application: Application, key: str) -> None:
        self._application = application
        self._key = key
        self._number = 10_000_000

    def request(self, tool: str, answer: bytes, sent: bytes = b'"a":20') -> Callable[[], Awaitable[None]]:
        """Return the sending of a request, which fails where the answer does not have these words."""
        self._number += 1
        raw = wire.request(8000, self._key, "tools/call", tool, self._number)
        exchange = Exchange(raw.replace(b'"a":20', sent))

        async def send() -> None:
            await self._application(exchange.scope, exchange.receive, exchange.send)
            if answer not in exchange.answer:
                raise SystemExit(f"A wrong answer: {exchange.answer!r}")

        return send


async def measure(key: str, functions: str) -> dict[str, Price]:
    from mcphub.asgi import application  # sets Django up, so it comes first

    runtime = import_module("mcphub.process.runtime")
    hub = await runtime.ensure()
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while "up_add" not in hub.configuration.catalog.tools:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    client, meter = Client(application, key), Meter()
    found: dict[str, Price] = {}
    for name, asked in {
        "recorded": ("add_recorded", b'"result":42'),
        "read-only": ("add", b'"result":42'),
        "refused": ("add_recorded", b"must be number", b'"a":{}'),
        "proxied": ("up_add", b'"result":42'),
    }.items():
        for _ in range(_WARM):
            await client.request(*asked)()
        counted = [await meter.of(client.request(*asked)) for _ in range(_COUNTED)]
        bytecodes = [bytecodes.total() for bytecodes, _ in counted]
        frames = [frames.total() for _, frames in counted]
        found[name] = (min(bytecodes), min(frames))
        if functions == name:
            cheapest = min(counted, key=lambda pair: pair[0].total())
            for code, count in cheapest[0].most_common():
                place = f"{module_of(code.co_filename, '')}:{code.co_firstlineno} {code.co_qualname}"
                print(f"  {count:>6} bytecodes {cheapest[1][code]:>4} frames  {place}")
    await runtime.stop()
    return found


def differences(table: dict[str, Any], found: dict[str, Price]) -> list[str]:
    """Return what is further from the table than the tolerance, as sentences."""
    words = []
    for name, price in found.items():
        tolerance = _OF_PROXIED if name == "proxied" else TOLERANCE
        for unit, now, was in zip(("bytecodes", "frames"), price, table[name], strict=True):
            if abs(now - was) > max(1, was * tolerance):
                words.append(f"A {name} call takes {now} {unit}; the table has {was}.")
    return words


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.price", description="Count bytecodes and frames of a call.")
    parser.add_argument("--update", action="store_true", help="write what was counted into the table")
    parser.add_argument(
        "--functions", metavar="CALL", default="", help="print the functions of a call, such as recorded"
    )
    options = parser.parse_args()
    version = ".".join(map(str, sys.version_info[:2]))
    kept = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    if kept and kept["python"] != version and not options.update:
        print(f"The table is of Python {kept['python']}; this is {version}. Nothing to compare.")
        return
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="mcphub-price-")))
        upstream = running.enter_context(peer("upstream", Path(sys.executable), "sdk.py", folder))
        place = HubPlace(Path(sys.executable), folder / "data")
        place.settings = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1", "MCPHUB_LIMITS": "seal_seconds=0"}
        place.furnish()
        place.command("shell", "-c", CONNECT.format(url=f"http://127.0.0.1:{upstream.port}/mcp"))
        for name in [name for name in os.environ if name.startswith("MCPHUB_")]:
            del os.environ[name]
        os.environ.update(place.variables())
        os.environ["DJANGO_SETTINGS_MODULE"] = "mcphub.settings"
        uvloop = import_module("uvloop")
        found = uvloop.run(measure(place.key, options.functions))
    for name, (bytecodes, frames) in found.items():
        print(f"{name:<10} {bytecodes:>6} bytecodes in {frames:>4} frames")
    if options.update:
        TABLE.write_text(json.dumps({"python": version, **found}, indent=1) + "\n")
    elif words := differences(kept, found):
        print(*words, "Say why it is worth it, and write it down: python -m benchmarks.price --update", sep="\n")
        raise SystemExit(1)


if __name__ == "__main__":
    main()
