"""Bodies on their way in, and the time that each may take.

One watcher looks at all of them a few times a second, so that a body which is there at once, as nearly all
are, pays for no timer of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

_TICK_SECONDS = 0.1


class Reading:
    """Tasks that read a body, with the moment (monotonic seconds) at which each is given up."""

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

    def begin(self, task: asyncio.Task[Any], seconds: float) -> None:
        self._until[task] = time.monotonic() + seconds

    def end(self, task: asyncio.Task[Any]) -> bool:
        """Stop watching; True where the time was over and the task was cancelled for it."""
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
