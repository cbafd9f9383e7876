"""Tasks: the methods by which clients follow a handle returned by `tools/call`.

The core form of 2025-11-25, where a client waits for the result, and the extension of 2026-07-28, where it polls
and updates. The tasks themselves are the same; how a call becomes one is in `task_forms`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from channels.db import database_sync_to_async
from django.core import signing
from django.db import DatabaseError

from invocations.call import repeats
from invocations.redaction.records import RecordRedaction
from invocations.tasks import store
from mcphub.server.listening import Stream
from mcphub.server.results import IDENTITY
from mcphub.server.task_forms import EXTENSION_TASKS
from sessions_app.protocol import jsonrpc, shapes, tasks
from sessions_app.protocol.errors import InvalidParams, ServerBusy
from sessions_app.protocol.json import Json
from sessions_app.protocol.tasks import Task, TaskState
from tools_catalog.call.input_requests import Relayed

if TYPE_CHECKING:
    from mcphub.server.exchange import McpExchange, Result

logger = logging.getLogger(__name__)

PAGE = 50
_PATIENCE_SECONDS = 5
"""News of a task comes over the change bus; so often it is looked for without."""
_FOLLOWED = 100
"""Tasks that one subscription may name."""


async def tasks_get(exchange: McpExchange, params: dict[str, Json]) -> Result:
    return exchange.tasks.shown(exchange, await _find(exchange, params))


async def tasks_result(exchange: McpExchange, params: dict[str, Json]) -> Result:
    """Wait for the end of a task, wherever it runs, and answer as its call would have (MCP 2025-11-25, Tasks).

    The task's questions meanwhile go out on the stream of this request.
    """
    task = await _find(exchange, params)
    if not task.is_over:
        watcher = asyncio.ensure_future(exchange.watch()) if exchange.watch is not None else None
        relay = TaskInputRelay(exchange, task.task_id)
        try:
            with exchange.hub.tasks.watching(task.task_id) as moved:
                while not (task := await _find(exchange, params)).is_over:
                    if exchange.hub.is_draining:
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
    return shapes.result_for(exchange.revision, {**result, "_meta": tasks.related(result.get("_meta"), task.task_id)})


class TaskInputRelay:
    """A task's questions, as requests on the stream of one `tasks/result`; the answers go to the task.

    Of several streams in this process, one asks each question.
    """

    def __init__(self, exchange: McpExchange, task_id: str) -> None:
        self._exchange = exchange
        self._task_id = task_id
        self._open: dict[str, asyncio.Task[None]] = {}

    async def show(self, requests: Mapping[str, dict[str, Json]]) -> None:
        """Send new questions; withdraw those that no longer wait for an answer."""
        for key in self._open.keys() - requests.keys():
            self._open.pop(key).cancel()
        for key, request in requests.items():
            asked = Relayed(request["method"], request["params"])
            possible = asked.is_possible(self._exchange.source.client_capabilities, self._exchange.revision)
            if key not in self._open and possible and self._exchange.hub.tasks.claim(self._task_id, key):
                self._open[key] = asyncio.create_task(self._ask(key, request))

    def close(self) -> None:
        for asking in self._open.values():
            asking.cancel()

    async def _ask(self, key: str, request: dict[str, Json]) -> None:
        exchange, input_requests = self._exchange, self._exchange.hub.input_requests
        channel, session_id = exchange.channel, exchange.source.session_id
        assert channel is not None
        request_id, answered = input_requests.open(session_id)
        try:
            params = {**request["params"], "_meta": tasks.related(request["params"].get("_meta"), self._task_id)}
            await channel.send(jsonrpc.encode_request(request_id, request["method"], params))
            message = await answered
            if isinstance(message, jsonrpc.ErrorResponse):
                given = {"error": dict(message.error)}
            else:
                given = {"result": message.result}
            await _store(exchange, self._task_id, {key: given})
        except asyncio.CancelledError:
            word = {"requestId": request_id, "reason": "The task waits for this answer no more."}
            with contextlib.suppress(Exception):  # the stream may be gone
                await channel.notify("notifications/cancelled", word)
            raise
        finally:
            input_requests.close(session_id, request_id)
            exchange.hub.tasks.unclaim(self._task_id, key)
        exchange.hub.tasks.heard(self._task_id)


async def tasks_list(exchange: McpExchange, params: dict[str, Json]) -> Result:
    _need_tasks(exchange)
    below = _below(params.get("cursor"), exchange)
    found, rest = await database_sync_to_async(store.page)(store.Owner.of(exchange.source), below, PAGE)
    result: dict[str, Any] = {"tasks": [tasks.core(task) for task in found]}
    if rest is not None:
        result["nextCursor"] = _cursor(rest, exchange)
    return result


async def tasks_cancel(exchange: McpExchange, params: dict[str, Json]) -> Result:
    _need_tasks(exchange)
    task, was_open = await exchange.hub.tasks.cancel(tasks.task_id(params), store.Owner.of(exchange.source))
    return exchange.tasks.cancelled(task, was_open)


async def tasks_update(exchange: McpExchange, params: dict[str, Json]) -> Result:
    """Accept answers to the task's questions; others are ignored."""
    _need_tasks(exchange)
    task_id, responses = tasks.task_id(params), params.get("inputResponses")
    if not isinstance(responses, dict) or not all(isinstance(value, dict) for value in responses.values()):
        raise InvalidParams("inputResponses must be an object: the keys of inputRequests, each with an object.")
    await _store(exchange, task_id, {key: {"result": given} for key, given in responses.items()})
    exchange.hub.tasks.heard(task_id)
    return {"resultType": "complete", "_meta": IDENTITY}


async def _store(exchange: McpExchange, task_id: str, responses: Mapping[str, Json]) -> None:
    """Store responses to a task's questions. The row shows nothing that redaction or guardrails of the tool take out:
    the process with the call inspects the response itself.
    """
    configuration = exchange.hub.configuration
    record, tools = RecordRedaction(configuration.redaction), configuration.catalog.tools

    def shown(tool_name: str, response: Json) -> Json:
        tool = tools.get(tool_name)
        return record.arguments(tool_name, None, response if tool is None else tool.shown(response))

    await database_sync_to_async(store.answer)(task_id, store.Owner.of(exchange.source), responses, shown)


async def follow(exchange: McpExchange, task_ids: list[str], stream: Stream, meta: dict[str, Json]) -> None:
    """Put the state of each task on a listen stream: now, and whenever it moves, to its end."""
    async with asyncio.TaskGroup() as group:
        for task_id in task_ids:
            group.create_task(_follow(exchange, task_id, stream, meta))


async def followed(exchange: McpExchange, asked: dict[str, Json]) -> list[str]:
    """Return which tasks a subscription follows, of those that it names (MCP 2026-07-28, Tasks, notifications)."""
    named = asked.get("taskIds")
    if named is None:
        return []
    _need_tasks(exchange)
    if not isinstance(named, list) or not all(isinstance(each, str) for each in named) or len(named) > _FOLLOWED:
        raise InvalidParams(f"notifications.taskIds must be a list of at most {_FOLLOWED} task ids.")
    return await database_sync_to_async(store.known)(named, store.Owner.of(exchange.source))


async def _follow(exchange: McpExchange, task_id: str, stream: Stream, meta: dict[str, Json]) -> None:
    owner, sent = store.Owner.of(exchange.source), b""
    with exchange.hub.tasks.watching(task_id, math.inf) as moved:  # streams have a bound of their own
        while not stream.is_closed:
            try:
                task = await database_sync_to_async(store.find)(task_id, owner)
            except InvalidParams:  # its lifetime is over
                return
            except DatabaseError as error:
                logger.warning("A task could not be read for its listeners: %s", error)
                await _moves(moved)
                continue
            shown = {**EXTENSION_TASKS.detailed(exchange, task), "_meta": meta}
            message = jsonrpc.encode_notification("notifications/tasks", shown)
            if message != sent:
                stream.push(sent := message)
            if task.is_over:
                return
            await _moves(moved)


async def _moves(moved: asyncio.Event) -> None:
    """Wait until the task has moved, or for so long that it is looked for anyway."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await moved.wait()
    moved.clear()


async def _find(exchange: McpExchange, params: dict[str, Json]) -> Task:
    _need_tasks(exchange)
    return await database_sync_to_async(store.find)(tasks.task_id(params), store.Owner.of(exchange.source))


def _need_tasks(exchange: McpExchange) -> None:
    """Refuse clients that the methods of tasks are not for."""
    exchange.source.caller.need("tools:call")
    exchange.tasks.need(exchange)


def _signer(exchange: McpExchange) -> signing.Signer:
    owner = store.Owner.of(exchange.source)
    return signing.Signer(salt=f"tasks/list {owner.principal} {owner.session_id or ''}")


def _cursor(below: int, exchange: McpExchange) -> str:
    return _signer(exchange).sign_object(below)


def _below(cursor: Json, exchange: McpExchange) -> int | None:
    if cursor is None:
        return None
    try:
        return int(_signer(exchange).unsign_object(cursor))
    except (signing.BadSignature, AttributeError, TypeError, ValueError):
        raise InvalidParams("The cursor is not of this list. Take nextCursor from the page before it.") from None
