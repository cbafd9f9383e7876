"""`make bench`: the hub against its peers and limits, in turn, as ratios.

    python -m benchmarks.run [--quick] [--only PART]... [--python PYTHON] [--postgres ADDRESS]

It prints, and writes to benchmarks/results/ as JSON. No figure decides on the exit status: it is 0 unless
something did not run or an answer was wrong. docs/develop/performance.md explains the method.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import calls, chat, edits, environments, guardrails, holding, policy, proxied, quotas
from benchmarks.measuring import Bench, say, warn
from benchmarks.servers import Failed, HubPlace, Pinning

_RESULTS = Path(__file__).parent / "results"
PARTS = (
    "calls",
    "intents",
    "traces",
    "handshake",
    "tokens",
    "policy",
    "guardrails",
    "quotas",
    "tools",
    "postgres",
    "workers",
    "memory",
    "start",
    "streams",
    "edits",
    "proxied",
    "granted",
    "chat",
)
_BEFORE = "before"


def main() -> int:
    options = _options()
    quick = options.quick
    Pinning.is_on = not options.unpinned
    bench = Bench(
        rounds=options.rounds or (3 if quick else 5),
        seconds=options.seconds or (1.0 if quick else 3.0),
        warm=0.2 if quick else 0.5,
    )
    begun = time.monotonic()
    try:
        python = environments.prepare(options.python)
        earlier = environments.of_revision(options.before, options.python) if options.before else None
    except environments.NoEnvironment as error:
        warn(str(error))
        return 1
    versions = python.versions()
    say(
        f"All on Python {versions['hub']['python']}; peers: mcp {versions['sdk']['mcp']}, "
        f"fastmcp {versions['fast']['fastmcp']}. {bench.rounds} rounds of {bench.seconds:g} s."
    )
    with tempfile.TemporaryDirectory(prefix="mcphub-bench-") as folder:
        place = calls.Place(python, Path(folder), options.postgres, {})
        machine = _machine(place.folder)
        say(f"{machine['cores']} cores, a flush to the disk takes {machine['flush_ms']:.2f} ms.")
        steps: dict[str, Callable[[], None]] = {
            "calls": lambda: calls.calls(bench, place),
            "intents": lambda: calls.intents(bench, place),
            "traces": lambda: calls.traces(bench, place),
            "handshake": lambda: calls.handshake(bench, place),
            "tokens": lambda: calls.tokens(bench, place),
            "policy": lambda: policy.policy(bench, place),
            "guardrails": lambda: guardrails.guardrails(bench, place),
            "quotas": lambda: quotas.quotas(bench, place),
            "tools": lambda: calls.tools(bench, place),
            "postgres": lambda: calls.postgres(bench, place),
            "workers": lambda: calls.workers(bench, place),
            "memory": lambda: holding.memory(bench, place, 20_000 if quick else 100_000),
            "streams": lambda: holding.streams(bench, place),
            "edits": lambda: edits.edits(bench, place),
            "start": lambda: holding.start(bench, place),
            "proxied": lambda: proxied.proxied(bench, place),
            "granted": lambda: proxied.granted(bench, place),
            "chat": lambda: chat.chat(bench, place),
        }
        if earlier is not None:
            then = HubPlace(earlier[0], place.folder / _BEFORE, root=earlier[1])
            steps = {_BEFORE: lambda: calls.before(bench, place, then)}
        for part in steps if earlier is not None else options.only or PARTS:
            if part in ("postgres", "workers") and (why := calls.reachable(options.postgres)):
                bench.notes.append(f"{part} was left out, as no PostgreSQL is reachable: {why}")
                continue
            part_begun = time.monotonic()
            try:
                steps[part]()
            except (Failed, OSError, subprocess.SubprocessError) as error:
                bench.failures.append(f"{part}: {error}")
                warn(f"\n{part} failed: {error}")
            say(f"  ({part} took {time.monotonic() - part_begun:.0f} s)")
    seconds = time.monotonic() - begun
    _report(bench, seconds)
    _write(
        bench,
        {
            "versions": versions,
            "machine": machine,
            "quick": quick,
            "pinned": Pinning.is_on,
            "took_seconds": round(seconds),
        },
    )
    return 1 if bench.failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.run", description="Measure the hub against peers and limits.")
    parser.add_argument("--quick", action="store_true", help="3 rounds of 1 s instead of 5 of 3 s")
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART", help=f"one of {', '.join(PARTS)}")
    parser.add_argument(
        "--before", metavar="COMMIT", help="measure only the calls of this hub against those of a commit"
    )
    parser.add_argument("--python", help="the interpreter of hub and peers (the first that runs: python3.13, python3)")
    parser.add_argument("--unpinned", action="store_true", help="give servers and clients no core of their own")
    parser.add_argument("--rounds", type=int, help="how often each is measured")
    parser.add_argument("--seconds", type=float, help="how long a round is")
    parser.add_argument(
        "--postgres",
        default=os.environ.get("MCPHUB_TEST_POSTGRES", calls.POSTGRES),
        metavar="ADDRESS",
        help=f"a server on which databases may be made and dropped (MCPHUB_TEST_POSTGRES; {calls.POSTGRES})",
    )
    return parser.parse_args()


def _machine(folder: Path) -> dict[str, Any]:
    """What the figures depend on, without a name."""
    memory = Path("/proc/meminfo").read_text().split(None, 2)[1]
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": int(memory) // 1024,
        "system": f"{platform.system()} {platform.release()}",
        "flush_ms": _flush_ms(folder),
        "load_before": os.getloadavg()[0],
    }


def _flush_ms(folder: Path) -> float:
    """How long the disk under the databases takes to make 4 KiB durable: what a commit cannot be faster than."""
    times = []
    with (folder / "flush").open("wb") as file:
        for _ in range(50):
            file.write(bytes(4096))
            file.flush()
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - begun) * 1000)
    return median(times)


def _report(bench: Bench, seconds: float) -> None:
    say(f"\n{'Goals':<58} {'goal':>10} {'measured':>10} {'spread':>15}  reached")
    for goal in bench.goals:
        say(goal.line())
    for note in bench.notes:
        say(f"Note: {note}")
    for failure in bench.failures:
        warn(f"FAILED {failure}")
    say(f"{seconds:.0f} s; load of the machine at the end: {os.getloadavg()[0]:.1f}")


def _write(bench: Bench, facts: dict[str, Any]) -> None:
    _RESULTS.mkdir(exist_ok=True)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=environments.ROOT
    )
    document = {
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit.stdout.strip(),
        **facts,
        "load_after": os.getloadavg()[0],
        **bench.as_json(),
    }
    file = _RESULTS / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.json"
    file.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    say(f"Written to {file.relative_to(environments.ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
