"""The tasks of one process: those that run here, and waiters for news of any."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.utils import timezone

from invocations.calling import CallResult, Calls
from invocations.configuration import Configuration
from invocations.exchange import CallExchange, CallRequest
from invocations.tasks import store
from invocations.tasks.background_call import BackgroundCall, TaskStart
from sessions_app.protocol.errors import HubError, Interrupted, ServerBusy
from sessions_app.protocol.json import Json
from sessions_app.protocol.tasks import Task
from tools_catalog.catalog.snapshot import Tool

logger = logging.getLogger(__name__)


POLL_MS = 1000
"""The poll interval sent to clients."""
_SHORTEST_TTL_MS = 1000
WAITING_PER_TASK = 20
"""Requests that may wait in one process for one task."""
_LAST_WORDS_SECONDS = 5


class TaskRegistry:
    """One a process, on its event loop."""

    def __init__(self, calls: Calls, process_id: str, configuration: Callable[[], Configuration]) -> None:
        self.process_id = process_id
        self.poll_ms = POLL_MS
        self._calls = calls
        self._configuration = configuration
        self._held: dict[str, BackgroundCall] = {}
        self._works: set[asyncio.Task[Any]] = set()
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._claimed: set[tuple[str, str]] = set()

    # Calls -----------------------------------------------------------------------------------------

    async def run(self, call: BackgroundCall, request: CallRequest, exchange: CallExchange) -> CallResult | Task:
        """Make a call by `call_tool`; give its result, or the task that it became.

        Raises the errors of `call_tool`. A caller that leaves cancels a call that is not a task yet. A call under a
        key that was used before gives the task of the first one, if that became one.
        """
        key = request.idempotency_key
        work = self._spawn(self._work(call, request, exchange))
        made = call.made
        grace = settings.MCPHUB_TASK_AFTER_SECONDS if key or call.start is TaskStart.WHEN_LATE else None
        try:
            done, _ = await asyncio.wait({work, made}, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
            if not done and key and (first := await database_sync_to_async(store.first_under)(call.source, key)):
                return first
            if not done and call.start is not TaskStart.WHEN_LATE:
                await asyncio.wait({work, made}, return_when=asyncio.FIRST_COMPLETED)
            elif not done:
                with contextlib.suppress(ServerBusy):  # no room for another task: it is answered when it ends
                    making = asyncio.ensure_future(call.become_task())
                    await asyncio.wait({work, making}, return_when=asyncio.FIRST_COMPLETED)
                    if making.done():
                        return making.result()
                    making.cancel()
                await asyncio.wait({work, made}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if call.task is None:
                work.cancel()
            raise
        if made.done():
            return made.result()
        outcome: CallResult = work.result()
        if outcome.duplicate_of and call.start is TaskStart.AT_ONCE and key:
            return await database_sync_to_async(store.first_under)(call.source, key) or outcome
        return outcome

    async def _work(self, call: BackgroundCall, request: CallRequest, exchange: CallExchange) -> CallResult:
        try:
            outcome = await self._calls.call_tool(request, exchange)
        except asyncio.CancelledError:
            await call.settle(Interrupted())
            raise
        except Exception as error:
            if not isinstance(error, HubError):
                logger.exception("A call that may be a task failed")
            await call.settle(error)
            raise
        await call.settle(outcome)
        return outcome

    async def cancel(self, task_id: str, owner: store.Owner) -> tuple[Task, bool]:
        """Cancel an open task wherever it runs; give it as it is now, and whether it was open.

        Raises InvalidParams for a task that is not the owner's.
        """
        task = await database_sync_to_async(store.find)(task_id, owner)
        if task.is_over:
            return task, False
        was_open = await database_sync_to_async(store.cancel)(task_id, task.invocation_id, self._configuration().errors)
        self.heard(task_id)
        return await database_sync_to_async(store.find)(task_id, owner), was_open

    def render(self, error: HubError, invocation_id: str) -> dict[str, Json]:
        return self._configuration().errors.render(error, invocation_id=invocation_id)

    @staticmethod
    def ttl_ms(wanted: float | None, tool: Tool) -> int:
        """Return a lifetime within the bounds; by default the tool's time limit, and a while to fetch the result."""
        longest = settings.MCPHUB_MAX_TASK_TTL_SECONDS * 1000
        if wanted is None:
            wanted = (tool.timeout_seconds + settings.MCPHUB_TASK_TTL_SECONDS) * 1000
        return math.ceil(max(_SHORTEST_TTL_MS, min(wanted, longest)))

    @staticmethod
    def end_of_life(task: Task) -> float:
        """When the task's lifetime is over, on the monotonic clock."""
        age = (timezone.now() - task.created_at).total_seconds()
        return time.monotonic() + task.ttl_ms / 1000 - age

    # News ------------------------------------------------------------------------------------------

    def heard(self, task_id: str) -> None:
        """Apply a bus message about a task."""
        self.wake(task_id)
        call = self._held.get(task_id)
        if call is not None:
            self._spawn(call.catch_up())

    def wake(self, task_id: str) -> None:
        for event in self._waiting.get(task_id, ()):
            event.set()

    @contextlib.contextmanager
    def watching(self, task_id: str, most: float = WAITING_PER_TASK) -> Iterator[asyncio.Event]:
        """Return an event that is set whenever the task moves; raise ServerBusy where `most` wait for it."""
        events = self._waiting.setdefault(task_id, set())
        if len(events) >= most:
            raise ServerBusy(f"{len(events)} requests wait for this task already. Poll it by tasks/get.")
        event = asyncio.Event()
        events.add(event)
        try:
            yield event
        finally:
            events.discard(event)
            if not events:
                self._waiting.pop(task_id, None)

    def claim(self, task_id: str, key: str) -> bool:
        """Take it on to ask a task's question on one stream; False where another stream of this process does."""
        if (task_id, key) in self._claimed:
            return False
        self._claimed.add((task_id, key))
        return True

    def unclaim(self, task_id: str, key: str) -> None:
        self._claimed.discard((task_id, key))
        self.wake(task_id)  # another stream may ask it now

    def hold(self, task_id: str, call: BackgroundCall) -> None:
        self._held[task_id] = call

    def release(self, task_id: str) -> None:
        self._held.pop(task_id, None)

    # The end ---------------------------------------------------------------------------------------

    def drain(self) -> None:
        """End tasks that wait for their clients, and so cannot end by themselves, before the hub stops."""
        for call in list(self._held.values()):
            if call.is_waiting:
                call.stop(by_caller=False)
        for task_id in list(self._waiting):
            self.wake(task_id)

    async def stop(self) -> None:
        """Let the ends of tasks be written; their calls are over."""
        if self._works:
            await asyncio.wait(self._works, timeout=_LAST_WORDS_SECONDS)
        for work in list(self._works):
            work.cancel()
        await asyncio.gather(*self._works, return_exceptions=True)

    def _spawn(self, coroutine: Coroutine[object, object, object]) -> asyncio.Task[Any]:
        work = asyncio.create_task(coroutine)
        self._works.add(work)
        work.add_done_callback(self._ended)
        return work

    def _ended(self, work: asyncio.Task[object]) -> None:
        self._works.discard(work)
        if not work.cancelled() and (error := work.exception()) is not None and not isinstance(error, HubError):
            logger.error("A task's coroutine failed", exc_info=error)


__all__ = ["BackgroundCall", "TaskRegistry", "TaskStart"]
