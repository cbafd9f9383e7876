"""Calls that the tool of a running call makes: each is a call on the one path, with a row that names the other."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from sessions_app.protocol.errors import HubError, ToolNotFound
from tools_catalog.call.base import Json

if TYPE_CHECKING:
    from collections.abc import Callable

    from invocations.call.context import CallContext
    from invocations.call.finishing import CallResult
    from tools_catalog.catalog.selection import Selection
    from tools_catalog.catalog.snapshot import Tool


def selection_of(context: CallContext) -> Selection:
    """Return the tools among which a running call was found, as they are now."""
    if context.request is not None and context.request.selection is not None:
        return context.request.selection
    assert context.record is not None
    return context.record.configuration.catalog


async def call_tool(context: CallContext, name: str, arguments: Json, *, refusal: HubError | None = None) -> CallResult:
    """Make a call as the caller of a running call, within its time. Raises HubError as `Calls.call_tool` does.

    With a `refusal` it is not made, but on record. Its tool cannot ask the client.
    """
    # Imported here: an exchange has a request, and this one's context is made of both.
    from invocations.exchange import CallExchange, CallRequest

    assert context.stages is not None
    calls = context.stages.calls
    assert calls is not None
    source = replace(context.source, called_by=context.invocation_id, continues=None, replay_of=None)
    request = CallRequest(
        name=name,
        arguments=arguments,
        selection=None if context.request is None else context.request.selection,
        check=_for_models(refusal),
        ends_by=time.monotonic() + context.deadline.remaining_seconds(),
    )
    result: CallResult = await calls.call_tool(request, CallExchange(source=source, configuration=calls.current()))
    return result


def _for_models(refusal: HubError | None) -> Callable[[Tool], None]:
    def check(tool: Tool) -> None:
        if refusal is not None:
            raise refusal
        if not tool.is_for_models:
            raise ToolNotFound(f"There is no tool named {tool.name} to call here: only views call it.", tool=tool.name)

    return check
