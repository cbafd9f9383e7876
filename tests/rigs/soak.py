"""A hub under a steady, mixed load for an hour: what it holds must not grow.

    python -m tests.rigs.soak [--seconds 3600] [--database postgresql|sqlite] [--workers 2] [--rate 20] [--seed 1]

Clients call by HTTP in both eras, keep streams open, list, open sessions and end them, read the audit by REST, and
call by an access token that is renewed every few seconds. Every minute the rig notes the resident memory and the
descriptors of each process of the hub, what must stay bounded in the database, and p50 and p99 of the calls.

The verdict leaves out the first quarter. Memory: a line by least squares through the notes of a process must rise by
less than 5 % an hour of where it begins; of runs below fifteen minutes that is said and not judged. Descriptors: the
median of the last quarter is not above the most of the second one. Tables: never above their bounds. No process may
end, no request fail, no stream end. Latency is printed, and not judged. Exit status 1 where the verdict is bad.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression, median
from typing import Any

import httpx2

from benchmarks.processes import resident_kib
from tests import operations
from tests.rigs import soaking
from tests.rigs.process import Hub
from tests.rigs.token_holders import Holder, holders
from tests.servers import postgres_database
from tests.wire.speech import BOTH, LEGACY, META, MODERN, hello, in_header, request

_MOST_PERCENT_AN_HOUR = 5.0
_JUDGED_SECONDS = 900
"""Of shorter runs a line through the memory says nothing about an hour."""
_NOTES = 20
"""At least, in a run that is short; otherwise there is one a minute."""
_LEAST_NOTES = 8
_PATIENCE_SECONDS = 60
_BOUNDS = {
    "live sessions": 100,
    "connections of the remote profile": 0,
    "refused requests": 500,
    "codes of sign-ins": 10,
    "access tokens": 100,
    "tasks": 0,
    "rows without a seal": 5000,
    "events of streams past their time": 0,
    "events of the bus past their time": 0,
    "MiB of SQLite's log": 64,
}
"""What there may be of each at most; of what is not named here the figure is printed alone."""
_CONNECTIONS = 11
"""To PostgreSQL, of one worker; and of the others of the hub's processes, and the one that counts (deployment.md)."""


@dataclass
class Note:
    """What was seen at one moment."""

    seconds: float
    memory: dict[int, float]
    """Process id -> MiB."""
    descriptors: dict[int, int]
    bounded: dict[str, int]
    latencies: list[float]
    """Of the calls since the last note, in ms, in order."""

    def percentile(self, share: float) -> float:
        return self.latencies[int((len(self.latencies) - 1) * share)] if self.latencies else 0.0


@dataclass
class Load:
    """The clients. `told` counts what was done, `problems` what went wrong."""

    hub: Hub
    holder: Holder
    rate: float
    told: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, watching: Callable[[], Awaitable[None]]) -> None:
        """Load the hub until `watching` has ended."""
        async with contextlib.AsyncExitStack() as stack:
            self._http = await stack.enter_async_context(
                httpx2.AsyncClient(base_url=self.hub.url, timeout=_PATIENCE_SECONDS)
            )
            self._session = await self._opened()
            shares = {
                "a recorded call, stateless": (0.30, self._recorded),
                "a read-only call, stateless": (0.20, self._reading),
                "a call in a session": (0.20, self._in_session),
                "a call by token": (0.10, self._by_token),
                "a list, stateless": (0.05, self._list),
                "a list in a session": (0.05, self._list_in_session),
                "a session opened and ended": (0.05, self._short_session),
                "a page of calls by REST": (0.04, self._page),
                "a filtered page by REST": (0.01, self._filtered),
            }
            async with asyncio.TaskGroup() as group:
                holding = group.create_task(self.holder.keep(self.stopping))
                for name, (share, work) in shares.items():
                    group.create_task(self._steadily(name, self.rate * share, work))
                streams = [group.create_task(self._stream(*each)) for each in self._streams()]
                await watching()
                self.stopping.set()
                await holding
                for each in streams:
                    each.cancel()

    async def _steadily(self, name: str, per_second: float, work: Callable[[], Awaitable[None]]) -> None:
        """Do it so often; what takes longer than its turn delays the next one."""
        due = time.monotonic()
        while not self.stopping.is_set():
            try:
                await work()
                self.told[name] += 1
            except (httpx2.HTTPError, AssertionError, KeyError, ValueError) as error:
                self.problems[f"{name}: {type(error).__name__} {error}"[:300]] += 1
            due = max(due + 1 / per_second, time.monotonic())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stopping.wait(), due - time.monotonic())

    # What the clients do -----------------------------------------------------------------------------

    async def _recorded(self) -> None:
        await self._call("count", {"name": "soak"}, self.hub.key)

    async def _reading(self) -> None:
        await self._call("tell", {"times": 0}, self.hub.key)

    async def _by_token(self) -> None:
        if not self.holder.text:
            await self.holder.renewed("")  # returns when its person has said yes
        text = self.holder.text
        try:
            await self._call("count", {"name": "soak"}, text)
        except Refused:
            if not await self.holder.renewed(text):
                raise

    async def _in_session(self) -> None:
        params = {"name": "count", "arguments": {"name": "soak"}}
        self._judge_call(await self._timed("tools/call", params, self._headers(self._session)))

    async def _list(self) -> None:
        answer = await self._modern("tools/list", {}, self.hub.key)
        assert answer.json()["result"]["tools"], answer.text[:200]

    async def _list_in_session(self) -> None:
        answer = await self._post(request("resources/list", {}), self._headers(self._session))
        assert "result" in answer.json(), answer.text[:200]

    async def _short_session(self) -> None:
        session = await self._opened()
        headers = self._headers(session)
        self._judge_call(await self._timed("tools/call", {"name": "tell", "arguments": {"times": 0}}, headers))
        gone = await self._http.delete("/mcp", headers=headers)
        assert gone.status_code == 204, gone.text[:200]

    async def _page(self) -> None:
        first = await self._rest("/api/invocations/", {"limit": "50"})
        if first["next"]:
            await self._rest(first["next"])

    async def _filtered(self) -> None:
        await self._rest("/api/invocations/", {"limit": "50", "tool": "count", "status": "ok"})

    # How ------------------------------------------------------------------------------------------------

    async def _opened(self) -> str:
        answer = await self._post(hello(name="soak"), self._headers())
        session = str(answer.headers["mcp-session-id"])
        done = await self._http.post(
            "/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=self._headers(session)
        )
        assert done.status_code == 202, done.text[:200]
        return session

    async def _call(self, tool: str, arguments: dict[str, Any], key: str) -> None:
        began = time.perf_counter()
        answer = await self._modern("tools/call", {"name": tool, "arguments": arguments}, key)
        self.latencies.append((time.perf_counter() - began) * 1000)
        self._judge_call(answer)

    async def _timed(self, method: str, params: dict[str, Any], headers: dict[str, str]) -> httpx2.Response:
        began = time.perf_counter()
        answer = await self._post(request(method, params), headers)
        self.latencies.append((time.perf_counter() - began) * 1000)
        return answer

    @staticmethod
    def _judge_call(answer: httpx2.Response) -> None:
        result = answer.json()["result"]
        assert not result.get("isError"), answer.text[:200]

    async def _modern(self, method: str, params: dict[str, Any], key: str) -> httpx2.Response:
        headers = {**self._headers(key=key), "mcp-protocol-version": MODERN, "mcp-method": method}
        if "name" in params:
            headers["mcp-name"] = in_header(params["name"])
        return await self._post(request(method, {**params, "_meta": _DESCRIPTION}), headers)

    async def _post(self, body: Any, headers: dict[str, str]) -> httpx2.Response:
        answer = await self._http.post("/mcp", json=body, headers=headers)
        if answer.status_code == 401:
            raise Refused(answer.text[:200])
        assert answer.status_code == 200, f"{answer.status_code} {answer.text[:200]}"
        return answer

    async def _rest(self, address: str, query: dict[str, str] | None = None) -> Any:
        answer = await self._http.get(address, params=query, headers={"authorization": f"Bearer {self.hub.key}"})
        assert answer.status_code == 200, f"{answer.status_code} {answer.text[:200]}"
        return answer.json()

    def _headers(self, session: str = "", key: str = "") -> dict[str, str]:
        of_session = {"mcp-session-id": session, "mcp-protocol-version": LEGACY} if session else {}
        return {"accept": BOTH, "authorization": f"Bearer {key or self.hub.key}", **of_session}

    # Streams --------------------------------------------------------------------------------------------

    def _streams(self) -> list[tuple[str, str, str, Any, dict[str, str]]]:
        listen = {"notifications": {"toolsListChanged": True}, "_meta": _DESCRIPTION}
        modern = {**self._headers(), "mcp-protocol-version": MODERN, "mcp-method": "subscriptions/listen"}
        return [
            ("the stream of a session", "GET", "/mcp", None, self._headers(self._session)),
            ("a subscription", "POST", "/mcp", request("subscriptions/listen", listen), modern),
            ("the stream of HTTP+SSE", "GET", "/sse", None, self._headers()),
        ]

    async def _stream(self, name: str, method: str, path: str, body: Any, headers: dict[str, str]) -> None:
        """Hear until the run is over; an end before is wrong. A beat comes every few seconds."""
        try:
            async with self._http.stream(method, path, json=body, headers=headers) as answer:
                assert answer.status_code == 200, f"{answer.status_code}"
                async for line in answer.aiter_lines():
                    self.told[f"lines of {name}"] += bool(line)
            why = "it ended"
        except (httpx2.HTTPError, AssertionError) as error:
            why = f"{type(error).__name__} {error}"
        if not self.stopping.is_set():
            self.problems[f"{name}: {why}"] += 1


class Refused(AssertionError):
    """The credential is not taken."""


_DESCRIPTION = {
    f"{META}protocolVersion": MODERN,
    f"{META}clientInfo": {"name": "soak", "version": "1"},
    f"{META}clientCapabilities": {},
}


# Notes and verdict ----------------------------------------------------------------------------------------


def percent_an_hour(points: Sequence[tuple[float, float]]) -> float:
    """Return by how much of its beginning a line through (seconds, value) rises an hour, in percent: least squares."""
    slope, intercept = linear_regression([at for at, _ in points], [value for _, value in points])
    return 100 * slope * 3600 / (intercept + slope * points[0][0])


def role_of(pid: int) -> str:
    """Return the last words of a process' command."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return " ".join(word for word in words if word)[-40:]
    return "ended"


def verdict(notes: Sequence[Note], bounds: Mapping[str, int]) -> list[tuple[bool | None, str]]:
    """Return (holds, sentence); None where it is not judged. The first quarter is left out."""
    whole = notes[-1].seconds if notes else 0.0
    judged = [note for note in notes if note.seconds >= whole / 4]
    second = [note for note in judged if note.seconds < whole / 2]
    last = [note for note in judged if note.seconds >= whole * 3 / 4]
    if not second or not last or len(judged) < _LEAST_NOTES:
        return [(False, f"only {len(judged)} notes were taken after the first quarter, for a machine that is too slow")]
    found: list[tuple[bool | None, str]] = []
    roles = {pid: role_of(pid) for pid in judged[0].memory}
    for pid, role in roles.items():
        if not all(pid in note.memory for note in judged):
            found.append((False, f"{role} ({pid}) ended"))
            continue
        grown = percent_an_hour([(note.seconds, note.memory[pid]) for note in judged])
        held = [note.memory[pid] for note in judged]
        words = f"memory of {role} ({pid}): {held[0]:.0f} MiB, then {held[-1]:.0f} MiB, {grown:+.1f} % an hour"
        found.append((grown < _MOST_PERCENT_AN_HOUR if whole >= _JUDGED_SECONDS else None, words))
        most, now = (max(note.descriptors[pid] for note in second), median(note.descriptors[pid] for note in last))
        found.append((now <= most, f"descriptors of {role} ({pid}): {most} at most, {now:g} at the end"))
    added = sorted({pid for note in judged for pid in note.memory} - set(roles))
    found.append((not added, f"processes that came after the first quarter: {len(added)}"))
    for name in judged[0].bounded:
        counts = [note.bounded[name] for note in judged]
        words = f"{name}: {counts[0]}, then {counts[-1]}, at most {max(counts)}"
        if name in bounds:
            found.append((max(counts) <= bounds[name], f"{words}, bound {bounds[name]}"))
        else:
            found.append((None, words))
    return found


class Watch:
    """Takes notes while the load runs."""

    def __init__(self, hub: Hub, load: Load, seconds: float) -> None:
        self._hub, self._load, self._seconds = hub, load, seconds
        self._every = min(60.0, seconds / _NOTES)
        self.notes: list[Note] = []

    async def run(self) -> None:
        began = time.monotonic()
        print(f"{'s':>6} {'MiB of each process':<34} {'descriptors':<22} {'p50':>7} {'p99':>7} ms  calls", flush=True)
        while (passed := time.monotonic() - began) < self._seconds:
            await asyncio.sleep(min(self._every, self._seconds - passed))
            self.notes.append(await asyncio.to_thread(self._note, time.monotonic() - began))
            self._print(self.notes[-1])

    def _note(self, seconds: float) -> Note:
        latencies, self._load.latencies = self._load.latencies, []
        pids = self._hub.processes()
        descriptors = {}
        for pid in pids:
            with contextlib.suppress(OSError):
                descriptors[pid] = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        memory = {pid: resident_kib([pid]) / 1024 for pid in descriptors}
        bounded = self._hub.operate(soaking.bounded)
        return Note(seconds, memory, descriptors, bounded, sorted(latencies))

    def _print(self, note: Note) -> None:
        memory = " ".join(f"{value:.1f}" for value in note.memory.values())
        descriptors = " ".join(map(str, note.descriptors.values()))
        print(
            f"{note.seconds:>6.0f} {memory:<34} {descriptors:<22} {note.percentile(0.5):>7.1f} "
            f"{note.percentile(0.99):>7.1f}     {len(note.latencies)}",
            flush=True,
        )
        print(f"       {', '.join(f'{name} {count}' for name, count in note.bounded.items() if count)}", flush=True)


def main() -> int:
    options = _options()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        is_sqlite = options.database == "sqlite"
        address = "" if is_sqlite else stack.enter_context(postgres_database())
        workers = 1 if is_sqlite else options.workers
        hub = Hub(folder, database=address, workers=workers)
        hub.patience_seconds = 600  # a machine with other work is slow
        hub.environment["MCPHUB_LIMITS"] = "heartbeat_seconds=5"  # sealed as an operator has it
        hub.prepare()
        hub.key = hub.operate(operations.issue_key, "soak")
        hub.start()
        stack.callback(hub.stop)
        hub.await_ready()
        (holder,) = holders(hub, ["/mcp"], random.Random(options.seed), people=1)
        load = Load(hub, holder, options.rate)
        watch = Watch(hub, load, options.seconds)
        print(f"{options.database}, {workers} workers, {options.rate:g} requests a second", flush=True)
        asyncio.run(load.run(watch.run))
        bounds = {**_BOUNDS, "processes": workers, "connections to PostgreSQL": _CONNECTIONS * (workers + 1)}
        found = verdict(watch.notes, bounds)
        wrong = sum(load.problems.values())
        found.append((not wrong, f"requests and streams that failed: {wrong}"))
        found += [(False, f"{times} × {problem}") for problem, times in load.problems.most_common(10)]
        found += [(False, problem) for problem in holder.problems[:10]]
        found += [(False, line) for line in hub.errors()[:5]]
        print(dict(load.told), dict(holder.told), flush=True)
        for holds, words in found:
            print(f"{'–    ' if holds is None else 'ok   ' if holds else 'WRONG'} {words}", flush=True)
        if options.seconds < _JUDGED_SECONDS:
            print(f"Memory was not judged: the run was shorter than {_JUDGED_SECONDS} s.")
    return 1 if any(holds is False for holds, _ in found) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--database", choices=["postgresql", "sqlite"], default="postgresql")
    parser.add_argument("--workers", type=int, default=2, help="on PostgreSQL")
    parser.add_argument("--rate", type=float, default=20, help="requests a second, all together")
    parser.add_argument("--seed", type=int, default=1, help="of the pauses between renewals of the token")
    options = parser.parse_args()
    if options.seconds < _NOTES or options.rate <= 0 or options.workers < 1:
        parser.error(f"--seconds is at least {_NOTES}, --rate above 0, --workers at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
