"""Whether a caller may call tools now, before there is a call: nothing is recorded, counted or asked.

It follows the order of a call (`invocations.calling`): limits of calls a minute, the stages' outlooks, approval.
Arguments are not there yet, so rules that read them are undecided, and guardrails are not asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from channels.db import database_sync_to_async
from django.db import DatabaseError
from django.utils import timezone

from invocations.call_source import CallSource
from invocations.configuration import Configuration
from invocations.stages import Outlook, Stages
from sessions_app.models import RateLimitBucket
from sessions_app.protocol.errors import AuditUnavailable, RateLimited
from sessions_app.protocol.json import Json
from tools_catalog.catalog.selection import Tool
from tools_catalog.catalog.toolsets import refused
from tools_catalog.policy.ask import CALLER, Ask

YES, ASKS, DEPENDS, NO = "yes", "approval", "depends", "no"
_BY_ARGUMENTS = "Rules decide by the arguments. Call it: a refused call returns its reason."
_ONLY_TASK = "It always runs as a task, and models at /v1 have none. Call it over MCP."


@dataclass(frozen=True, slots=True)
class CallerPermissions:
    """Of one caller, at the moment of one configuration."""

    source: CallSource
    configuration: Configuration
    stages: Stages

    async def of(self, tools: Sequence[Tool]) -> list[dict[str, Json]]:
        """Return for each tool `yes`, `approval`, `depends` or `no`, with its reason. Raises AuditUnavailable."""
        outlooks = await self.stages.outlooks(tools, self.source, self.configuration)
        waits = await self._waits(tools)
        asks: dict[Tool, Ask] = {}
        made: dict[Tool, dict[str, Json]] = {}
        for tool, outlook in outlooks.items():
            made[tool] = self._verdict(tool, outlook, waits.get(tool, 0))
            if outlook.ask is not None and made[tool]["verdict"] != NO:
                asks[tool] = outlook.ask
        if asks:
            for tool, outlook in (await self.stages.approving.outlooks_of_asked(asks, self.source)).items():
                made[tool] = _asked(outlook.ask) if outlook.ask is not None else self._verdict(tool, outlook, 0)
        return [made[tool] for tool in tools]

    def shown(self, tool: Tool) -> dict[str, Json]:
        return self.stages.shown(tool, self.source.caller, self.configuration)

    def _verdict(self, tool: Tool, outlook: Outlook, wait: float) -> dict[str, Json]:
        if tool.task_support == "required" and self.source.turn is not None:
            return {"verdict": NO, "code": "tool_not_found", "why": _ONLY_TASK}
        if wait > 0:
            seconds = max(1, math.ceil(wait))
            return refused(RateLimited(f"The limit of calls a minute is reached. Try again in {seconds} s."))
        if outlook.refusal is not None:
            return refused(outlook.refusal)
        return {"verdict": DEPENDS, "why": _BY_ARGUMENTS} if outlook.depends else {"verdict": YES}

    async def _waits(self, tools: Sequence[Tool]) -> dict[Tool, float]:
        """Return the seconds until a limited tool, or its caller, may call again."""
        caller = self.source.caller
        limits = {tool: tool.calls_per_minute for tool in tools if tool.calls_per_minute}
        of_caller = f"{caller.credential} tools/call"
        names = {f"tool:{tool.name}" for tool in limits} | ({of_caller} if caller.calls_per_minute else set())
        if not names:
            return {}
        try:
            levels = await _levels(names)
        except DatabaseError as error:
            raise AuditUnavailable from error
        mine = _wait(levels.get(of_caller), caller.calls_per_minute)
        return {tool: max(mine, _wait(levels.get(f"tool:{tool.name}"), limits.get(tool))) for tool in tools}


def _asked(ask: Ask) -> dict[str, Json]:
    who = "The calling person" if ask.decider == CALLER else "A person"
    words = f" {ask.words}" if ask.words else ""
    return {"verdict": ASKS, "why": f"{who} must approve the call first.{words}"}


def _wait(level: tuple[float, float] | None, limit: int | None) -> float:
    """Return the seconds until a bucket has a token. `level`: its tokens, and the seconds since it was written."""
    if level is None or not limit:
        return 0.0
    tokens, seconds = level
    missing = 1 - min(limit, tokens + seconds * limit / 60)
    return max(0.0, missing * 60 / limit)


@database_sync_to_async
def _levels(names: set[str]) -> dict[str, tuple[float, float]]:
    now = timezone.now()
    rows = RateLimitBucket.objects.filter(pk__in=names).values_list("client_id", "tokens", "last_refill")
    return {name: (tokens, (now - refilled).total_seconds()) for name, tokens, refilled in rows}
