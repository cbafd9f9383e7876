"""The stage of stopped writes: it is in the chains of tools that are not read-only, while a stop is in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from invocations.stages import Place, Proceed, Refuse, Stage, StageAnswer
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
        stopped = self.standing_refusal(call.tool, call.exchange.source, call.exchange.configuration)
        return Proceed(call) if stopped is None else Refuse(stopped)

    def standing_refusal(self, tool: Tool, source: CallSource, configuration: Configuration) -> HubError | None:
        stop = in_force.that_stops(tool, source.caller, configuration)
        return None if stop is None else stop.error()
