"""Tasks that an upstream makes of calls (MCP 2026-07-28, Tasks), followed here to their end.

For the client the call is one call: it gets a task of the hub's where it can follow one, and waits otherwise. The
task's questions go to the client, and the end of the call here ends the task there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from sessions_app.protocol import errors
from sessions_app.protocol.tasks import EXTENSION, TaskState
from tools_catalog.call.base import Json
from tools_catalog.call.context import ToolContext
from tools_catalog.upstream import bridge, upstream_errors
from tools_catalog.upstream.asking import Asking
from tools_catalog.upstream.results import check

logger = logging.getLogger(__name__)

NEEDED: Final[Mapping[str, Json]] = {"extensions": {EXTENSION: {}}}
"""The capability demanded by an upstream whose tool is a task only."""

_RESUMES: Final = "upstream task "
"""Begins the name that a client without sessions brings back with its answers; the task's id follows."""
_LONGEST_ID: Final = 1000
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.05, 5.0
"""Between two looks at a task."""
MOST_FAILURES: Final = 10
"""Looks in a row that may fail before the task is given up: a connection comes back."""
_LAST_WORD_SECONDS: Final = 2.0

Send = Callable[[str, dict[str, Json]], Awaitable[dict[str, Json]]]


def resumed(context: ToolContext) -> str:
    """Return the task that the client comes back to with answers; empty where there is none."""
    name = context.suspension.resume_token
    return name.removeprefix(_RESUMES) if name.startswith(_RESUMES) else ""


def is_task(result: Mapping[str, Json]) -> bool:
    return result.get("resultType") == "task"


def needs_tasks(error: errors.UpstreamError) -> bool:
    """Return whether the upstream refused the call because its client does not follow tasks. Nothing ran."""
    return isinstance(error, upstream_errors.CapabilityMissing) and upstream_errors.covers(
        NEEDED, error.details["needs"]
    )


def id_of(result: Mapping[str, Json]) -> str:
    """Return the id of the task that a call was answered with. Raises ResultInvalid."""
    task_id = result.get("taskId")
    if not isinstance(task_id, str) or not 0 < len(task_id) <= _LONGEST_ID:
        raise errors.ResultInvalid("The upstream answered with a task that has no id.")
    return task_id


class TaskLost(errors.TransportError):
    """The connection broke, and on the next one the upstream does not know the task."""

    def __init__(self) -> None:
        super().__init__("The connection broke within the call, and the upstream does not know its task any more.")


class TaskWatch:
    """The interface for following a task in either form. `send` makes a request of the same upstream."""

    pause_member = "pollIntervalMs"
    """The task's member with the delay before the next look."""

    def __init__(self, task_id: str, send: Send, context: ToolContext) -> None:
        self._id = task_id
        self._send = send
        self._context = context
        self._pause = _SHORTEST_SECONDS
        self._step = 0
        self._message = ""

    async def look(self) -> dict[str, Json]:
        """Return the task as it is now. Raises the errors of `send`, a connection's errors only after many tries."""
        failures = 0
        while True:
            try:
                return await self._send("tasks/get", {"taskId": self._id})
            except TaskLost:
                raise
            except (errors.ConnectionFailed, errors.TransportError):
                failures += 1
                if failures == MOST_FAILURES:
                    raise
                await asyncio.sleep(min(2**failures * _SHORTEST_SECONDS, _LONGEST_SECONDS))

    def pause_after(self, task: Mapping[str, Json]) -> float:
        """Return the seconds until it is time for the next look."""
        asked_for = task.get(self.pause_member)
        seconds = self._pause
        if isinstance(asked_for, int | float) and asked_for == asked_for:
            # Bounded before it is divided: a large integer may have no float.
            seconds = max(_SHORTEST_SECONDS * 1000, min(asked_for, _LONGEST_SECONDS * 1000)) / 1000
        self._pause = min(2 * self._pause, _LONGEST_SECONDS)
        return seconds

    async def tell(self, task: Mapping[str, Json]) -> None:
        """Forward the task's status message, if it is new."""
        words = task.get("statusMessage")
        if isinstance(words, str) and words != self._message:
            self._message = words
            self._step += 1
            await self._context.notifier.progress(self._step, None, words)

    async def cancel(self) -> None:
        """End the task at the upstream after its call has ended here."""
        try:
            async with asyncio.timeout(_LAST_WORD_SECONDS):
                await self._send("tasks/cancel", {"taskId": self._id})
        except (TimeoutError, errors.HubError) as error:
            logger.info("A task of an upstream could not be cancelled: %s", error)


class TaskFollower(TaskWatch):
    """One task of the upstream, for one call."""

    def __init__(self, task_id: str, send: Send, context: ToolContext, asking: Asking) -> None:
        super().__init__(task_id, send, context)
        self._may = asking
        self._asked: set[str] = set()
        self._asking: asyncio.Task[dict[str, Json]] | None = None

    async def end(self) -> dict[str, Json]:
        """Return the result of the task. Cancelled, it cancels the task, unless the client comes back to it.

        Raises UpstreamError, ResultInvalid, ConnectionFailed, TransportError, and the errors of asking.
        """
        context = self._context
        try:
            await context.task.begin()
            while True:
                task = await self.look()
                match task.get("status"):
                    case TaskState.COMPLETED:
                        return _result_of(task)
                    case TaskState.FAILED:
                        error = _error_of(task)
                        error.fails_task = context.task.is_possible
                        raise error
                    case TaskState.CANCELLED:
                        raise errors.UpstreamError("The upstream cancelled the task of this call.")
                    case TaskState.INPUT_REQUIRED:
                        self._ask(task)
                    case TaskState.WORKING:
                        await self.tell(task)
                    case other:
                        raise errors.ResultInvalid(f"The upstream's task has the state {str(other)[:50]!r}.")
                await self._wait(task)
        except BaseException as error:
            if self._asking is not None:
                self._asking.cancel()
                await asyncio.gather(self._asking, return_exceptions=True)
            if (
                isinstance(error, asyncio.CancelledError)
                and context.suspension.is_suspended
                and context.suspension.resume_with(self._name)
            ):
                raise
            if not isinstance(error, errors.UpstreamError | errors.ResultInvalid):
                await self.cancel()
            raise

    @property
    def _name(self) -> str:
        return f"{_RESUMES}{self._id}"

    def _ask(self, task: Mapping[str, Json]) -> None:
        """Ask new questions; later ones wait for the answers to these."""
        requests = task.get("inputRequests")
        if not isinstance(requests, dict) or not requests:
            raise errors.ResultInvalid("The upstream's task wants answers and asks nothing.")
        new = {key: request for key, request in requests.items() if key not in self._asked}
        if new and self._asking is None:
            self._asked |= new.keys()
            self._asking = asyncio.create_task(bridge.asked(new, self._context, self._may))

    async def _wait(self, task: Mapping[str, Json]) -> None:
        """Wait until it is time for the next look; send answers that came meanwhile."""
        seconds = self.pause_after(task)
        if self._asking is None:
            await asyncio.sleep(seconds)
            return
        await asyncio.wait({self._asking}, timeout=seconds)
        if self._asking.done():
            answers, self._asking = self._asking.result(), None
            await self._send("tasks/update", {"taskId": self._id, "inputResponses": answers})


def _result_of(task: Mapping[str, Json]) -> dict[str, Json]:
    result = task.get("result")
    if not isinstance(result, dict):
        raise errors.ResultInvalid("The upstream's task is completed and has no result.")
    check(result)
    return {**result, "resultType": "complete"}


def _error_of(task: Mapping[str, Json]) -> errors.ToolFailure:
    error: Any = task.get("error")
    if not isinstance(error, dict) or not isinstance(error.get("code"), int):
        return errors.ResultInvalid("The upstream's task failed and says no error.")
    return upstream_errors.upstream_error(error["code"], str(error.get("message", "")), error.get("data"))
