"""What the kernel says of a server and its children: processor time and memory. Linux only."""

from __future__ import annotations

import time
from pathlib import Path

_OF_A_PROCESS = 2
"""CPUCLOCK_SCHED of Linux: what its threads have run, those that ended, too."""


def tree(pid: int, without: str = "") -> list[int]:
    """Return the process and all that descend from it, but for those whose command has the word `without`."""
    found = [pid]
    for each in found:
        try:
            for task in Path(f"/proc/{each}/task").iterdir():
                children = [int(child) for child in (task / "children").read_text().split()]
                found += [child for child in children if not without or without not in _command(child)]
        except OSError:
            continue  # it ended meanwhile
    return found


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")


def processor_seconds(pids: list[int]) -> float:
    """Return the processor time, user and system, that these processes have used so far."""
    seconds = 0.0
    for pid in pids:
        try:
            # The clock of a whole process, in nanoseconds: /proc counts in hundredths, too coarse for short rounds.
            seconds += time.clock_gettime((~pid << 3) | _OF_A_PROCESS)
        except OSError:
            continue
    return seconds


def resident_kib(pids: list[int]) -> int:
    """Return the resident memory of these processes. Pages that several share count for each."""
    total = 0
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)
    return total
