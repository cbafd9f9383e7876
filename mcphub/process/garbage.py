"""Collects garbage of a serving process by memory and by time: docs/develop/decisions.md, A23."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import time
from pathlib import Path

_LOOK_SECONDS = 2.0
_GROWN_BYTES = 64 * 1024 * 1024
_LONGEST_SECONDS = 300.0
_MOST_ARENAS, _MMAP_THRESHOLD = -8, -3
"""M_ARENA_MAX and M_MMAP_THRESHOLD of mallopt(3)."""
_LARGE_BYTES = 1024 * 1024


class GarbageWatch:
    """Sees to it that cycles go, however few objects are made beside them. One a process."""

    def __init__(self) -> None:
        self._held = _resident_bytes()
        self._collected_at = time.monotonic()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Collect if the process has grown, or did not collect for long."""
        now = _resident_bytes()
        self._held = min(self._held, now)
        if now - self._held >= _GROWN_BYTES or time.monotonic() - self._collected_at >= _LONGEST_SECONDS:
            gc.collect()
            _give_back()
            self._held, self._collected_at = _resident_bytes(), time.monotonic()


def share_one_heap() -> None:
    """Let all threads of this process and of its forks take memory from one heap, where there is glibc.

    By default each thread gets a heap of its own, which stays as large as its largest request. Threads that wait for
    the interpreter's lock hardly ever wait for the heap's. What is large, as the texts of a large result are, is mapped
    beside the heap and goes back to the system at once: by default the first one that is freed ends that, and the heap
    keeps room for several.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MOST_ARENAS, 1)
        library.mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)


def _give_back() -> None:
    """Return the pages that malloc holds and nobody uses back to the system, where the C library knows how (glibc).

    Otherwise its heap keeps its maximum size, and grows by fragmentation.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _resident_bytes() -> int:
    """Return the memory of this process; 0 if the system does not report it, so that only the time decides."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
