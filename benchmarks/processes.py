"""What /proc says of a server and its children: processor time and memory. Linux only."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """Give the process and all that descend from it."""
    found = [pid]
    for each in found:
        try:
            for task in Path(f"/proc/{each}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue  # it ended meanwhile
    return found


def processor_seconds(pids: list[int]) -> float:
    """Give the processor time, user and system, that these processes have used so far."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


def resident_kib(pids: list[int]) -> int:
    """Give the resident memory of these processes. Pages that several share count for each."""
    total = 0
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)
    return total
