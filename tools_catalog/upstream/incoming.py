"""An upstream's messages besides responses: notifications, and requests about its calls' clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeGuard

from sessions_app.protocol import envelope, errors, jsonrpc
from sessions_app.protocol.json import Json
from sessions_app.protocol.tasks import RELATED
from tools_catalog.call.context import ToolContext
from tools_catalog.upstream import bridge, core_tasks, elicitation_ids
from tools_catalog.upstream.asking import Asking
from tools_catalog.upstream.bridge import FORM, ROOTS, SAMPLING, URL, Abilities
from tools_catalog.upstream.calls import CallsUnderWay
from tools_catalog.upstream.listing import PROMPT, RESOURCE, TEMPLATE, TOOL
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.transports.base import OutgoingRequest
from tools_catalog.upstream.transports.reading import Message

logger = logging.getLogger(__name__)

_CHANGED: Final[Mapping[str, tuple[str, ...]]] = {
    "notifications/tools/list_changed": (TOOL,),
    "notifications/resources/list_changed": (RESOURCE, TEMPLATE),
    "notifications/prompts/list_changed": (PROMPT,),
}
"""Notification -> the kinds whose lists no longer count."""
_NEEDS: Final[Mapping[str, Abilities]] = {
    "elicitation/create": frozenset({FORM, URL}),
    "sampling/createMessage": frozenset({SAMPLING}),
    "roots/list": frozenset({ROOTS}),
}
"""Request of an upstream -> the capabilities, one of which the hub must have declared."""

Send = Callable[[bytes], Coroutine[Any, Any, None]]


class Incoming:
    """Takes the messages of one session. `send` answers requests; `lost` is called when nothing comes any more."""

    def __init__(
        self,
        secret: Scrubber,
        calls: CallsUnderWay,
        send: Send,
        lost: Callable[[str], None],
        *,
        can_ask: Abilities,
        asking: Asking,
        list_changed: Callable[..., None],
        updated: Callable[[str], None],
        person_done: Callable[[str], None],
    ) -> None:
        """`can_ask` is declared to the upstream as the supported subjects of its requests."""
        self._secret = secret
        self._calls = calls
        self._send = send
        self.lost = lost
        self._can_ask = can_ask
        self._asking = asking
        self._list_changed = list_changed
        self._updated = updated
        self.addresses = elicitation_ids.AddressIds(calls, person_done)
        self._tasks: set[asyncio.Task[None]] = set()
        self._answering: dict[jsonrpc.RequestId, asyncio.Task[None]] = {}

    async def take(self, message: Message, request: OutgoingRequest | None) -> None:
        """Take a message. Unreadable messages are skipped; requests are answered by tasks of their own."""
        method, params = message["method"], message.get("params", {})
        if not isinstance(method, str) or not isinstance(params, dict):
            return
        if "id" in message:
            self._answer_soon(message["id"], method, params, request)
        elif method == "notifications/progress":
            await self._progress(params)
        elif method == "notifications/message":
            await self._log(params, request)
        elif method in _CHANGED:
            self._list_changed(*_CHANGED[method])
        elif method == "notifications/resources/updated" and isinstance(uri := params.get("uri"), str):
            self._updated(uri)
        elif method == "notifications/elicitation/complete" and isinstance(id_ := params.get("elicitationId"), str):
            if request is not None:
                await self.addresses.completed(id_)  # the response behind it on this stream ends the call
            else:
                self._own(self.addresses.completed(id_))
        elif method == "notifications/cancelled":
            self._cancel(params.get("requestId"))
        elif (followed := request or self._calls.followed(params.get("_meta"))) and followed.follow is not None:
            followed.follow(method, params)

    def call_at_address(self, elicitation_id: Json) -> ToolContext | None:
        return self.addresses.call_of(elicitation_id) if isinstance(elicitation_id, str) else None

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _progress(self, params: dict[str, Json]) -> None:
        request = self._calls.by_progress_token(params.get("progressToken"))
        if request is None or request.context is None:
            return
        progress, total, words = params.get("progress"), params.get("total"), params.get("message")
        if _is_number(progress) and (total is None or _is_number(total)):
            await request.context.notifier.progress(
                progress, total, self._secret.text(words) if isinstance(words, str) else None
            )

    async def _log(self, params: dict[str, Json], request: OutgoingRequest | None) -> None:
        """Pass a log message to the call that it belongs to; to nobody where that is not certain."""
        context = self._calls.owner(core_tasks.related(params.get("_meta")), request)
        level, name = params.get("level"), params.get("logger")
        if context is not None and level in envelope.LOG_LEVELS and "data" in params:
            await context.notifier.log(
                level, self._secret.value(params["data"]), name if isinstance(name, str) else None
            )

    # Requests of the upstream ------------------------------------------------------------------------------

    def _answer_soon(self, id_: Json, method: str, params: dict[str, Json], request: OutgoingRequest | None) -> None:
        if not isinstance(id_, int | str) or isinstance(id_, bool):
            return
        task = self._own(self._answer(id_, method, params, request))
        self._answering[id_] = task
        task.add_done_callback(
            lambda done: self._answering.pop(id_, None) if self._answering.get(id_) is done else None
        )

    async def _answer(
        self, id_: jsonrpc.RequestId, method: str, params: dict[str, Json], request: OutgoingRequest | None
    ) -> None:
        """Answer a request of the upstream; an error states why there is no result."""
        try:
            response = jsonrpc.encode_result(id_, await self._result_of(method, params, request))
        except errors.MethodNotFound as error:
            response = jsonrpc.encode_error(id_, {"code": errors.METHOD_NOT_FOUND, "message": str(error)})
        except (errors.HubError, ValueError) as error:
            response = jsonrpc.encode_error(id_, {"code": errors.INVALID_REQUEST, "message": str(error)})
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # by the upstream, or because the session ends
            # The call was given up until its client has answered, and is made again.
            words = {"code": errors.INVALID_REQUEST, "message": "The call was ended."}
            response = jsonrpc.encode_error(id_, words)
        try:
            await self._send(response)
        except (TimeoutError, errors.HubError) as error:
            logger.info("An answer to an upstream's %s was not taken: %s", method[:80], type(error).__name__)

    async def _result_of(
        self, method: str, params: dict[str, Json], request: OutgoingRequest | None
    ) -> Mapping[str, Json]:
        if method == "ping":
            return {}
        if method not in _NEEDS:
            raise errors.MethodNotFound.named(method)
        if not self._can_ask & _NEEDS[method]:
            raise errors.InvalidRequest("The client has not declared that it can be asked this.")
        task_id = core_tasks.related(params.get("_meta"))
        call = self._calls.owner(task_id, request)
        if call is None:
            raise errors.InvalidRequest("The hub cannot tell whose call this is about.")
        found = await self._asked(method, params, call)
        return found if not task_id else {**found, "_meta": {RELATED: {"taskId": task_id}}}

    async def _asked(self, method: str, params: dict[str, Json], call: ToolContext) -> Mapping[str, Json]:
        """Forward the upstream's request to the client of its call."""
        given = {name: value for name, value in params.items() if name != "_meta"}
        return await bridge.ask(method, given, call, self._asking, self.addresses.remember)

    def _cancel(self, id_: Json) -> None:
        task = self._answering.get(id_) if isinstance(id_, int | str) else None
        if task is not None:
            task.cancel()

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("A message of an upstream could not be handled", exc_info=error)


def _is_number(value: Json) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
