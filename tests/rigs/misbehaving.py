"""Upstreams as odd as published ones, in turn, behind one hub, while healthy calls go on.

    python -m tests.rigs.misbehaving [--seconds 3600 | --rounds 2] [--only WORD]

Servers with a habit (`peers/odd.py`) are odd in all that they write, and each of their calls must be answered right.
Servers with turns misbehave in one call, which must end in an error of the hub's that names a side, or in an answer;
then they must heal: at once where the connection had no fault, else after the hub's pause. All the while healthy
servers over three transports are called without a break. A round is once each habit and each turn.

Complaints, with status 1: a healthy call that was not answered right; a bad call without an end, or with an end that
it may not have, or without words; a server that did not heal; calls that are not on record, by tool and status; memory,
descriptors, tasks, threads or child processes that are more after a round than they were after the first.
Nothing is judged by how long it took, except that nobody waits for longer than a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests import operations
from tests.rigs.flood import call_of
from tests.servers import Hub, until
from tests.upstreams import connecting
from tests.upstreams.conftest import PEERS, Peer
from tests.upstreams.misbehaviour import HABITS, LASTING, LIMITS, ODD_TURNS, SECONDS
from tests.wire.speech import Speaker

_PATIENCE_SECONDS = 60
_CONNECTS_SECONDS = 180
"""From one new server whose tools are known to the next. A tool that comes later has not the timeout of the rig."""
_HEALS_SECONDS = 240
"""The longest pause of an upstream that failed, twice."""
_GOOD = ("good_http", "good_modern", "good_sse", "good_stdio")
_LONG_SECONDS = 30
"""The timeout of a tool that misbehaves in a way that ends otherwise."""
_ECHO_SECONDS = 10
"""Of the healthy tool of a server that may be deaf: five such calls, and the hub starts it anew."""
_AT_ONCE = 6
"""Servers that are called at the same time."""
_MOST_GROWTH_MIB = 50
_SETTLES_SECONDS = 60
_MORE = {"descriptors": 10, "tasks": 10, "threads": 4, "children": 0}
"""How many more there may be than after the first round, at a moment when calls are under way."""
_PACK = Path(__file__).parent / "weighing" / "bundle.json"
_SIDES = re.compile(r"upstream|server|connection|The tool did not finish", re.IGNORECASE)
_TRANSPORTS = {"http": "streamable-http", "modern": "streamable-http", "sse": "sse", "stdio": "stdio"}


@dataclass
class Ended:
    """How a call ended: `ok` or a code, and the words."""

    how: str
    words: str


@dataclass
class Rig:
    hub: Hub
    peers: dict[str, Peer]
    complaints: Counter[str] = field(default_factory=Counter)
    sent: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """Calls by tool, and whether they were answered well."""
    ends: dict[str, Counter[str]] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    """Calls that were refused until a server had healed, by turn."""
    healthy: int = 0

    def __post_init__(self) -> None:
        headers = {"authorization": f"Bearer {self.hub.key}"}
        self.http = httpx2.AsyncClient(base_url=self.hub.url, headers=headers, timeout=_PATIENCE_SECONDS)

    async def call(self, tool: str, arguments: dict[str, Any]) -> Ended:
        body, headers = call_of(tool, arguments)
        try:
            answer = _read(await self.http.post("/mcp", json=body, headers=headers))
        except (httpx2.HTTPError, ValueError, IndexError) as error:
            return Ended("no answer", repr(error))
        ended = _ended(answer)
        self.sent[tool, ended.how == "ok"] += 1
        return ended

    async def well(self, tool: str, text: str) -> str:
        """Call an echo; return what is wrong with the answer."""
        ended = await self.call(tool, {"text": text})
        if ended.how == "ok" and ended.words.rstrip("\ufffd") == text:
            return ""
        return f"{ended.how}: {ended.words[:300]}"

    # Healthy ------------------------------------------------------------------------------------------

    async def keep_calling(self, slug: str, stop: asyncio.Event) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            if wrong := await self.well(f"{slug}.echo", f"{slug} {number}"):
                self.complaints[f"{slug}: a healthy call ended {wrong}"] += 1
            self.healthy += 1
            await asyncio.sleep(0.05)

    # Odd ----------------------------------------------------------------------------------------------

    async def habit(self, slug: str, tools: list[str]) -> None:
        for number, tool in enumerate(tools * 3):
            text = f"{slug} {number}"
            if wrong := await self.well(tool, text):
                self.complaints[f"{slug}: a call of a server with a habit ended {wrong}"] += 1
            self.healthy += 1

    async def turn(self, slug: str, mode: str, allowed: frozenset[str]) -> None:
        where = f"{slug} {mode}"
        bad = await self.call(f"{slug}.be", {"mode": mode})
        self.ends.setdefault(where, Counter())[bad.how] += 1
        exits = mode in ("exit", "exit_half") and slug in self.peers
        if exits and not await asyncio.to_thread(self.again, self.peers[slug]):
            self.complaints[f"{where}: its process did not exit; the call ended {bad.how}: {bad.words[:300]}"] += 1
        if bad.how not in allowed:
            self.complaints[f"{where}: a bad call ended {bad.how}: {bad.words[:300]}"] += 1
        elif bad.how != "ok":
            self.words[where] = bad.words
            if not _SIDES.search(bad.words) and slug not in bad.words:
                self.complaints[f"{where}: no side is named: {bad.words[:300]}"] += 1
        ended_late = bad.how == "timeout" or mode in LASTING  # what it began may reach the calls after it
        is_hit = bad.how in ("timeout", "transport_error", "connection_failed", "upstream_error")
        began, number = time.monotonic(), 0
        while wrong := await self.well(f"{slug}.echo", text := f"{where} {number}"):
            number += 1
            if not is_hit:
                self.complaints[f"{where}: the call after it ended {wrong}"] += 1
                is_hit = True
            elif not (wrong.startswith("connection_failed") or ended_late):
                self.complaints[f"{where}: a healthy call after it ended {wrong}"] += 1
            if time.monotonic() - began > _HEALS_SECONDS:
                self.complaints[f"{where}: the server did not heal; {text} ended {wrong}"] += 1
                return
            await asyncio.sleep(0.2)
        self.refused[where] += number
        self.healthy += 1

    @staticmethod
    def again(peer: Peer) -> bool:
        """Start a peer anew; return whether it exited by itself."""
        assert peer.process is not None
        try:
            peer.process.wait(_PATIENCE_SECONDS)
            has_exited = True
        except subprocess.TimeoutExpired:
            has_exited = False
        peer.kill()
        peer.start()
        return has_exited

    async def round(self, habits: dict[str, list[str]], turns: list[tuple[str, str, frozenset[str]]]) -> None:
        """Go through all: the turns of one server one after the other, servers beside each other.

        Those that may end by the tool's timeout have a short one. The others have a long one, which a slow machine
        does not reach.
        """
        for may_time_out in (False, True):
            now = [turn for turn in turns if ("timeout" in turn[2]) == may_time_out]
            if now:
                await self.limit(SECONDS if may_time_out else _LONG_SECONDS)
            await self.part({} if may_time_out else habits, now)

    async def limit(self, seconds: float) -> None:
        """Set the timeout of the tools that misbehave."""
        bad = {"name__regex": r"^(bad|falling)_[a-z]+\.be$"}
        definition = "tools_catalog.McpToolDefinition"
        await asyncio.to_thread(self.hub.operate, operations.change, definition, bad, timeout_seconds=seconds)

    async def part(self, habits: dict[str, list[str]], turns: list[tuple[str, str, frozenset[str]]]) -> None:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def within(work: Coroutine[Any, Any, None]) -> None:
            async with gate:
                await work

        async def all_of(slug: str) -> None:
            for each, mode, allowed in turns:
                if each == slug:
                    await within(self.turn(slug, mode, allowed))

        async with asyncio.TaskGroup() as group:
            for slug in dict.fromkeys(slug for slug, _, _ in turns):
                group.create_task(all_of(slug))
            for slug, tools in habits.items():
                group.create_task(within(self.habit(slug, tools)))

    # What must not grow -------------------------------------------------------------------------------

    async def held(self) -> dict[str, int]:
        body, headers = call_of("weigh", {})
        answer = (await self.http.post("/mcp", json=body, headers=headers)).json()
        self.sent["weigh", True] += 1
        inside = answer["result"]["structuredContent"]
        return {
            "MiB": int(self.hub.resident_mib()),
            "descriptors": _descriptors(self.hub.pid),
            "children": len(list(_children(self.hub.pid))),
            "tasks": inside["tasks"],
            "threads": inside["threads"],
        }

    async def settled(self, first: dict[str, int] | None) -> dict[str, int]:
        """Return the least of what is held for some seconds, and until it is no more than after the first round.

        After that one itself, the most but for descriptors.
        """
        least = await self.held()
        ends = time.monotonic() + (5 if first is None else _SETTLES_SECONDS)
        while time.monotonic() < ends:
            if first is not None and all(least[name] <= first[name] + more for name, more in _MORE.items()):
                break
            await asyncio.sleep(0.25)
            now = await self.held()
            most = (
                () if first is not None else ("MiB", "children", "tasks", "threads")
            )  # they vary with calls under way
            least = {name: (max if name in most else min)(count, now[name]) for name, count in least.items()}
        return least

    def rows(self) -> None:
        """Compare what was answered with what is on record."""
        for (tool, is_ok), count in self.sent.items():
            filters = {"tool_name": tool} if is_ok else {"tool_name": tool, "status__in": ["error", "timeout"]}
            wanted = count if not is_ok else self.sent[tool, True] + self.sent[tool, False]
            found = self.hub.operate(operations.count, "invocations.McpToolInvocation", **filters)
            right = self.hub.operate(operations.count, "invocations.McpToolInvocation", tool_name=tool, status="ok")
            if is_ok and (right != count or found != wanted):
                self.complaints[f"{tool}: {count} were answered well of {wanted}, on record {right} of {found}"] += 1


async def run(hub: Hub, peers: dict[str, Peer], habits: dict[str, list[str]], turns: list[Any], options: Any) -> Rig:
    rig = Rig(hub, peers)
    stop = asyncio.Event()
    began = time.monotonic()
    rounds = 0
    kept: list[dict[str, int]] = []
    opened: list[Counter[str]] = []
    async with asyncio.TaskGroup() as group:
        for slug in options.good:
            group.create_task(rig.keep_calling(slug, stop))
        while rounds < options.rounds or time.monotonic() - began < options.seconds:
            await rig.round(habits, turns)
            rounds += 1
            kept.append(await rig.settled(kept[0] if kept else None))
            opened.append(_opened(rig.hub.pid, rig.peers))
            held = ", ".join(f"{name} {count}" for name, count in kept[-1].items())
            print(f"round {rounds}, {time.monotonic() - began:.0f} s: {held}; {rig.healthy} healthy calls", flush=True)
        stop.set()
    await rig.http.aclose()
    for name, more in _MORE.items():
        if kept[-1][name] > kept[0][name] + more:
            grown = opened[-1] - opened[0] if name == "descriptors" else {}
            words = "".join(f"; {count} more {kind}" for kind, count in grown.items())
            rig.complaints[
                f"{name}: {kept[0][name]} after the first round, {kept[-1][name]} after the last{words}"
            ] += 1
    middle = kept[len(kept) // 2]["MiB"] if len(kept) > 4 else kept[0]["MiB"]
    if kept[-1]["MiB"] > middle + _MOST_GROWTH_MIB:
        rig.complaints[f"memory: {middle} MiB, then {kept[-1]['MiB']} MiB"] += 1
    return rig


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--rounds", type=int, default=2, help="at least")
    parser.add_argument("--only", default="", help="habits and turns whose name has this word")
    parser.add_argument("--short", action="store_true", help="each habit and turn over one transport")
    parser.add_argument("--words", action="store_true", help="print the words of each way to end")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="misbehaving-")))
        environment = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1", "MCPHUB_APPS": "tests.rigs.weighing"}
        hub = stack.enter_context(Hub(folder, environment=environment, bundle=_PACK))
        peers = {}
        connections: dict[str, dict[str, Any]] = {}
        seen: set[str] = set()
        for way, transport in _TRANSPORTS.items():
            named = {habit: f"odd_{way}_{habit}" for habit in HABITS[way] if options.only in habit}
            if options.short:
                named = {habit: slug for habit, slug in named.items() if habit not in seen}
                seen |= named.keys()
            for slug, habit in {**{slug: habit for habit, slug in named.items()}, f"good_{way}": "plain"}.items():
                connections[slug] = {"transport": transport, "habit": habit, "way": way}
            connections[f"bad_{way}"] = {"transport": transport, "habit": "turns", "way": way, **LIMITS}
        for way in ("http", "modern", "sse"):
            peers[way] = stack.enter_context(Peer("odd.py", way))
            if way != "sse":  # a server of its own, whose program ends in the midst of calls
                slug = f"falling_{way}"
                peers[slug] = stack.enter_context(Peer("odd.py", way))
                connections[slug] = {"transport": "streamable-http", "habit": "turns", "way": slug, **LIMITS}
        for slug, words in connections.items():
            way, habit = words.pop("way"), words.pop("habit")
            if way == "stdio":
                arguments = [str(PEERS / "odd.py"), "stdio", habit]
                words["profile"] = {
                    "name": slug,
                    "command": sys.executable,
                    "arguments": arguments,
                    "readable": [str(PEERS)],
                }
            else:
                words["url"] = f"http://127.0.0.1:{peers[way].port}/{habit}"
        # None ends for want of calls: rounds that took longer than others would leave fewer open.
        unending = {"policy": "trust", "idle_seconds": 0}
        named = [{"slug": slug, **unending, **words} for slug, words in connections.items()]
        hub.operate(connecting.connect_at_once, named)
        left = _left(hub, list(connections))
        echoes = {"name__regex": r"^(bad|falling)_[a-z]+\.echo$"}
        hub.operate(operations.change, "tools_catalog.McpToolDefinition", echoes, timeout_seconds=_ECHO_SECONDS)
        habits = served_tools(hub, [slug for slug in connections if slug.startswith("odd_") and slug not in left])
        turns = [
            (kind, mode, frozenset(allowed))
            for kind, modes in ODD_TURNS.items()
            for mode, allowed in modes.items()
            if options.only in mode and kind not in left
        ]
        if options.short:
            turns = list({mode: (kind, mode, allowed) for kind, mode, allowed in reversed(turns)}.values())[::-1]
        print(f"{len(connections)} servers, {len(habits)} habits, {len(turns)} turns", flush=True)
        options.good = [slug for slug in _GOOD if slug not in left]
        rig = asyncio.run(run(hub, peers, habits, turns, options))
        for slug, tools in habits.items():
            if len(tools) != (5 if slug.endswith("_names") else 1):
                rig.complaints[f"{slug}: served are {', '.join(tools) or 'no tools'}"] += 1
        for slug, why in left.items():
            rig.complaints[f"{slug}: its tools are not known: {why}"] += 1
        rig.rows()
    for where, ends in rig.ends.items():
        words = rig.words.get(where, "") if options.words else ""
        print(f"{where:<30} {dict(ends)} refused until healed: {rig.refused[where]} {words}")
    calls = sum(rig.sent.values())
    print(f"{calls} calls, {rig.healthy} healthy, {sum(rig.complaints.values())} complaints")
    for complaint, times in rig.complaints.most_common():
        print(f"✗ {times} × {complaint}", file=sys.stderr)
    return 1 if rig.complaints else 0


def _left(hub: Hub, slugs: list[str]) -> dict[str, str]:
    """Wait for the tools of all; return those that did not come, and why."""
    left = hub.operate(connecting.left, slugs)
    ends = time.monotonic() + _CONNECTS_SECONDS
    while left and time.monotonic() < ends:
        time.sleep(0.5)
        now = hub.operate(connecting.left, slugs)
        if len(now) < len(left):
            ends = time.monotonic() + _CONNECTS_SECONDS
        left = now
    return left


def served_tools(hub: Hub, slugs: list[str]) -> dict[str, list[str]]:
    """Return the tools by connection, as agents see them, without those that misbehave."""
    with Speaker(hub.url, hub.key) as speaker:
        speaker.http.timeout = _PATIENCE_SECONDS

        ends = time.monotonic() + _CONNECTS_SECONDS

        def page(cursor: str | None) -> dict[str, Any]:
            """Return a page. A hub that is busy with new servers may refuse it; a retryable refusal is tried again."""

            def answered() -> dict[str, Any] | None:
                answer: dict[str, Any] = speaker.modern("tools/list", {"cursor": cursor} if cursor else {}).json()
                assert "result" in answer or (answer["error"].get("data") or {}).get("retryable", False), answer
                return answer.get("result")

            found = until(answered)
            assert found is not None
            return found

        def names() -> list[str]:
            found, cursor = [], None
            while True:
                result = page(cursor)
                found += [tool["name"] for tool in result["tools"]]
                cursor = result.get("nextCursor")
                if not cursor:
                    return found

        listed = names()
        while not {name.partition(".")[0] for name in listed} >= set(slugs) and time.monotonic() < ends:
            time.sleep(0.5)
            listed = names()
    return {
        slug: [name for name in listed if name.startswith(f"{slug}.") and not re.search(r"\.(be|more\d+)$", name)]
        for slug in slugs
    }


def _read(response: httpx2.Response) -> dict[str, Any]:
    """Return the response; a call that takes long is answered on a stream."""
    text = response.text
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        text = [line for line in text.splitlines() if line.startswith("data: {")][-1].removeprefix("data: ")
    found: dict[str, Any] = json.loads(text)
    return found


def _ended(answer: dict[str, Any]) -> Ended:
    result = answer.get("result")
    if result is None:
        error = answer["error"]
        return Ended(str((error.get("data") or {}).get("errorCode", error["code"])), str(error["message"]))
    words = " ".join(part.get("text", "") for part in result["content"])
    if not result.get("isError"):
        return Ended("ok", words)
    return Ended(str(result["_meta"]["mcphub/error"]["errorCode"]), words)


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _opened(pid: int, peers: Mapping[str, Peer]) -> Counter[str]:
    """Return the descriptors of a process by kind; of connections, by the other end and the state."""
    ends = {peer.port: slug for slug, peer in peers.items()}
    sockets: dict[str, str] = {}
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        port = int(fields[2].rpartition(":")[2], 16)
        sockets[fields[9]] = f"to {ends.get(port, 'others')}, state {fields[3]}"  # 01 established, 08 the peer closed
    found: Counter[str] = Counter()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            kind, _, number = str(each.readlink()).partition(":")
            found[f"{kind} {sockets.get(number.strip('[]'), '')}".strip()] += 1
    return found


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for word in (task / "children").read_text().split():
                yield int(word)
                yield from _children(int(word))


if __name__ == "__main__":
    sys.exit(main())
