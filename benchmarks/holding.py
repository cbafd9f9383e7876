"""The parts that measure what a hub holds: memory, thousands of streams, and how soon it is there."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from typing import Any

from benchmarks.calls import READ_ONLY, RECORDED, Place
from benchmarks.environments import ROOT
from benchmarks.measuring import Bench, say
from benchmarks.servers import CLIENT_CORE, Failed, Server, hub, load, pinning

_STREAMS = 9000
_FILES_BESIDES = 300
"""Open files that a process needs besides its streams."""

_CHANGE = (
    "import time; from tools_catalog.models import McpToolDefinition as T; "
    "tool = T.objects.get(name='add_recorded'); tool.description += ' Changed.'; tool.save(); print(time.time())"
)


def memory(bench: Bench, place: Place, calls: int) -> None:
    """Resident memory when idle and after many calls, half of them recorded."""
    part = "memory"
    with hub("hub", place.hub("sqlite")) as server:
        time.sleep(2)
        idle = server.resident_kib() / 1024
        say("\nmemory:")
        bench.limit(part, "resident, one worker, idle", [idle], 150, "MiB")
        sizes: list[tuple[int, float]] = [(0, idle)]
        done = 0
        for share in (0.1, 0.4, 0.5):
            for tool in (READ_ONLY, RECORDED):
                asked = int(calls * share / 2)
                done += load(server.with_tool("hub", tool), clients=32, seconds=0, warm=0, calls=asked)["calls"]
            sizes.append((done, server.resident_kib() / 1024))
        after = sizes[-1][1]
        bench.figures.append({"part": part, "server": "hub", "resident_mib_after_calls": sizes})
        growth = (after / idle - 1) * 100
        note = ", ".join(f"{size:.0f} MiB after {number}" for number, size in sizes)
        bench.limit(part, f"growth, idle to {done} calls", [growth], 5, "%", note)
        early = sizes[1]
        bench.limit(part, f"growth, {early[0]} to {done} calls", [(after / early[1] - 1) * 100], None, "%")


def streams(bench: Bench, place: Place) -> None:
    """The memory of a stream, and one event to all of them."""
    part = "streams"
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(100, min(_STREAMS, most_files - _FILES_BESIDES))
    note = "" if wanted == _STREAMS else f"only {wanted} streams: this user may open {most_files} files"
    where = place.hub("sqlite")
    with hub("hub", where) as server:
        load(server.with_tool("hub", RECORDED), clients=32, seconds=1, warm=0)
        before = server.resident_kib()
        sessions = min(1000, wanted // 2)
        with _Crowd(server, sessions, wanted - sessions) as crowd:
            say("\nstreams:")
            opened = crowd.hear()["seconds"]
            held = server.resident_kib()
            note_opened = f"opened at {sessions / opened:.0f}/s"
            bench.limit(
                part,
                f"a GET stream with its session, of {sessions}",
                [(held - before) / sessions],
                20,
                "KiB",
                note_opened,
            )
            crowd.go_on()
            opened = crowd.hear()["seconds"]
            more = wanted - sessions
            note_opened = f"opened at {more / opened:.0f}/s"
            bench.limit(
                part, f"a subscription, of {more}", [(server.resident_kib() - held) / more], 20, "KiB", note_opened
            )
            crowd.go_on()
            changed = float(where.command("shell", "--no-imports", "-c", _CHANGE).split()[-1])
            told = crowd.hear()
        if told["told"] != wanted:
            raise Failed(f"{told['told']} of {wanted} streams were told.")
        spread = f"the first after {told['first'] - changed:.2f} s"
        what = f"one event to {wanted} streams, commit to last"
        bench.limit(part, what, [told["last"] - changed], 0.5, "s", "; ".join(filter(None, [spread, note])))


def start(bench: Bench, place: Place) -> None:
    """From the command to `ready`, on an existing database. Nothing is pinned here."""
    where, seconds = place.hub("sqlite"), []
    with hub("hub", where, pinned=False):
        pass  # compiles what is not compiled, and is the first start with this database
    for _ in range(max(3, bench.rounds)):
        with hub("hub", where, pinned=False) as server:
            seconds.append(server.extra["start_seconds"])
    say("\nstart:")
    bench.limit("start", "cold start to ready, existing database", seconds, 2, "s")


class _Crowd:
    """The program with the streams, and the lines to and from it."""

    def __init__(self, server: Server, sessions: int, subscriptions: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.listeners"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            preexec_fn=pinning(CLIENT_CORE),
        )
        counts = {"sessions": sessions, "subscriptions": subscriptions}
        self._say(json.dumps({"port": server.port, "key": server.key, **counts}))

    def __enter__(self) -> _Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        words: dict[str, Any] = json.loads(line) if line else {"error": "The streams' program ended."}
        if "error" in words:
            raise Failed(f"streams: {words['error']}")
        return words

    def go_on(self) -> None:
        self._say("")

    def _say(self, words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
