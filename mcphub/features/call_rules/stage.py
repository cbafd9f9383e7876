"""The verdict of call rules on one call, and its record."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from asgiref.sync import sync_to_async
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

from invocations.call.call import Call
from invocations.call_source import CallSource
from invocations.configuration import Configuration
from invocations.stages import Outlook, Place, Proceed, Refuse, Stage, StageAnswer
from mcphub.features.call_rules.rule import (
    ALLOW,
    ASK,
    DENY,
    NO_RULING,
    Facts,
    Rule,
    RuleFinding,
    Ruling,
    ToolPolicy,
    arguments_for,
    combined,
    finding,
)
from sessions_app.protocol import json
from sessions_app.protocol.errors import AuditUnavailable, PolicyDenied
from sessions_app.protocol.json import Json
from tools_catalog.catalog.selection import Tool
from tools_catalog.policy.ask import Ask

if TYPE_CHECKING:
    from invocations.calling import Calls

CHECKS_NAME = "call_rules"
"""The name of the `CallChecks` that the feature declares."""
RECENT_SECONDS = 3_600
MOST_RECENT = 10_000
"""Calls of a principal that are counted."""
EVALUATION_SECONDS = 5.0


class Policing(Stage):
    """Decides about calls by the rules that concern them. One a process."""

    place = Place.RULES

    def __init__(self, calls: Calls) -> None:
        self._judge = calls.judge
        self.decisions: Counter[str] = Counter()
        """Of this process since its start, by `deny`, `ask`, `allow`, `none` and `watched`."""

    def concerns(self, tool: Tool, configuration: Configuration, before: tuple[Stage, ...]) -> bool:
        return CHECKS_NAME in tool.checks

    async def decide(self, call: Call) -> StageAnswer:
        """Refuse a call that a rule denies; hold one that a rule asks about."""
        ruling = await self.ruling(call.tool, call.exchange.source, call.arguments, call.text)
        call.record.note(ruling.noted)
        if ruling.effect == DENY:
            error = PolicyDenied(ruling.words or None)
            error.noted = ruling.noted
            return Refuse(error)
        return Proceed(replace(call, ask=ruling.ask or Ask()) if ruling.effect == ASK else call)

    async def ruling(self, tool: Tool, source: CallSource, arguments: dict[str, Json], text: str) -> Ruling:
        """Return the rules' verdict. `text`: the arguments as canonical JSON. Asks the database for `recent` alone."""
        policy = _policy(tool)
        if policy is None:
            return NO_RULING
        now = time.time()
        findings = policy.findings(tool, source.caller, now)
        pending = policy.pending(now) if policy.dynamic else []
        if pending:
            findings = (*findings, *await self._asked(policy, pending, tool, source, arguments, text, now))
            findings = tuple(sorted(findings, key=lambda each: (-each.rule.priority, each.rule.name)))
        made = combined(findings)
        self.decisions[made.effect or "none"] += 1
        if made.watched:
            self.decisions["watched"] += 1
        return made

    async def outlooks(
        self, tools: Sequence[Tool], source: CallSource, configuration: Configuration
    ) -> Mapping[Tool, Outlook]:
        policies = {tool: policy for tool in tools if (policy := _policy(tool)) is not None}
        recent = None
        if any(policy.reads_recent for policy in policies.values()):
            recent = await recent_of(source.caller.principal)
        return {tool: _outlook(tool, policy, source, recent) for tool, policy in policies.items()}

    async def _asked(
        self,
        policy: ToolPolicy,
        rules: list[Rule],
        tool: Tool,
        source: CallSource,
        arguments: dict[str, Json],
        text: str,
        now: float,
    ) -> list[RuleFinding]:
        recent = await recent_of(source.caller.principal) if policy.reads_recent else None
        facts = Facts(arguments, client_context(source), now, recent)
        context = policy.context(tool, source.caller, facts)
        found, costly = [], []
        for rule in rules:
            if rule.condition is not None and rule.condition.may_hold(len(text)):
                costly.append(rule)
                continue
            context["args"] = arguments_for(rule, arguments)
            found.append(finding(rule, context))
        if costly:
            found += await self._apart(costly, context, arguments, now, source.caller.principal)
        return found

    async def _apart(
        self, rules: list[Rule], context: dict[str, object], arguments: dict[str, Json], now: float, principal: str
    ) -> list[RuleFinding]:
        """Evaluate slow conditions in a worker process, within a bound."""
        plain: dict[str, Json] = {name: value for name, value in context.items() if name != "time"}
        asked = [
            {
                "text": rule.condition.text if rule.condition is not None else "true",
                "context": {**plain, "args": dict(arguments_for(rule, arguments))},
                "time": now,
            }
            for rule in rules
        ]
        task = json.dumps(asked)
        answers = await self._judge.answered("mcphub.features.call_rules.apart", task, EVALUATION_SECONDS, principal)
        if answers is None:
            why = f"it takes longer than {EVALUATION_SECONDS:g} s for these arguments"
            return [RuleFinding(rule, False, why) for rule in rules]
        return [
            RuleFinding(rule, said) if isinstance(said, bool) else RuleFinding(rule, False, str(said))
            for rule, said in zip(rules, answers, strict=True)
        ]


def _policy(tool: Tool) -> ToolPolicy | None:
    return cast("ToolPolicy | None", tool.checks.get(CHECKS_NAME))


def _outlook(tool: Tool, policy: ToolPolicy, source: CallSource, recent: dict[str, int] | None) -> Outlook:
    """Return the verdict of the rules that need no arguments, and whether others may still change it."""
    now = time.time()
    findings: list[RuleFinding] = list(policy.findings(tool, source.caller, now))
    facts = Facts({}, client_context(source), now, recent)
    context = {**policy.context(tool, source.caller, facts), "args": {}}
    undecided = []
    for rule in policy.pending(now):
        reads = rule.condition is not None and ("args" in rule.condition.variables or rule.condition.may_hold(2))
        if reads and not rule.broken:
            undecided.append(rule)
        else:
            findings.append(finding(rule, context))
    findings.sort(key=lambda each: (-each.rule.priority, each.rule.name))
    acting = [rule for rule in undecided if not rule.watching]
    has_allow = any(each.effect == ALLOW and not each.rule.watching for each in findings)
    ruling = combined(findings, is_open=any(rule.effect == ALLOW for rule in acting))
    return Outlook(
        refusal=PolicyDenied(ruling.words or None) if ruling.effect == DENY else None,
        ask=ruling.ask,
        depends=any(rule.effect != ALLOW or not has_allow for rule in acting),
    )


def client_context(source: CallSource) -> dict[str, Json]:
    return {
        "name": source.client_name,
        "version": source.client_version,
        "transport": source.transport,
        "address": source.client_address,
    }


async def recent_of(principal: str) -> dict[str, int]:
    """Count the calls of a principal in the last hour, over all processes. Raises AuditUnavailable."""
    try:
        return await _recent(principal)
    except DatabaseError as error:
        raise AuditUnavailable from error


@sync_to_async
def _recent(principal: str) -> dict[str, int]:
    from invocations.models import McpToolInvocation

    close_old_connections()
    since = timezone.now() - timedelta(seconds=RECENT_SECONDS)
    calls = McpToolInvocation.objects.filter(principal=principal, started_at__gte=since, method__isnull=True)
    statuses = Counter(calls.order_by("-id").values_list("status", flat=True)[:MOST_RECENT])
    return {"calls": statuses.total(), "errors": statuses["error"]}
