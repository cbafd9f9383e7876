"""Upstreams that misbehave in every way over every transport, and what an upstream beside them notices of it.

    python -m tests.rigs.neighbours [--seconds 2] [--rounds 3] [--rate 50]

Calls of a good upstream are timed, one after the other, in three states in turn: alone; while the bad upstream is
called and behaves; while it is called and does not. It is called by one caller, at most so many times a second, for a
hub that shares its cores with whoever calls without a pause tells of cores and not of upstreams. Printed for each
way: how the bad calls ended, the longest of them, the p99 of the good calls against both other states, over all
rounds, and how much the hub's memory grew. Complaints: a call that ended later than a second after its deadline, an
answer that is no mapped error, a call without a row, memory that grew by more than 50 MiB.
The bad upstream takes only the processor time that nobody else wants: what it writes is its own machine's work
elsewhere, and what the hub does about it is what this measures.
The figures of p99 are printed and not judged: they need a quiet machine. `behaves` among the ways is the measure's own
error: there the second state is compared with itself.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import httpx2

from tests import operations
from tests.servers import Hub, until
from tests.upstreams.conftest import PEERS, Operator, Peer
from tests.upstreams.misbehaviour import KINDS, LIMITS, SECONDS
from tests.wire.speech import BOTH, META, MODERN, Speaker

_MOST_GROWTH_MIB = 50
_RECOVERS_SECONDS = 70
"""The longest pause of an upstream that failed, and its new start."""
_BEHAVES = "behaves"
_YIELDS = "--yields"
_PAUSED = "connection_failed"
"""Of a bad upstream that is left alone for a while: nothing was sent."""


class Rig:
    def __init__(self, hub: Hub, rate: float) -> None:
        self.hub = hub
        self.rate = rate
        self.shares: list[list[float]] = []
        self.complaints: list[str] = []
        self.sent: Counter[str] = Counter()
        headers = {"authorization": f"Bearer {hub.key}", "accept": BOTH}
        self.http = httpx2.AsyncClient(base_url=hub.url, headers=headers, timeout=60)

    async def call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, float]:
        """Return how a call ended, and after how many seconds."""
        meta = {
            f"{META}protocolVersion": MODERN,
            f"{META}clientCapabilities": {},
            f"{META}clientInfo": {"name": "neighbours", "version": "1"},
        }
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments, "_meta": meta},
        }
        headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": tool}
        began = time.monotonic()
        answer = (await self.http.post("/mcp", json=body, headers=headers)).json()
        took = time.monotonic() - began
        self.sent[tool] += 1
        result = answer.get("result")
        if result is not None and not result.get("isError"):
            return "ok", took
        data = (answer.get("error") or {}).get("data") or result["_meta"]["mcphub/error"]
        return str(data["errorCode"]), took

    async def good(self, seconds: float) -> list[float]:
        """Return how long each call of the good upstream took, one after the other."""
        took, ends = [], time.monotonic() + seconds
        while time.monotonic() < ends:
            ended, one = await self.call("good.echo", {"text": "untouched"})
            if ended != "ok":
                self.complaints.append(f"a call of the good upstream ended in {ended}")
            took.append(one)
        return took

    async def beside(self, tool: str, arguments: dict[str, Any], found: list[tuple[str, float]]) -> None:
        while True:
            began = time.monotonic()
            ended, took = await self.call(tool, arguments)
            found.append((ended, took))
            await asyncio.sleep(max(0.0, began + 1 / self.rate - time.monotonic()))

    async def good_beside(self, seconds: float, tool: str, arguments: dict[str, Any], found: list[Any]) -> list[float]:
        other = asyncio.create_task(self.beside(tool, arguments, found))
        took = await self.good(seconds)
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)
        return took

    async def measure(self, kind: str, mode: str, seconds: float, rounds: int) -> None:
        before = self.hub.resident_mib()
        ends: list[tuple[str, float]] = []
        alone: list[float] = []
        behaving: list[float] = []
        misbehaving: list[float] = []
        for _ in range(rounds):
            await self.recovered(kind)
            alone += await self.good(seconds)
            behaving += await self.good_beside(seconds, f"{kind}.echo", {"text": "a"}, [])
            bad = (f"{kind}.echo", {"text": "a"}) if mode == _BEHAVES else (f"{kind}.be", {"mode": mode})
            misbehaving += await self.good_beside(max(seconds, SECONDS + 1), *bad, ends)
        grown = self.hub.resident_mib() - before
        longest = max((took for _, took in ends), default=0.0)
        words = " ".join(f"{ended}={count}" for ended, count in Counter(ended for ended, _ in ends).most_common())
        shares = [_p99(misbehaving) / _p99(other) for other in (behaving, alone)]
        self.shares.append(shares)
        moved = f"p99 x {shares[0]:5.2f} {shares[1]:5.2f}"
        print(f"{kind:<12}{mode:<22}{moved}  {grown:+6.0f} MiB  longest {longest:4.1f} s  {words}", flush=True)
        where = f"{kind} {mode}"
        if longest > SECONDS + 1:
            self.complaints.append(f"{where}: a call ended {longest - SECONDS:.1f} s after its deadline")
        if grown > _MOST_GROWTH_MIB:
            self.complaints.append(f"{where}: the hub grew by {grown:.0f} MiB")
        if wrong := {ended for ended, _ in ends} - KINDS[kind].get(mode, {"ok"}) - {_PAUSED}:
            self.complaints.append(f"{where}: a call ended in {', '.join(sorted(wrong))}")

    async def recovered(self, kind: str) -> None:
        """Wait until the bad upstream is asked again, so that each way to misbehave is seen."""
        ends = time.monotonic() + _RECOVERS_SECONDS
        while (await self.call(f"{kind}.echo", {}))[0] != "ok":
            if time.monotonic() > ends:
                self.complaints.append(f"{kind} was not asked again within {_RECOVERS_SECONDS} s")
                return
            await asyncio.sleep(0.1)

    def rows(self) -> None:
        """Compare what was sent with what is on record; what a test ended in the midst may be there beyond."""
        for tool, count in self.sent.items():
            found = self.hub.operate(operations.count, "invocations.McpToolInvocation", tool_name=tool)
            if found < count:
                self.complaints.append(f"{tool}: {count} calls were answered, {found} are on record")


async def run(hub: Hub, options: argparse.Namespace) -> list[str]:
    rig = Rig(hub, options.rate)
    await rig.good(options.seconds)  # what the first calls import and open stays
    for kind, modes in KINDS.items():
        for mode in (_BEHAVES, *modes):
            if not options.only or mode in options.only or kind in options.only or f"{kind}:{mode}" in options.only:
                await rig.measure(kind, mode, options.seconds, options.rounds)
    await rig.http.aclose()
    for words, found in zip(("a behaving one", "none"), zip(*rig.shares, strict=True), strict=True):
        print(
            f"beside a bad upstream instead of {words}: p99 x {median(found):.2f} in the middle, "
            f"{max(found):.2f} at most, {sum(share >= 1.2 for share in found)} of {len(found)} ways at 1.2 or more"
        )
    rig.rows()
    return rig.complaints


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what misbehaving upstreams do to calls of a good one.")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=50.0, help="calls a second of the upstream beside, at most")
    parser.add_argument(
        "--only", action="append", help="a way to misbehave, a connection, or both as KIND:WAY; may be repeated"
    )
    options = parser.parse_args()
    profile = {"name": "chaos", "command": sys.executable, "arguments": [str(PEERS / "chaos.py"), "stdio", _YIELDS]}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="neighbours-")))
        hub = stack.enter_context(Hub(folder, environment={"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}))
        operator = Operator(hub)
        for slug, words in (("bad_http", "http"), ("bad_modern", "modern"), ("bad_sse", "sse")):
            peer = stack.enter_context(Peer("chaos.py", words, _YIELDS, path="/sse" if words == "sse" else "/mcp"))
            operator.connect(slug, url=peer.url, transport="sse" if words == "sse" else "streamable-http", **LIMITS)
        operator.connect("bad_stdio", transport="stdio", profile=profile, **LIMITS)
        operator.connect("good", url=stack.enter_context(Peer("sdk_v2.py", "http")).url)
        operator.limit("bad_", SECONDS)
        with Speaker(hub.url, hub.key) as speaker:
            names = [f"{kind}.be" for kind in KINDS] + ["good.echo"]
            until(lambda: all(name in speaker.modern("tools/list").text for name in names), 60)
        complaints = asyncio.run(run(hub, options))
    for complaint in complaints:
        print(f"✗ {complaint}", file=sys.stderr)
    return 1 if complaints else 0


def _p99(seconds: list[float]) -> float:
    return sorted(seconds)[max(0, int(len(seconds) * 0.99) - 1)]


if __name__ == "__main__":
    sys.exit(main())
