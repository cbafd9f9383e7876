"""Audit rules that name tools follow a renamed prefix: hidden values stay hidden, and held rows stay held, under the
new name.
"""

from __future__ import annotations

from invocations.chain.models import AuditHold
from invocations.redaction.models import McpRedactionRule
from tools_catalog.models.renaming import FOLLOWERS, Renaming

_LONGEST_HOLD_NAME = 100


def connect() -> None:
    FOLLOWERS.extend((_hide_as_before, _hold_as_before))


def _hide_as_before(renaming: Renaming) -> None:
    """Copy each rule that meant a former name to the present one. The first stays: recorded calls have it."""
    for row in McpRedactionRule.objects.exclude(tool_name=""):
        rule = row.rule()
        missed = [now for former, now in renaming.names.items() if rule.is_for(former) and not rule.is_for(now)]
        if not missed:
            continue
        pattern = row.rule_for(renaming.pattern(row.tool_name))
        wanted = [pattern.tool] if all(map(pattern.is_for, missed)) else missed
        for tool_name in wanted:
            _add_rule(row, tool_name, renaming.reason)


def _add_rule(row: McpRedactionRule, tool_name: str, reason: str) -> None:
    same = {"kind": row.kind, "place": row.place, "part": row.part, "tool_name": tool_name}
    if not McpRedactionRule.objects.filter(**same).exists():
        fresh = McpRedactionRule(**same, enabled=row.enabled, note=row.note)
        fresh.change_reason = reason
        fresh.save()


def _hold_as_before(renaming: Renaming) -> None:
    for hold in AuditHold.objects.filter(tool_name__in=renaming.names, released_at=None):
        name = renaming.names[hold.tool_name]
        called = f"{hold.name[: _LONGEST_HOLD_NAME - len(name) - 3]} ({name})"
        if AuditHold.objects.filter(name=called).exists():
            continue
        hold.pk, hold._state.adding = None, True
        hold.name, hold.tool_name, hold.change_reason = called, name, renaming.reason
        hold.save()
