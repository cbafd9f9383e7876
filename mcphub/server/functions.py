"""Runs the Python function behind a resource, a prompt or a completion: bounded, timed, cancelled with its request.

Like the backend of a tool's call, but without a record: these only read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from django.conf import settings

from invocations.context import CallContext
from invocations.running import Errand
from mcphub.server.asking import Inline
from mcphub.server.context import RequestContext
from mcphub.server.rounds import Rounds
from sessions_app.protocol import json
from sessions_app.protocol.errors import Cancelled, ServerBusy, ToolTimeout

Value = TypeVar("Value")


async def perform(
    context: RequestContext,
    name: str,
    seconds: float,
    work: Callable[[CallContext], Awaitable[Value]],
    *,
    asks: tuple[str, dict[str, Any]] | None = None,
) -> Value:
    """Give what `work` gives. It counts as a call under way: its deadline, the client's cancellation and the hub's
    stop end it.

    `asks` is the method and its params where `work` may ask the client. Raises ToolTimeout, Cancelled or ServerBusy,
    Suspended where the client must answer first, InvalidParams for a `requestState` of another request, and
    whatever `work` raises.
    """
    rounds: Rounds | None = None
    if asks is not None and context.revision.stateless:
        rounds = Rounds.of(context.origin, context.revision, *asks)
        rounds.check()
    under_way, origin = context.hub.calls.running, context.origin
    if len(under_way) >= settings.MCPHUB_MAX_CALLS:
        busy = ServerBusy()
        busy.retry_after_seconds = 1
        raise busy
    task = asyncio.current_task()
    assert task is not None
    seconds = min(seconds, settings.MCPHUB_CALL_TIMEOUT_SECONDS)
    errand = Errand(origin, json.canonical(context.request_id), context.watch, seconds)
    call = CallContext(origin, name, "", context.voice, context.progress_token, context.log_level)
    call.deadline = errand.deadline
    if asks is not None:
        call.meta = asks[1].get("_meta")
        call.make_asker = lambda: rounds or Inline(context)
    call.running = errand
    errand.task = task
    under_way.add(errand)
    try:
        return await work(call)
    except asyncio.CancelledError:
        if errand.why == "timeout":
            raise ToolTimeout(
                f"{name} did not answer within {seconds:g} s. Try again, or tell the operator.", timeout_seconds=seconds
            ) from None
        if errand.why == "asks":
            raise call.suspended() from None
        if errand.why == "cancelled":
            raise Cancelled("The request was cancelled.") from None
        raise
    finally:
        errand.task = None
        if errand.interrupted:
            task.uncancel()
        under_way.remove(errand)
        call.close()
