"""Processes that a hub started."""

from __future__ import annotations

from pathlib import Path

LAUNCHER = "/confinement/launcher.py"
"""In the command line of a child until it is the server itself. To try mounts it copies itself for an instant."""


def processes(words: str, *, without: str | None = None) -> list[int]:
    """Every process whose command line holds these words, and not those of `without`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if words in line and (without is None or without not in line):
                found.append(int(entry.name))
    return found


def seen(words: str, *, without: str) -> list[str]:
    """What the system says of each of them: number, state, parent, command line."""
    told = []
    for number in processes(words, without=without):
        try:
            stat, line = (Path(f"/proc/{number}/{name}").read_bytes().decode() for name in ("stat", "cmdline"))
        except OSError:
            continue
        if words in line.replace("\0", " "):  # else it ended while the others were looked for
            told.append(f"{number} {stat.rpartition(')')[2][:40]} {line}")
    return told
