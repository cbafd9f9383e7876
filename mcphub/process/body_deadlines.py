"""The time that a request's body may take to arrive. One task watches all bodies: docs/develop/decisions.md, A10."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

_TICK_SECONDS = 0.1


class BodyDeadlines:
    """Tasks that read a body, and when each is cancelled (monotonic seconds)."""

    def __init__(self) -> None:
        self._until: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._watcher: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._watcher = asyncio.create_task(self._watch(), name="mcphub-bodies")

    async def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher

    def begin(self, task: asyncio.Task[object], seconds: float) -> None:
        self._until[task] = time.monotonic() + seconds

    def end(self, task: asyncio.Task[object]) -> bool:
        """Stop watching; True where the task was cancelled because its time was over."""
        self._until.pop(task, None)
        if task in self._late:
            self._late.discard(task)
            task.uncancel()
            return True
        return False

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = time.monotonic()
            for task, until in list(self._until.items()):
                if now >= until:
                    del self._until[task]
                    self._late.add(task)
                    task.cancel()
