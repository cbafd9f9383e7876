"""Child processes: their owners, their stop, and those that a dead hub left behind.

Every child carries the mark of the hub process that started it in its environment, and its own children inherit it.
So orphans are found in the process table and in nothing that could be lost with the hub; and as the mark names the
start time of its owner, a reused process number deceives nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger(__name__)

MARK = "MCPHUB_UPSTREAM_OF"
GRACE_SECONDS = 2.0
"""Between the end of a child's input and SIGTERM, and between SIGTERM and SIGKILL."""
_POLL_SECONDS = 0.02
_EXITING = 0x4
"""PF_EXITING of Linux's include/linux/sched.h, in the ninth field of /proc/PID/stat: flags."""


def start_mark(pid: int) -> str:
    """Return an identifier that distinguishes processes of one number: its start, in ticks since boot. Linux; else
    empty.

    One that has ended is gone, whether or not its parent has asked. So is one that is ending: its files, and with them
    its rights in the database, are closed a moment before it shows as ended.
    """
    try:
        state, *found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state in "ZX" or int(found[5]) & _EXITING else found[18]
    except (OSError, IndexError):
        return ""


def own_mark() -> str:
    """Return the mark of this process: number, start, boot and process namespace."""
    pid = os.getpid()
    return f"{pid}:{start_mark(pid)}:{_machine()}"


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def orphans() -> Iterator[int]:
    """Return the processes that a hub process of this user started which is no more. Linux; elsewhere none."""
    machine = _machine()
    own = os.getpid()
    needle = f"{MARK}=".encode()
    for entry in Path("/proc").iterdir() if machine else ():
        if not entry.name.isdecimal() or int(entry.name) == own:
            continue
        try:
            if os.getuid() not in (0, entry.stat().st_uid):  # a hub that is root starts children as other users
                continue
            found = next(
                (part for part in (entry / "environ").read_bytes().split(b"\0") if part.startswith(needle)), b""
            )
        except OSError:
            continue
        owner, _, rest = found.removeprefix(needle).decode("ascii", "replace").partition(":")
        started, _, where = rest.partition(":")
        if where == machine and owner.isdecimal() and started and start_mark(int(owner)) != started:
            yield int(entry.name)


def remove_orphans() -> int:
    """Kill the children that dead hubs left running on this machine; return the number. Blocks until they are gone.

    An unkillable one is awaited for `GRACE_SECONDS`: a hub's only child starts after the end of its predecessor.
    """
    dying: list[int] = []
    try:
        for pid in list(orphans()):
            with contextlib.suppress(OSError):
                dying.append(os.pidfd_open(pid))
                signal.pidfd_send_signal(dying[-1], signal.SIGKILL)
        if dying:
            logger.warning("%d child processes that a hub left behind were killed", len(dying))
        _await_the_end(dying)
    finally:
        for process in dying:
            os.close(process)
    return len(dying)


def _await_the_end(processes: list[int]) -> None:
    """Wait until all of these are gone, for as long as `GRACE_SECONDS`. A pidfd can be read once its process ended."""
    waiting = select.poll()
    for process in processes:
        waiting.register(process, select.POLLIN)
    left, deadline = len(processes), time.monotonic() + GRACE_SECONDS
    while left and (seconds := deadline - time.monotonic()) > 0:
        for process, _ in waiting.poll(seconds * 1000):
            waiting.unregister(process)
            left -= 1
    if left:
        logger.error("%d child processes that a hub left behind cannot be killed", left)


async def stop(process: asyncio.subprocess.Process, *, at_once: bool = False) -> None:
    """End a child and all that it started: its input ends, then SIGTERM, then SIGKILL to its process group.

    It leads a group of its own, so its number is that of the group, also once it is gone itself. `at_once` omits the
    signals that it could ignore.
    """
    if process.stdin is not None:
        process.stdin.close()
    if not at_once and not await _ends(process):
        _signal(process.pid, signal.SIGTERM)
        await _ends(process)
    deadline = time.monotonic() + GRACE_SECONDS
    while _signal(process.pid, signal.SIGKILL) or process.returncode is None:
        if time.monotonic() > deadline:
            logger.error("The child process %d cannot be killed", process.pid)
            break
        await asyncio.sleep(_POLL_SECONDS)


async def _ends(process: asyncio.subprocess.Process) -> bool:
    # Not process.wait(): that also waits for the end of pipes, which a grandchild may hold open.
    deadline = time.monotonic() + GRACE_SECONDS
    while process.returncode is None:
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True


def _signal(group: int, number: int) -> bool:
    """Signal a process group; return whether there was one."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # macOS says so of a group of zombies
    return True
