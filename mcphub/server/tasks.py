"""Tasks: the methods by which clients follow what `tools/call` answered with a handle.

The core form of 2025-11-25, where a client waits for the result, and the extension of 2026-07-28, where it polls
and updates. The tasks themselves are the same; how a call becomes one is in `tasking`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Mapping
from typing import Any

from channels.db import database_sync_to_async
from django.core import signing
from django.db import DatabaseError

from invocations import repeats
from invocations.tasks import store
from mcphub.server.answers import IDENTITY
from mcphub.server.context import RequestContext, Result
from mcphub.server.listening import Stream
from sessions_app.protocol import jsonrpc, revisions, shapes, tasks
from sessions_app.protocol.errors import InvalidParams, MethodNotFound, MissingClientCapability, ServerBusy
from sessions_app.protocol.tasks import Task, TaskState
from tools_catalog.backends.questions import Relayed

logger = logging.getLogger(__name__)

PAGE = 50
_PATIENCE_SECONDS = 5
"""News of a task comes over the change bus; so often it is looked for without."""
_FOLLOWED = 100
"""Tasks that one subscription may name."""


async def tasks_get(context: RequestContext, params: dict[str, Any]) -> Result:
    task = await _find(context, params)
    if context.revision.stateless:
        return {"resultType": "complete", **_detailed(context.revision, task), "_meta": IDENTITY}
    return tasks.core(task)


async def tasks_result(context: RequestContext, params: dict[str, Any]) -> Result:
    """Wait for the end of a task, wherever it runs, and answer as its call would have (MCP 2025-11-25, Tasks).

    What the task asks meanwhile goes out on the stream of this request.
    """
    task = await _find(context, params)
    if not task.is_over:
        watcher = asyncio.ensure_future(context.watch()) if context.watch is not None else None
        relay = Relay(context, task.task_id)
        try:
            with context.hub.tasks.watching(task.task_id) as moved:
                while not (task := await _find(context, params)).is_over:
                    if context.hub.is_draining:
                        busy = ServerBusy("The hub stops. Ask for the result again in a moment.")
                        busy.retry_after_seconds = 1
                        raise busy
                    await relay.show(task.requests)
                    await _moves(moved)
        finally:
            relay.close()
            if watcher is not None:
                watcher.cancel()
    if task.state is TaskState.FAILED:
        raise repeats.error_of(task.error or {}, task.invocation_id)
    result = task.result or {}
    return shapes.result_for(context.revision, {**result, "_meta": tasks.related(result.get("_meta"), task.task_id)})


class Relay:
    """What a task asks, as requests on the stream of one `tasks/result`; the answers go to the task.

    Of several streams in this process, one asks each question.
    """

    def __init__(self, context: RequestContext, task_id: str) -> None:
        self._context = context
        self._task_id = task_id
        self._open: dict[str, asyncio.Task[None]] = {}

    async def show(self, requests: Mapping[str, dict[str, Any]]) -> None:
        """Ask what is not asked yet; take back what waits for an answer no more."""
        for key in self._open.keys() - requests.keys():
            self._open.pop(key).cancel()
        for key, request in requests.items():
            asked = Relayed(request["method"], request["params"])
            possible = asked.is_possible(self._context.origin.client_capabilities, self._context.revision)
            if key not in self._open and possible and self._context.hub.tasks.claim(self._task_id, key):
                self._open[key] = asyncio.create_task(self._ask(key, request))

    def close(self) -> None:
        for asking in self._open.values():
            asking.cancel()

    async def _ask(self, key: str, request: dict[str, Any]) -> None:
        context, inquiries = self._context, self._context.hub.inquiries
        voice, session_id = context.voice, context.origin.session_id
        assert voice is not None
        request_id, answered = inquiries.open(session_id)
        try:
            params = {**request["params"], "_meta": tasks.related(request["params"].get("_meta"), self._task_id)}
            await voice.send(jsonrpc.encode_request(request_id, request["method"], params))
            message = await answered
            if isinstance(message, jsonrpc.ErrorResponse):
                given = {"error": dict(message.error)}
            else:
                given = {"result": message.result}
            await database_sync_to_async(store.answer)(self._task_id, store.Owner.of(context.origin), {key: given})
        except asyncio.CancelledError:
            word = {"requestId": request_id, "reason": "The task waits for this answer no more."}
            with contextlib.suppress(Exception):  # the stream may be gone
                await voice.notify("notifications/cancelled", word)
            raise
        finally:
            inquiries.close(session_id, request_id)
            context.hub.tasks.unclaim(self._task_id, key)
        context.hub.tasks.heard(self._task_id)


async def tasks_list(context: RequestContext, params: dict[str, Any]) -> Result:
    _need_tasks(context)
    below = _below(params.get("cursor"), context)
    found, rest = await database_sync_to_async(store.page)(store.Owner.of(context.origin), below, PAGE)
    result: dict[str, Any] = {"tasks": [tasks.core(task) for task in found]}
    if rest is not None:
        result["nextCursor"] = _cursor(rest, context)
    return result


async def tasks_cancel(context: RequestContext, params: dict[str, Any]) -> Result:
    _need_tasks(context)
    task, was_open = await context.hub.tasks.cancel(tasks.task_id(params), store.Owner.of(context.origin))
    if context.revision.stateless:
        return {"resultType": "complete", "_meta": IDENTITY}
    if not was_open:
        state = tasks.core(task)["status"]
        raise InvalidParams(f"The task is {state} already, so it cannot be cancelled.")
    return tasks.core(task)


async def tasks_update(context: RequestContext, params: dict[str, Any]) -> Result:
    """Take answers to what the task asks; those to nothing that is asked are ignored."""
    _need_tasks(context)
    task_id, responses = tasks.task_id(params), params.get("inputResponses")
    if not isinstance(responses, dict) or not all(isinstance(value, dict) for value in responses.values()):
        raise InvalidParams("inputResponses must be an object: the keys of inputRequests, each with an object.")
    owner = store.Owner.of(context.origin)
    await database_sync_to_async(store.answer)(
        task_id, owner, {key: {"result": given} for key, given in responses.items()}
    )
    context.hub.tasks.heard(task_id)
    return {"resultType": "complete", "_meta": IDENTITY}


async def follow(context: RequestContext, task_ids: list[str], stream: Stream, meta: dict[str, Any]) -> None:
    """Put the state of each task on a listen stream: now, and whenever it moves, to its end."""
    async with asyncio.TaskGroup() as group:
        for task_id in task_ids:
            group.create_task(_follow(context, task_id, stream, meta))


async def followed(context: RequestContext, asked: dict[str, Any]) -> list[str]:
    """Give which tasks a subscription follows, of those that it names (MCP 2026-07-28, Tasks, notifications)."""
    named = asked.get("taskIds")
    if named is None:
        return []
    _need_tasks(context)
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named) or len(named) > _FOLLOWED:
        raise InvalidParams(f"notifications.taskIds must be a list of at most {_FOLLOWED} task ids.")
    return await database_sync_to_async(store.known)(named, store.Owner.of(context.origin))


async def _follow(context: RequestContext, task_id: str, stream: Stream, meta: dict[str, Any]) -> None:
    owner, told = store.Owner.of(context.origin), b""
    with context.hub.tasks.watching(task_id, math.inf) as moved:  # streams have a bound of their own
        while not stream.is_closed:
            try:
                task = await database_sync_to_async(store.find)(task_id, owner)
            except InvalidParams:  # its lifetime is over
                return
            except DatabaseError as error:
                logger.warning("A task could not be read for its listeners: %s", error)
                await _moves(moved)
                continue
            shown = {**_detailed(context.revision, task), "_meta": meta}
            message = jsonrpc.encode_notification("notifications/tasks", shown)
            if message != told:
                stream.push(told := message)
            if task.is_over:
                return
            await _moves(moved)


async def _moves(moved: asyncio.Event) -> None:
    """Wait until the task has moved, or for so long that it is looked for anyway."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await moved.wait()
    moved.clear()


async def _find(context: RequestContext, params: dict[str, Any]) -> Task:
    _need_tasks(context)
    return await database_sync_to_async(store.find)(tasks.task_id(params), store.Owner.of(context.origin))


def _need_tasks(context: RequestContext) -> None:
    """Refuse clients that the methods of tasks are not for."""
    context.origin.caller.need("tools:call")
    if context.revision.stateless:
        if not tasks.declared(context.origin.client_capabilities):
            raise MissingClientCapability(
                tasks.REQUIRED_CAPABILITIES, f"Declare the extension {tasks.EXTENSION} in the request."
            )
    elif not context.revision.core_tasks:
        raise MethodNotFound("Tasks take a client of 2025-11-25 or later.")


def _detailed(revision: revisions.Revision, task: Task) -> dict[str, Any]:
    shown = tasks.detailed(task)
    if "result" in shown:
        shown["result"] = shapes.result_for(revision, shown["result"])
    return shown


def _signer(context: RequestContext) -> signing.Signer:
    owner = store.Owner.of(context.origin)
    return signing.Signer(salt=f"tasks/list {owner.principal} {owner.session_id or ''}")


def _cursor(below: int, context: RequestContext) -> str:
    return _signer(context).sign_object(below)


def _below(cursor: Any, context: RequestContext) -> int | None:
    if cursor is None:
        return None
    try:
        return int(_signer(context).unsign_object(cursor))
    except (signing.BadSignature, AttributeError, TypeError, ValueError):
        raise InvalidParams("The cursor is not of this list. Take nextCursor from the page before it.") from None
