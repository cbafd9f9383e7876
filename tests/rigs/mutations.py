"""Spoilt requests to every entry point: no 5xx, no body that cannot be read, no foreign id, nothing that grows.

    python -m tests.rigs.mutations                    # 10 000 for each entry point
    python -m tests.rigs.mutations --count 300 --seed 7 --entry-point handshake --entry-point rest

Starts a hub of its own. Prints a line for each entry point and the first offences; exit status 0, or 1 with any.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests import operations, servers
from tests.rigs.entry_points import ENTRY_POINTS, Tally
from tests.rigs.mutating import Mutator
from tests.servers import FIXTURES, Hub
from tests.wire.speech import Speaker

_SHOWN_OFFENCES = 20
_MAY_GROW_KIB = 64 * 1024


def run(hub: Hub, key: str, name: str, count: int, seed: int) -> Tally:
    """Send `count` spoilt requests to one entry point."""
    tally, half_way_kib = Tally(), [0]

    def half_way() -> None:
        half_way_kib[0] = resident_kib(hub)

    ENTRY_POINTS[name](hub, key, Mutator(seed)).run(count, tally, half_way)
    with Speaker(hub.url, key) as speaker:
        if speaker.modern("server/discover").status_code != 200:
            tally.offences.append("the hub does not answer afterwards")
    grown = resident_kib(hub) - half_way_kib[0]
    if grown > _MAY_GROW_KIB:
        tally.offences.append(f"the hub grew by {grown / 1024:.0f} MiB in the second half")
    return tally


def resident_kib(hub: Hub) -> int:
    """Memory of the hub and its children."""
    total, pending = 0, [hub.pid]
    while pending:
        pid = pending.pop()
        with contextlib.suppress(OSError):
            found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
            total += int(found[1]) if found else 0
            pending += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return total


def errors(hub: Hub) -> list[str]:
    """Failures of the hub's own that it logged. A foreign Host is the caller's, whatever Django calls it."""
    lines = hub.log().splitlines()
    return [line for line in lines if re.search(r"\[(error|critical) *\]", line) and "DisallowedHost" not in line]


@contextlib.contextmanager
def running(folder: Path) -> Iterator[tuple[Hub, str]]:
    """A hub with the tools that the requests name, and a key that may do everything."""
    with Hub(folder, packs=["starter", FIXTURES], environment={"MCPHUB_EGRESS_ALLOW": ""}) as hub:
        key = hub.operate(operations.issue_key, "mutations")
        with Speaker(hub.url, key) as speaker:
            servers.until(lambda: speaker.modern("server/discover").status_code == 200)
        yield hub, key


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--count", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--entry-point", action="append", choices=ENTRY_POINTS)
    chosen = options.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder, running(Path(folder)) as (hub, key):
        for name in chosen.entry_point or ENTRY_POINTS:
            began = time.monotonic()
            tally = run(hub, key, name, chosen.count, chosen.seed)
            statuses = ", ".join(f"{status}: {number}" for status, number in sorted(tally.statuses.items()))
            took, size = time.monotonic() - began, resident_kib(hub) // 1024
            print(f"{name}: {chosen.count} in {took:.0f} s, {size} MiB; {statuses}")
            for offence in tally.offences[:_SHOWN_OFFENCES]:
                print("  WRONG", offence)
            failed = failed or bool(tally.offences)
        for line in errors(hub)[:_SHOWN_OFFENCES]:
            print("  LOGGED", line)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
