"""The stage of stopped writes: it is in the chains of tools that are not read-only, while a stop is in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from invocations.stages import Outlook, Place, Proceed, Refuse, Stage, StageAnswer
from mcphub.features.writes import in_force

if TYPE_CHECKING:
    from invocations.call.call import Call
    from invocations.call_source import CallSource
    from invocations.calling import Calls
    from invocations.configuration import Configuration
    from sessions_app.protocol.errors import HubError
    from tools_catalog.catalog.snapshot import Tool


class WriteStage(Stage):
    """Refuses calls that a stop concerns. Among the rules, so that a call is asked again once it was approved."""

    place = Place.RULES

    def __init__(self, calls: Calls) -> None:
        """Take nothing of the call path: all that counts is in the call's configuration."""

    def concerns(self, tool: Tool, configuration: Configuration, before: tuple[Stage, ...]) -> bool:
        return not tool.read_only and bool(in_force.of(configuration))

    async def decide(self, call: Call) -> StageAnswer:
        stopped = _refusal(call.tool, call.exchange.source, call.exchange.configuration)
        return Proceed(call) if stopped is None else Refuse(stopped)

    async def outlooks(
        self, tools: Sequence[Tool], source: CallSource, configuration: Configuration
    ) -> Mapping[Tool, Outlook]:
        concerned = (tool for tool in tools if self.concerns(tool, configuration, ()))
        found = {tool: _refusal(tool, source, configuration) for tool in concerned}
        return {tool: Outlook(stopped) for tool, stopped in found.items() if stopped is not None}


def _refusal(tool: Tool, source: CallSource, configuration: Configuration) -> HubError | None:
    stop = in_force.that_stops(tool, source.caller, configuration)
    return None if stop is None else stop.error()
