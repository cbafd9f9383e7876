"""The calls under way in this process: their deadlines, their cancellation, the clients that went away.

One supervisor looks at all of them a few times a second, so that a call which ends at once pays for no timer
and no task of its own. A call is only ever cancelled while its backend runs: what is recorded stays so.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Literal

Why = Literal["timeout", "cancelled"]
Watch = Callable[[], Awaitable[None]]
"""Returns when the client has gone."""

_TICK_SECONDS = 0.05


class Running:
    """One call under way."""

    __slots__ = (
        "deadline", "finished", "interrupted", "invocation_id", "request", "task", "watch", "watcher", "why",
    )  # fmt: skip

    def __init__(self, invocation_id: str, request: tuple[str, str] | None, watch: Watch | None) -> None:
        self.invocation_id = invocation_id
        self.request = request
        """Session id and JSON request id: how a client names the call that it cancels."""
        self.watch = watch
        self.watcher: asyncio.Task[None] | None = None
        self.task: asyncio.Task[object] | None = None
        """Set while the backend runs; None before and after."""
        self.deadline = 0.0
        self.why: Why | None = None
        self.interrupted = False
        """The task was cancelled for `why`."""
        self.finished: asyncio.Event | None = None

    def cancel(self, why: Why) -> None:
        """Stop the backend, if it runs. Called on the event loop."""
        if self.why is None:
            self.why = why
            if self.task is not None:
                self.interrupted = self.task.cancel()


class RunningCalls:
    def __init__(self) -> None:
        self._calls: dict[str, Running] = {}
        self._supervisor: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def start(self) -> None:
        self._supervisor = asyncio.create_task(self._supervise(), name="mcphub-calls")

    async def stop(self) -> None:
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor

    async def drained(self, seconds: float) -> bool:
        """Wait until nothing runs; False when something still did after `seconds`."""
        until = time.monotonic() + seconds
        while self._calls and time.monotonic() < until:  # noqa: ASYNC110 - an event would cost every call
            await asyncio.sleep(_TICK_SECONDS)
        return not self._calls

    def add(self, running: Running) -> None:
        self._calls[running.invocation_id] = running

    def remove(self, running: Running) -> None:
        self._calls.pop(running.invocation_id, None)
        if running.watcher is not None:
            running.watcher.cancel()
        if running.finished is not None:
            running.finished.set()

    def cancel_all(self) -> None:
        for running in list(self._calls.values()):
            running.cancel("cancelled")

    def cancel_request(self, session_id: str, request_id: str) -> bool:
        """Cancel the call that a session named by its JSON request id; False where no backend runs for it here.

        One that waits for its intent is cancelled too, but may turn out to repeat a call of another process.
        """
        found = False
        for running in self._calls.values():
            if running.request == (session_id, request_id):
                found = found or running.task is not None
                running.cancel("cancelled")
        return found

    def end_of(self, invocation_id: str) -> asyncio.Event | None:
        """Give the event of a call's end, or None where it does not run in this process."""
        running = self._calls.get(invocation_id)
        if running is None:
            return None
        if running.finished is None:
            running.finished = asyncio.Event()
        return running.finished

    async def _supervise(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = time.monotonic()
            for running in list(self._calls.values()):
                if running.task is None:
                    continue
                if now >= running.deadline:
                    running.cancel("timeout")
                elif running.watch is not None and running.watcher is None:
                    running.watcher = asyncio.create_task(self._watch(running, running.watch))

    @staticmethod
    async def _watch(running: Running, watch: Watch) -> None:
        await watch()
        running.cancel("cancelled")
