"""A flood of everything at once, and what a caller who does nothing wrong notices of it.

    python -m tests.rigs.flood [--seconds 40] [--sockets 1000] [--rate 50] [--rows 20000]
        [--database postgresql] [--workers 2] [--with keys|tokens]
        [--only sockets calls holds bodies upstream searches]

One key makes so many calls a second, each at its moment, whether those before it were answered or not. That goes on for
a third of the time in quiet. Then another process attacks: sockets that dribble, garble or say nothing and come back
when they are closed; one key that calls in loops, holds what it can and sends large bodies; eight loops of searches,
figures and exports, of one key and by the console's address; an upstream that floods whoever calls it.

With `tokens` the caller and the attackers hold access tokens of people. The caller renews his all the while, from an
address of his own, and gives it back at the end of the flood: then no worker may take it.

Printed: p50, p99 and the slowest of the calls, quiet and flooded, their ratio, how calls ended, and the hub's memory.
Complaints, with status 1: a call that was answered with 5xx or not at all, one that is not on record, memory that grew
beyond the bound. The ratio is printed and not judged: attackers and callers share the machine with the hub here.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests import operations
from tests.rigs.attacks.target import TOOLBOX
from tests.rigs.clients import Bearer, Key
from tests.rigs.kill_nine import Audit
from tests.rigs.token_holders import Holder, check, holders, revoked_at_once
from tests.servers import FIXTURES, ROOT, Hub, postgres_database, until
from tests.upstreams.conftest import Operator, Peer
from tests.upstreams.misbehaviour import LIMITS
from tests.wire.signing_in import Client, Person
from tests.wire.speech import BOTH, META, MODERN, Speaker

MOST_GROWTH_MIB = 400
"""Of all processes together, from the end of the quiet time on: buffers of a thousand sockets, threads, caches."""
PATIENCE_SECONDS = 30
ATTACKS = ["sockets", "calls", "holds", "bodies", "upstream", "searches"]
WARM_SECONDS = 10
"""What the first calls import and open stays, and the rows before are sealed."""
NAME = "patient"
ADDRESS = "127.0.0.2"
"""Of the caller: connections are bounded by address, and the attackers have the others."""


def call_of(tool: str, arguments: dict[str, Any], number: int = 1) -> tuple[dict[str, Any], dict[str, str]]:
    """Return body and headers of a call without a session."""
    meta = {
        f"{META}protocolVersion": MODERN,
        f"{META}clientCapabilities": {},
        f"{META}clientInfo": {"name": "flood", "version": "1"},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": tool, "accept": BOTH}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}, headers


# The caller who does nothing wrong -----------------------------------------------------------------------


@dataclass
class Calls:
    """What one part of the time brought."""

    took: list[float] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def words(self) -> str:
        ends = ", ".join(f"{count} {how}" for how, count in self.ends.most_common())
        ms = [f"{quantile(self.took, share) * 1000:.1f}" for share in (0.5, 0.99, 1)]
        return f"p50 {ms[0]} ms, p99 {ms[1]} ms, slowest {ms[2]} ms; {ends}"


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Caller:
    def __init__(self, url: str, bearer: Bearer, rate: float) -> None:
        self._rate, self._bearer = rate, bearer
        limits = httpx2.Limits(max_connections=200, max_keepalive_connections=200)
        transport = httpx2.AsyncHTTPTransport(local_address=ADDRESS, limits=limits)
        self._http = httpx2.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS, transport=transport)

    async def during(self, seconds: float) -> Calls:
        """Call at the rate; each call's time counts from when it was due."""
        found, begins = Calls(), time.monotonic()
        under_way = []
        for number in range(int(seconds * self._rate)):
            due = begins + number / self._rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            under_way.append(asyncio.create_task(self._one(number, due, found)))
        await asyncio.gather(*under_way)
        return found

    async def _one(self, number: int, due: float, found: Calls) -> None:
        tool, arguments = ("add", {"a": number, "b": 1}) if number % 5 else ("count", {"name": "flood"})
        body, headers = call_of(tool, arguments)
        try:
            answer = await self._post(body, headers)
        except httpx2.HTTPError as error:
            found.ends[type(error).__name__] += 1
            found.wrong.append(f"a call ended with {type(error).__name__}: {error}")
        else:
            is_fine = answer.status_code == 200 and '"isError":true' not in answer.text and '"result"' in answer.text
            found.ends["answered" if is_fine else f"status {answer.status_code}"] += 1
            if not is_fine:
                found.wrong.append(f"a call was answered with {answer.status_code}: {answer.text[:200]}")
        found.took.append(time.monotonic() - due)

    async def _post(self, body: dict[str, Any], headers: dict[str, str]) -> httpx2.Response:
        """Post; a token that was replaced meanwhile is refused, and the next one is shown."""
        while True:
            text = self._bearer.text
            sent = {**headers, "authorization": f"Bearer {text}"}
            answer = await self._http.post("/mcp", json=body, headers=sent)
            if answer.status_code != 401 or not await self._bearer.renewed(text):
                return answer

    async def close(self) -> None:
        await self._http.aclose()


# The attackers, in a process of their own ----------------------------------------------------------------


class Attack:
    def __init__(self, job: dict[str, Any]) -> None:
        self.url, self.port, self.sockets = job["url"], job["port"], job["sockets"]
        self.greedy, self.relayed, self.searcher = job["greedy"], job["relayed"], job["searcher"]
        self.seed, self.only = job["seed"], job["only"]
        self.told: Counter[str] = Counter()
        self._began = asyncio.Event()

    async def run(self) -> None:
        """Attack until the process is told to end by the end of its input."""
        tasks = [asyncio.create_task(each) for each in self._all()]
        began = asyncio.create_task(self._began.wait())
        # A busy machine leaves them little time: what is measured begins with the flood.
        await asyncio.wait([began, asyncio.gather(*tasks)], return_when=asyncio.FIRST_COMPLETED)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _all(self) -> list[Coroutine[Any, Any, None]]:
        numbers = random.Random(self.seed)
        large = {"a": 1, "b": 2, "c": ["x"] * 90_000}
        attacks: dict[str, list[Coroutine[Any, Any, None]]] = {
            "sockets": [self._socket(number, numbers.random()) for number in range(self.sockets)],
            "calls": [self._loop(self.greedy, "add", {"a": 1, "b": 2}) for _ in range(8)],
            "holds": [self._loop(self.greedy, "hold", {"name": "never"}) for _ in range(150)],
            "bodies": [self._loop(self.greedy, "add", large) for _ in range(2)],
            "upstream": [
                self._loop(self.relayed, "bad_http.be", {"mode": mode}) for mode in ("flood", "huge") for _ in range(3)
            ],
            "searches": [self._search(number) for number in range(8)],
        }
        assert list(attacks) == ATTACKS
        for name, each in attacks.items():
            if self.only and name not in self.only:
                for coroutine in each:
                    coroutine.close()
        return [each for name in self.only or attacks for each in attacks[name]]

    async def _socket(self, number: int, share: float) -> None:
        """Dribble a head, send half a body, garble, or say nothing; come again when the hub has closed."""
        address = f"127.0.1.{number % 50 + 1}"
        while True:
            await asyncio.sleep(share * 2)
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(address, 0))
                try:
                    await self._misspeak(number, reader, writer)
                finally:
                    writer.close()
            self._hear("sockets closed")

    async def _misspeak(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        way = number % 4
        if way == 0:
            writer.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n")
            for line in itertools.count():
                writer.write(b"X-Slow-%d: 1\r\n" % line)
                await writer.drain()
                await asyncio.sleep(0.5)
        elif way == 1:
            writer.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{")
        elif way == 2:
            writer.write(os.urandom(2000))
        while await reader.read(4096):
            pass

    def _client(self, key: str) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.url, headers={"authorization": f"Bearer {key}"}, timeout=120)

    async def _loop(self, key: str, tool: str, arguments: dict[str, Any]) -> None:
        body, headers = call_of(tool, arguments)
        async with self._client(key) as http:
            await self._again(lambda: http.post("/mcp", json=body, headers=headers), tool)

    async def _search(self, number: int) -> None:
        asked = [
            "/api/invocations/?status=error&client_address=203.0.113.9&limit=500",
            "/api/invocations/facets/?started_after=2020-01-01T00:00:00Z",
            "/api/invocations/statistics/?by=principal&started_after=2020-01-01T00:00:00Z",
            "/api/invocations/?result=$.content[0].text%3D%22nowhere%22&limit=500",
            "/api/audit/export/",
            "/admin/login/",
            "/api/invocations/?limit=500",
            "/api/audit/events/?limit=500",
        ][number]
        async with self._client(self.searcher) as http:
            await self._again(lambda: http.get(asked), "searches")

    def _hear(self, what: str) -> None:
        self.told[what] += 1
        self._began.set()

    async def _again(self, ask: Callable[[], Awaitable[httpx2.Response]], what: str) -> None:
        while True:
            try:
                status = str((await ask()).status_code)
            except httpx2.HTTPError as error:
                status = type(error).__name__
            self._hear(f"{what} {status}")
            if status not in ("200", "400"):
                await asyncio.sleep(0.05)  # a client that does not heed Retry-After


@contextlib.contextmanager
def attacking(job: dict[str, Any]) -> Any:
    """Attack while inside; leave it with what the attackers were told."""
    told: dict[str, int] = {}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.rigs.flood", "--attack", json.dumps(job)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield told
        out, _ = process.communicate("", timeout=60)
        told.update(json.loads(out.splitlines()[-1]))
    finally:
        process.kill()
        process.wait()


def attack(job: dict[str, Any]) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # It takes the processor time that nobody else wants: elsewhere it would have a machine of its own.
    os.setpriority(os.PRIO_PROCESS, 0, 10)
    made = Attack(job)
    asyncio.run(made.run())
    print(json.dumps(made.told))


# What is measured ----------------------------------------------------------------------------------------


class Memory:
    """How much the hub holds, looked at each second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.seen: list[float] = []

    def look(self) -> float:
        children = [self._pid]
        for task in Path(f"/proc/{self._pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):
                children += map(int, (task / "children").read_text().split())
        pages = 0
        for child in children:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                pages += int(Path(f"/proc/{child}/statm").read_text().split()[1])
        found = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
        self.seen.append(found)
        return found

    async def watch(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(1)


async def measure(hub: Hub, options: argparse.Namespace, keys: dict[str, str], holder: Holder | None) -> list[str]:
    stopping = asyncio.Event()
    keeping = asyncio.create_task(holder.keep(stopping)) if holder is not None else None
    caller, memory = Caller(hub.url, holder or Key(keys[NAME]), options.rate), Memory(hub.pid)
    warm = await caller.during(WARM_SECONDS)
    quiet = await caller.during(options.seconds / 3)
    before = memory.look()
    watching = asyncio.create_task(memory.watch())
    job = {
        "url": hub.url,
        "port": hub.port,
        "sockets": options.sockets,
        "greedy": keys["greedy"],
        "relayed": keys["relayed"],
        "searcher": hub.key,
        "seed": options.seed,
        "only": options.only,
    }
    complaints: list[str] = []
    with attacking(job) as told:
        flooded = await caller.during(options.seconds * 2 / 3)
        if holder is not None and keeping is not None:
            stopping.set()
            holder.hurry()
            await keeping
            complaints, late = await revoked_at_once([holder])
            print(f"the last call that a revoked token made was sent {late * 1000:.0f} ms after")
    watching.cancel()
    await caller.close()
    print(f"quiet    {quiet.words()}")
    print(f"flooded  {flooded.words()}")
    ratio = quantile(flooded.took, 0.99) / max(quantile(quiet.took, 0.99), 1e-9)
    print(f"p99 flooded is {ratio:.1f} times the quiet one")
    half = memory.seen[len(memory.seen) // 2 :]
    print(
        f"memory   {before:.0f} MiB quiet, {max(memory.seen):.0f} MiB at most, {min(half):.0f} to {max(half):.0f} in "
        f"the second half, {memory.seen[-1]:.0f} MiB at the end"
    )
    print("attackers were told: " + ", ".join(f"{what}: {count}" for what, count in sorted(told.items())))
    complaints += [*quiet.wrong[:5], *flooded.wrong[:5]]
    if (more := len(quiet.wrong) + len(flooded.wrong)) > 10:
        complaints.append(f"{more} calls in all were not answered well")
    if not told:
        complaints.append("the attackers did nothing: the machine gave them no time")
    if memory.seen[-1] - before > MOST_GROWTH_MIB:
        complaints.append(f"the hub grew by {memory.seen[-1] - before:.0f} MiB")
    made = warm.ends["answered"] + len(quiet.took) + len(flooded.took)
    found = until(lambda: recorded(hub, holder, made), 30)
    print(f"on record are {found} of {made} calls")
    if found != made:
        complaints.append(f"{made} calls were made, {found} are on record")
    if holder is not None:
        print("the holder of the token: " + ", ".join(f"{count} {what}" for what, count in holder.told.items()))
        audit = Audit(hub.environment.get("MCPHUB_DATABASE_URL") or str(hub.data / "hub.sqlite3"))
        complaints += check([holder], audit.query)
    return complaints


def recorded(hub: Hub, holder: Holder | None, made: int) -> int:
    """Return how many calls are on record as the caller's; 0 while some are missing."""
    named: dict[str, str] = {"caller_label": NAME}
    if holder is not None:
        client = holder.client.name
        named = {
            "principal": holder.principal,
            "caller_label__startswith": f"{holder.person} via {client} (",
            "allowed_client__startswith": f"{client} (client ",
            "client_name": "flood",
        }
    found = hub.operate(operations.count, "invocations.McpToolInvocation", **named)
    return found if found >= made else 0


def sign_in(hub: Hub, name: str) -> str:
    """Return an access token of a new person."""
    with Person(hub, name) as person, Client(hub) as client:
        return str(client.sign_in(person)["access_token"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--sockets", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=50.0, help="calls a second of the caller who is measured")
    parser.add_argument("--rows", type=int, default=20_000, help="calls that are on record before")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--with", dest="holding", choices=["keys", "tokens"], default="keys")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[], choices=ATTACKS, help="of the attacks these; else all")
    parser.add_argument("--attack", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.attack:
        attack(json.loads(options.attack))
        return 0
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcphub-flood-")))
        environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
        if options.database == "postgresql":
            environment["MCPHUB_DATABASE_URL"] = stack.enter_context(postgres_database())
        flags = ["--workers", str(options.workers)] if options.workers > 1 else []
        hub = Hub(folder, flags=flags, environment=environment, packs=["starter", FIXTURES], bundle=TOOLBOX)
        peer = stack.enter_context(Peer("chaos.py", "http", "--yields"))
        stack.enter_context(hub)
        if options.rows:
            seed(hub, options)
        Operator(hub).connect("bad_http", url=peer.url, **LIMITS)
        scopes = ["tools:list", "tools:call"]
        holder = None
        if options.holding == "tokens":
            keys = {name: sign_in(hub, name) for name in (NAME, "greedy", "relayed")}
            [holder] = holders(hub, ["/mcp"], random.Random(options.seed), people=1, address=ADDRESS)
        else:
            keys = {name: hub.operate(operations.issue_key, name, scopes) for name in (NAME, "greedy", "relayed")}
        for key in keys.values():
            with Speaker(hub.url, key) as speaker:
                until(lambda: all("bad_http.be" in speaker.modern("tools/list").text for _ in range(3)), 60)
        complaints = asyncio.run(measure(hub, options, keys, holder))
    for complaint in complaints:
        print(f"✗ {complaint}", file=sys.stderr)
    return 1 if complaints else 0


def seed(hub: Hub, options: argparse.Namespace) -> None:
    words = [sys.executable, "-m", "tests.rigs.seeding", "--data-dir", str(hub.data), "--calls", str(options.rows)]
    if address := hub.environment.get("MCPHUB_DATABASE_URL"):
        words += ["--database", address]
    subprocess.run([*words, "--tools", "20"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
