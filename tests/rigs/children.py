"""Children of stdio upstreams, started and stopped and killed again and again: nothing of them stays.

    python -m tests.rigs.children [--cycles 1000] [--kills 300]

A connection of the hub's own is driven in this process, without a hub around it: it is opened, called and ended in
each cycle; under the kills it stays, and its child is killed at a moment of chance, half of the time within a call.
Afterwards there is no child, no zombie, and there are no more open files and threads than before.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sessions_app.protocol import errors
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.call.context import CallInfo, ToolContextParts
from tools_catalog.upstream.connection import Connection
from tools_catalog.upstream.link import Approval, ConnectionEnvironment, Offer
from tools_catalog.upstream.spec import ConnectionSpec, LaunchSpec

PEER = Path(__file__).parents[1] / "upstreams" / "peers" / "chaos.py"
ECHO = Offer("tool", "echo", Approval("", "", trusts=True))
BE = Offer("tool", "be", Approval("", "", trusts=True))
FOLDER = tempfile.mkdtemp(prefix="mcphub-rig-")


CONTEXT = ToolContextParts(
    call=CallInfo(
        invocation_id="rig", tool_name="rig", caller_label="rig", caller_principal="key:rig", client_capabilities={}
    )
)
"""Of a call that nobody listens to."""


def connection() -> Connection:
    words = (str(PEER), "stdio", "rig-of-children")
    launch = LaunchSpec(name="rig", command=sys.executable, arguments=words, folder=FOLDER)
    spec = ConnectionSpec(id=1, slug="rig", transport="stdio", launch=launch, idle_seconds=0, connect_seconds=60)
    return Connection(spec, ConnectionEnvironment(secret=lambda name, host: ""))


async def call(upstream: Connection, offer: Offer = ECHO, **arguments: Any) -> Any:
    params = {"name": offer.name, "arguments": arguments}
    return await upstream.request("tools/call", params, CONTEXT, offer)


async def cycles(count: int) -> None:
    for _ in range(count):
        upstream = connection()
        upstream.start()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert "content" in await call(upstream)
        await upstream.stop()


async def kills(count: int, draw: random.Random) -> tuple[int, int]:
    """Kill the child so often; give how many calls went well, and how many ended in an error of the hub's."""
    upstream = connection()
    upstream.start()
    well = badly = killed = 0
    while killed < count:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await call(upstream)
                well += 1
        except errors.HubError:
            badly += 1
            upstream.refresh()  # no pause after a failure: the rig has no time
            await asyncio.sleep(0.05)
            continue
        hanging = asyncio.create_task(call(upstream, BE, mode="hang")) if draw.random() < 0.5 else None
        await asyncio.sleep(draw.random() * 0.02)
        for pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        if hanging is not None:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await hanging
            except errors.HubError:
                badly += 1
    await upstream.stop()
    return well, badly


def children() -> list[int]:
    """The children of this process, dead ones too."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in found]


def held() -> tuple[int, int]:
    """Open files and threads of this process."""
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


async def settled(before: tuple[int, int]) -> tuple[int, int]:
    """Return what is held once it is no more than before and no child is left, or after some patience."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:  # there is nothing to wait for
        now = held()
        is_settled = now[0] <= before[0] and now[1] <= before[1] and not children()
        if is_settled or time.monotonic() > deadline:
            return now
        await asyncio.sleep(0.1)


async def run(options: argparse.Namespace) -> list[str]:
    complaints = []
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))  # so many as it may start are no leak
    await cycles(2)  # what the first ones import and open stays
    before = held()
    began = time.monotonic()
    await cycles(options.cycles)
    after = await settled(before)
    print(
        f"{options.cycles} starts and stops in {time.monotonic() - began:.0f} s: files and threads {before} -> {after}"
    )
    if after[0] > before[0] or after[1] > before[1]:
        complaints.append(f"open files and threads grew from {before} to {after}")
    began = time.monotonic()
    well, badly = await kills(options.kills, random.Random(options.seed))
    after = await settled(before)
    print(f"{options.kills} kills in {time.monotonic() - began:.0f} s: {well} calls answered, {badly} refused; {after}")
    if after[0] > before[0] or after[1] > before[1]:
        complaints.append(f"after the kills open files and threads grew from {before} to {after}")
    if left := children():
        complaints.append(f"{len(left)} children are left")
    return complaints


def main() -> int:
    parser = argparse.ArgumentParser(description="Start, stop and kill children of stdio upstreams.")
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    try:
        complaints = asyncio.run(run(parser.parse_args()))
    finally:
        shutil.rmtree(FOLDER)
    for complaint in complaints:
        print(f"✗ {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
