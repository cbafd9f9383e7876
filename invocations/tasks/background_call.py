"""One call that may become a task: it runs in a coroutine of its own, which its request need not outlive.

at once the task is created before the tool runs when late the call is answered like any other if it ends soon; else
it becomes a task under way when told the tool decides: `await context.begin_task()`; its earlier questions go the
ordinary way
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from channels.db import database_sync_to_async
from django.conf import settings

from invocations.call.call import Call
from invocations.call.context import CallContext
from invocations.call_source import NULL_CHANNEL, CallSource, ClientChannel
from invocations.calling import CallResult
from invocations.tasks import store
from sessions_app.kit.database import persistently
from sessions_app.protocol.errors import Cancelled, DuplicateRequest, HubError, Interrupted, ServerBusy, ServerError
from sessions_app.protocol.json import Json
from sessions_app.protocol.tasks import Task, TaskState
from tools_catalog.call.base import ToolResult

if TYPE_CHECKING:
    from invocations.tasks.registry import TaskRegistry

logger = logging.getLogger(__name__)

_NOTE_SECONDS = 1.0
"""A task's progress is written at most this often for pollers."""
_LOOK_SECONDS = 30
"""Time limit for reading the row of a task while the database is away, after news of it or before a notification."""
_TRIES = 30
"""How often the end of a task is tried to be written, a second apart, before it is left to recovery."""


class TaskNotifier(ClientChannel):
    """How a task speaks to the session that made it, where its revision has a way."""

    async def status(self, task: Task) -> None:
        """Return the state of the task."""
        ...


MakeNotifier = Callable[[Task], TaskNotifier | None]


class TaskStart(Enum):
    AT_ONCE = auto()
    WHEN_LATE = auto()
    WHEN_TOLD = auto()


class BackgroundCall:
    """Created for one call, whose runner is `run`."""

    def __init__(
        self,
        registry: TaskRegistry,
        source: CallSource,
        start: TaskStart,
        *,
        ttl_ms: float | None = None,
        request_key: str | None = None,
        request_digest: str = "",
        make_notifier: MakeNotifier | None = None,
    ) -> None:
        self.start = start
        self.source = source
        self.task: Task | None = None
        """As it was made; None before, and where the call never became one."""
        self.made: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        self._registry = registry
        self._ttl_ms = ttl_ms
        self.request_digest = request_digest
        self._request_key = request_key
        self._make_notifier = make_notifier
        self.taken: store.TaskTaken | None = None
        """The task that the same request made before."""
        self._notifier: TaskNotifier | None = None
        self._making: asyncio.Task[Task] | None = None
        self._call: Call | None = None
        self._context: CallContext | None = None
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._deadline = math.inf
        self._is_late = False
        """It was to be a task before its backend ran."""
        self._message = ""
        self._noted = 0.0
        self._cancelled_by_caller = False

    # The call's side -------------------------------------------------------------------------------

    async def run(self, call: Call, arguments: dict[str, Json], context: CallContext) -> ToolResult:
        """Run the backend, in a task from the moment set by `begin`."""
        self._call, self._context = call, context
        context.background = self
        self._deadline = call.work.deadline
        if self.start is TaskStart.AT_ONCE:
            try:
                await self.become_task()
            except store.TaskTaken as taken:
                self.taken = taken
                raise DuplicateRequest(first=taken.task.invocation_id) from None
        else:
            ordinary = time.monotonic() + settings.MCPHUB_CALL_TIMEOUT_SECONDS
            call.work.deadline = min(call.work.deadline, ordinary)
            if self._is_late:
                with contextlib.suppress(ServerBusy):  # no room for another task: it is answered when it ends
                    await self.become_task()
        return await call.tool.backend.call(arguments, context)

    async def become_task(self) -> Task:
        """Make the task durably, once; raise ServerBusy at the caller's bound, TaskTaken for a repeated request.

        Before the tool runs, its call creates the task.
        """
        if self._call is None:
            self._is_late = True
            return await asyncio.shield(self.made)
        if self._making is None:
            self._making = asyncio.create_task(self._make())
        return await asyncio.shield(self._making)

    async def _make(self) -> Task:
        call, context = self._call, self._context
        assert call is not None
        assert context is not None
        draft = store.TaskDraft(
            source=self.source,
            invocation_id=call.invocation_id,
            process_id=self._registry.process_id,
            tool_name=call.tool.name,
            ttl_ms=self._registry.ttl_ms(self._ttl_ms, call.tool),
            poll_ms=self._registry.poll_ms,
            request_key=self._request_key,
            request_digest=self.request_digest,
            message=self._shown_message(self._message),
        )
        task = await database_sync_to_async(store.create)(draft)
        self.task = task
        self._registry.hold(task.task_id, self)
        # The request is answered now: its stream is gone, and its end says nothing about the call.
        call.work.forget_client()
        self._notifier = self._make_notifier(task) if self._make_notifier is not None else None
        context.channel = self._notifier or NULL_CHANNEL
        call.work.deadline = min(self._deadline, time.monotonic() + task.ttl_ms / 1000)
        self.made.set_result(task)
        return task

    # The tool's side -------------------------------------------------------------------------------

    is_possible = True

    @property
    def has_begun(self) -> bool:
        return self.task is not None

    async def begin(self) -> None:
        """Be a task from now on, unless the call is one already."""
        await self.become_task()

    async def note(self, message: str) -> None:
        """Show a message to pollers of the task; a flood is thinned out."""
        self._message = message
        now = time.monotonic()
        if self.task is not None and now - self._noted >= _NOTE_SECONDS:
            self._noted = now
            await database_sync_to_async(store.note)(self.task.task_id, self._shown_message(message))

    async def ask(self, requests: Mapping[str, dict[str, Json]]) -> dict[str, Json]:
        """Put requests {key: {method, params}} to the client and wait for all answers, however they come.

        The time that the client takes does not count as the tool's; the task's lifetime bounds it.
        """
        task, call = await self.become_task(), self._call
        assert call is not None
        waiting = {key: asyncio.get_running_loop().create_future() for key in requests}
        self._answers |= waiting
        began = time.monotonic()
        left = call.work.deadline - began
        call.work.deadline = self._registry.end_of_life(task)
        try:
            bodies = call.record.bodies
            shown = {} if bodies is None else bodies.beside(dict(requests))
            if not await database_sync_to_async(store.ask)(task.task_id, requests, shown or requests):
                raise Cancelled
            await self._told()
            answers = {key: await future for key, future in waiting.items()}
            await self._told()
            return answers
        except asyncio.CancelledError:
            if call.work.why is None:  # the tool itself waits no longer
                await database_sync_to_async(store.withdraw)(task.task_id, list(requests))
            raise
        finally:
            for key in waiting:
                self._answers.pop(key, None)
            call.work.deadline = min(time.monotonic() + left, self._registry.end_of_life(task))

    # The registry's side -----------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Whether it cannot go on before the client has answered."""
        return bool(self._answers)

    def stop(self, *, by_caller: bool) -> None:
        """Cancel the call."""
        self._cancelled_by_caller = self._cancelled_by_caller or by_caller
        if self._call is not None:
            self._call.work.cancel("cancelled")

    async def catch_up(self) -> None:
        """Apply decisions of others from the row: a cancellation, or answers to questions."""
        assert self.task is not None
        row = await persistently(_LOOK_SECONDS, store.look, self.task.task_id)
        if row is None or row.state is TaskState.CANCELLED:
            self.stop(by_caller=row is not None)
            return
        if self._answers:
            answers = await persistently(_LOOK_SECONDS, store.answers_of, self.task.task_id)
            for key, future in self._answers.items():
                if key in answers and not future.done():
                    future.set_result(answers[key])

    async def settle(self, outcome: CallResult | BaseException) -> None:
        """Bring the task, if the call became one, to its end: the call's outcome is on record."""
        if self._making is None:
            return
        try:
            task = await self._making
        except Exception:  # told to whoever made the call
            return
        try:
            end = self._end(outcome)
            for attempt in range(_TRIES):
                try:
                    await database_sync_to_async(store.settle)(task.task_id, **self._recorded(end))
                    break
                except Exception as error:
                    logger.warning("The end of a task could not be written (%d): %s", attempt + 1, error)
                    await asyncio.sleep(1)
            await self._told()
        finally:
            self._registry.release(task.task_id)

    def _end(self, outcome: CallResult | BaseException) -> dict[str, Json]:
        stopped = self._call is not None and self._call.work.why == "cancelled"
        if stopped and not self._cancelled_by_caller:
            outcome = Interrupted()
        elif stopped and isinstance(outcome, CallResult):
            return {"state": TaskState.CANCELLED, "result": self._with_id(outcome.wire)}
        if isinstance(outcome, CallResult):
            return {"state": TaskState.COMPLETED, "result": self._with_id(outcome.wire)}
        if not isinstance(outcome, HubError):
            outcome = ServerError()
        rendered = self._registry.render(outcome, self.invocation_id)
        return {"state": TaskState.FAILED, "error": rendered, "message": rendered["message"]}

    def _recorded(self, end: dict[str, Json]) -> dict[str, Json]:
        """Add the redacted form of the end for the row."""
        stored = None if self._call is None else self._call.record.bodies
        if stored is None:
            return end
        shown = {
            name: stored.beside(end[name], is_result=name == "result") for name in ("result", "error") if name in end
        }
        message = {"message": self._shown_message(end["message"])} if "message" in end else {}
        return {**end, **message, "shown": shown}

    def _shown_message(self, message: str) -> str:
        stored = None if self._call is None else self._call.record.bodies
        return message if stored is None else str(stored.beside({"message": message})["message"])

    async def _told(self) -> None:
        """Notify the waiters in this process, and the session, that the task has moved."""
        assert self.task is not None
        self._registry.wake(self.task.task_id)
        if self._notifier is not None:
            row = await persistently(_LOOK_SECONDS, store.look, self.task.task_id)
            if row is not None:
                await self._notifier.status(row)

    @property
    def invocation_id(self) -> str:
        return "" if self._call is None else self._call.invocation_id

    def _with_id(self, wire: dict[str, Json]) -> dict[str, Json]:
        return {**wire, "_meta": {**wire.get("_meta", {}), "mcphub/invocationId": self.invocation_id}}
