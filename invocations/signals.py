"""Signals of calls, for code beside the hub. Receivers are connected in an `AppConfig.ready`.

Both send `invocation_id`, `tool` (its name), and `principal`. Receivers run on Django's thread, one call after the
other, and the caller waits for them. An exception in one is logged and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from channels.db import database_sync_to_async
from django.dispatch import Signal

from invocations.stages import CommitPart, Place, Proceed, Stage

if TYPE_CHECKING:
    from invocations.call.call import Call
    from invocations.configuration import Configuration
    from sessions_app.protocol.json import Json
    from tools_catalog.catalog.snapshot import Tool

call_started: Final = Signal()
"""A call is about to be made: rules and quotas let it pass. Its commit may still refuse it, and a task may still wait
for its approval.
"""
call_finished: Final = Signal()
"""A call was made and is on record. Further: `is_error`. Calls that were refused send nothing."""


class StartedSignal(Stage):
    """Sends `call_started`. No tool has it where nobody receives."""

    place = Place.APPROVAL_IN_TASK

    def concerns(self, tool: Tool, configuration: Configuration, before: tuple[Stage, ...]) -> bool:
        return call_started.has_listeners()

    async def decide(self, call: Call) -> Proceed:
        await _send(call_started, call)
        return Proceed(call)


class FinishedSignal(CommitPart):
    """Sends `call_finished`. No tool has it where nobody receives."""

    def concerns(self, tool: Tool, configuration: Configuration, stages: tuple[Stage, ...]) -> bool:
        return call_finished.has_listeners()

    async def ended(self, call: Call, wire: Mapping[str, Json] | None) -> None:
        # The call is on record: a client that leaves now takes no signal with it.
        await asyncio.shield(_send(call_finished, call, is_error=wire is None or bool(wire.get("isError"))))


async def _send(signal: Signal, call: Call, **more: Any) -> None:
    source = call.exchange.source
    await database_sync_to_async(signal.send_robust)(
        None, invocation_id=call.invocation_id, tool=call.tool.name, principal=source.principal, **more
    )
