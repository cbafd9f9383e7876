"""Tasks in the core form of MCP 2025-11-25: the caller of a tool requests one, follows it and fetches its result."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from sessions_app.protocol import errors
from sessions_app.protocol.tasks import RELATED, TaskState, TaskSupport
from tools_catalog.call.base import Json
from tools_catalog.call.context import ToolContext
from tools_catalog.upstream import tasks
from tools_catalog.upstream.results import check

_LONGEST_SECONDS: Final = 24 * 3600.0
_KEPT_SECONDS: Final = 3600.0
"""Beyond the call's own time: while a person is asked the call's clock stands still, the upstream's does not."""
_KIND: Final = "core task"
"""`resultType` of such an answer from here on. None of the protocol's: over there this form has no result types."""


def support_of(definition: Mapping[str, Json]) -> str:
    """Return a tool's support for tasks; *forbidden* without a valid statement."""
    execution = definition.get("execution")
    support = execution.get("taskSupport") if isinstance(execution, dict) else None
    return support if support in (TaskSupport.OPTIONAL, TaskSupport.REQUIRED) else TaskSupport.FORBIDDEN


def without_support(definition: Json) -> Json:
    """Return a tool of an upstream without the tasks capability: the tool's own statement is then void."""
    if not isinstance(definition, dict) or support_of(definition) == TaskSupport.FORBIDDEN:
        return definition
    return {name: value for name, value in definition.items() if name != "execution"}


def wanted(params: dict[str, Json], seconds: float) -> dict[str, Json]:
    """Return the params of a call as those of one that is to be a task, for a call with so much time left."""
    return {**params, "task": {"ttl": int((min(seconds, _LONGEST_SECONDS) + _KEPT_SECONDS) * 1000)}}


def read(result: dict[str, Json], *, asked_for: bool) -> dict[str, Json]:
    """Return the answer to a call; one that is a task in a shape of its own. Raises ResultInvalid."""
    task = result.get("task")
    if not isinstance(task, dict) or result.get("content"):
        return result
    if not asked_for:
        raise errors.ResultInvalid("The upstream made a task of a call that asked for none.")
    return {"resultType": _KIND, "taskId": tasks.id_of(task)}


def is_task(result: Mapping[str, Json]) -> bool:
    return result.get("resultType") == _KIND


def related(meta: Mapping[str, Json] | None) -> str:
    """Return the id of the task that a message is about; empty where it names none."""
    named = meta.get(RELATED) if meta else None
    task_id = named.get("taskId") if isinstance(named, dict) else None
    return task_id if isinstance(task_id, str) else ""


class CoreTaskFollower(tasks.TaskWatch):
    """One task of the upstream, for one call. Its questions come as requests of the upstream, while its result is
    awaited.
    """

    pause_member = "pollInterval"

    def __init__(self, task_id: str, send: tasks.Send, context: ToolContext) -> None:
        super().__init__(task_id, send, context)
        self._fetching: asyncio.Future[dict[str, Json]] | None = None
        self._failures = 0

    async def end(self) -> dict[str, Json]:
        """Return the result of the task. Cancelled, it cancels the task.

        Raises UpstreamError, ResultInvalid, ConnectionFailed, TransportError.
        """
        try:
            while True:
                task = await self.look()
                match task.get("status"):
                    case TaskState.WORKING:
                        await self.tell(task)
                    case TaskState.INPUT_REQUIRED | TaskState.COMPLETED | TaskState.FAILED:
                        self._fetch()
                    case TaskState.CANCELLED:
                        raise errors.UpstreamError("The upstream cancelled the task of this call.")
                    case other:
                        raise errors.ResultInvalid(f"The upstream's task has the state {str(other)[:50]!r}.")
                result = await self._wait(task)
                if result is not None:
                    return _whole(result, task)
        except BaseException as error:
            if not isinstance(error, errors.UpstreamError | errors.ResultInvalid):
                await self.cancel()
            raise
        finally:
            if self._fetching is not None:
                self._fetching.cancel()
                await asyncio.gather(self._fetching, return_exceptions=True)

    def _fetch(self) -> None:
        """Ask for the result. Where it is not there yet, the upstream asks its questions on the way to it."""
        if self._fetching is None:
            self._fetching = asyncio.ensure_future(self._send("tasks/result", {"taskId": self._id}))

    async def _wait(self, task: Mapping[str, Json]) -> dict[str, Json] | None:
        """Wait until the result is there, or it is time for the next look."""
        seconds = self.pause_after(task)
        if self._fetching is None:
            await asyncio.sleep(seconds)
            return None
        await asyncio.wait({self._fetching}, timeout=seconds)
        if not self._fetching.done():
            return None
        try:
            return self._fetching.result()
        except (errors.ConnectionFailed, errors.TransportError):
            self._fetching = None
            self._failures += 1
            if self._failures == tasks.MOST_FAILURES:
                raise
            await asyncio.sleep(seconds)
            return None
        except errors.UpstreamError as error:
            error.fails_task = self._context.task.is_possible
            raise


def _whole(result: dict[str, Json], task: Mapping[str, Json]) -> dict[str, Json]:
    check(result)
    if "content" in result:
        return {**result, "resultType": "complete"}
    if task.get("status") == TaskState.COMPLETED:
        raise errors.ResultInvalid("The upstream's task is completed and has no result.")
    words = str(task.get("statusMessage") or "It does not say why.")[:1000]  # so servers on Python's SDK 1.x
    raise errors.UpstreamError(f"The upstream's task failed: {words}")
