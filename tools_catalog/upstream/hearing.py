"""What an upstream says and asks by itself, outside its answers: to whom it goes, and what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.client.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged

from sessions_app.protocol import errors
from sessions_app.protocol.tasks import RELATED
from tools_catalog.upstream import appeals, bridge, core_tasks
from tools_catalog.upstream.calls import Calls
from tools_catalog.upstream.listing import PROMPT, RESOURCE, TEMPLATE, TOOL
from tools_catalog.upstream.scrubbing import Scrubber

CHANGED: dict[type, tuple[str, ...]] = {
    types.ToolListChangedNotification: (TOOL,),
    types.ResourceListChangedNotification: (RESOURCE, TEMPLATE),
    types.PromptListChangedNotification: (PROMPT,),
    ToolsListChanged: (TOOL,),
    ResourcesListChanged: (RESOURCE, TEMPLATE),
    PromptsListChanged: (PROMPT,),
}
"""What an upstream says -> the kinds whose lists no longer count."""


class Hearing:
    """The SDK's callbacks of one session. Its methods are called in the tasks of the SDK."""

    def __init__(
        self,
        calls: Calls,
        secret: Scrubber,
        addresses: appeals.Addresses,
        closed: asyncio.Event,
        *,
        may_ask: bool,
        list_changed: Callable[..., None],
        updated: Callable[[str], None],
    ) -> None:
        self._calls = calls
        self._secret = secret
        self._addresses = addresses
        self._closed = closed
        self._may_ask = may_ask
        self._list_changed = list_changed
        self._updated = updated

    async def hear(self, message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            self._updated(str(message.params.uri))
        elif isinstance(message, types.ElicitCompleteNotification):
            await self._addresses.completed(message.params.elicitation_id)
        elif (kinds := CHANGED.get(type(message))) is not None:
            self._list_changed(*kinds)

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        """Pass a log message to the call that it belongs to; to nobody where that is not certain."""
        if (context := self._calls.who_is_meant(core_tasks.related(params.meta))) is not None:
            await context.log(params.level, self._secret.value(params.data), params.logger)

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
        told = await self._asked("elicitation/create", context, params)
        return told if isinstance(told, types.ErrorData) else types.ElicitResult.model_validate(told, by_name=False)

    async def sample(self, context: Any, params: types.CreateMessageRequestParams) -> Any:
        told = await self._asked("sampling/createMessage", context, params)
        if isinstance(told, types.ErrorData):
            return told
        whole = (
            types.CreateMessageResultWithTools if isinstance(told.get("content"), list) else types.CreateMessageResult
        )
        return whole.model_validate(told, by_name=False)

    async def roots(self, context: Any) -> types.ListRootsResult | types.ErrorData:
        told = await self._asked("roots/list", context, None)
        return told if isinstance(told, types.ErrorData) else types.ListRootsResult.model_validate(told, by_name=False)

    async def _asked(self, method: str, context: Any, params: Any) -> Any:
        """Put a question to the client whose call it belongs to; give its result, or say why there is none."""
        task_id = core_tasks.related(context.meta)
        call = self._calls.who_is_meant(task_id)
        if call is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message="The hub cannot tell whose call this is about.")
        given = {} if params is None else params.model_dump(by_alias=True, mode="json", exclude_none=True)
        given.pop("_meta", None)
        given = appeals.named_here(method, given, call, self._addresses.remember)
        try:
            told = await bridge.ask(method, given, call, may_ask=self._may_ask)
            return told if not task_id else {**told, "_meta": {RELATED: {"taskId": task_id}}}
        except errors.HubError as error:
            return types.ErrorData(code=types.INVALID_REQUEST, message=str(error))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                if not call.is_suspended or self._closed.is_set():
                    raise
                task.uncancel()  # of the call, not of the session, which goes on
            # The call itself was given up until its client has answered; it comes again.
            return types.ErrorData(code=types.INVALID_REQUEST, message="The call was ended.")
