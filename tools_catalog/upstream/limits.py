"""Bounds on what an upstream may send. Pure."""

from __future__ import annotations

import time

_WINDOW_SECONDS = 10.0


class Flood:
    """Counts events of a stream that has no end: so many may come in ten seconds."""

    __slots__ = ("_began", "_count", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._began = time.monotonic()

    def is_over(self, count: int = 1) -> bool:
        """Count, and tell whether that was too much."""
        now = time.monotonic()
        if now - self._began > _WINDOW_SECONDS:
            self._began, self._count = now, 0
        self._count += count
        return self._count > self._limit
