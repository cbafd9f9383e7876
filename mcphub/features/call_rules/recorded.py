"""The effect of a rule on recorded calls before it is enabled, and the recorded effect of log-only rules."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet

from invocations.models import McpToolInvocation
from mcphub.features.call_rules.models import McpPolicyRule
from mcphub.features.call_rules.rule import Facts, Rule, RuleFinding
from mcphub.features.call_rules.trying import DescribedCall, finding_of
from sessions_app.kit.lists.walking import newest_id
from sessions_app.kit.people_tables import person_key
from sessions_app.models import ApiKey
from sessions_app.protocol.json import Json
from tools_catalog.models import McpToolDefinition, McpToolset
from tools_catalog.models.ruled import RuledRow, definition_of

MOST_CALLS = 10_000
MOST_SECONDS = 0.75
"""The page waits for it; calls not evaluated by then are reported."""
MOST_SHOWN = 20
_CHUNK = 1_000
_LARGE_CHUNK = 2_500
"""Rows that are read at once: fewer where their arguments are read as well."""
_COLUMNS = (
    *(
        "id",
        "invocation_id",
        "tool_name",
        "tool_version",
        "principal",
        "caller_label",
        "arguments",
        "left_out",
        "connection",
    ),
    *("client_name", "client_version", "client_address", "transport", "started_at", "status", "method", "duplicate_of"),
)


@dataclass(slots=True)
class Verdicts:
    """Of one rule over the newest calls."""

    looked_at: int = 0
    concerned: int = 0
    held: int = 0
    failed: int = 0
    """Calls with an undecidable condition, which denies."""
    incomplete: int = 0
    """Calls in scope with partially recorded arguments."""
    is_cut_short: bool = False
    """The time was up before all were looked at."""
    shown: list[tuple[Any, RuleFinding]] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def stopped(self) -> int:
        return self.held + self.failed


def verdicts(rule: Rule, *, most: int = MOST_CALLS, seconds: float = MOST_SECONDS) -> Verdicts:
    """Try a rule on the newest calls. Groups are current ones; values missing from the record are missing here."""
    found, until = Verdicts(), time.monotonic() + seconds
    known = _Known(rule)
    newest_key = newest_id(McpToolInvocation.objects.all())
    known.prepare(McpToolInvocation.objects.filter(pk__gt=newest_key - most))
    reads_arguments = rule.condition is not None and "args" in rule.condition.variables
    columns = _COLUMNS if reads_arguments else tuple(name for name in _COLUMNS if name != "arguments")
    size = _CHUNK if reads_arguments else _LARGE_CHUNK
    last, seen = newest_key + 1, 0
    while seen < most:
        rows = McpToolInvocation.objects.filter(pk__lt=last)
        chunk = list(rows.order_by("-pk").only(*columns)[: min(size, most - seen)])
        seen += len(chunk)
        calls = [row for row in chunk if row.method is None and not row.duplicate_of and row.tool_version]
        known.learn(row.tool_name for row in calls)
        known.meet({row.principal: row.caller_label for row in calls})
        for row in calls:
            _look(rule, row, known, found, reads_arguments)
            if time.monotonic() > until:
                found.is_cut_short = True
                return found
        if len(chunk) < size:
            break
        last = chunk[-1].pk
    return found


def watched(most: int = MOST_CALLS) -> dict[str, Counter[str]]:
    """Count the would-be effects of log-only rules in the newest calls: rule -> `deny` or `ask` -> count."""
    rows = McpToolInvocation.objects.filter(
        policy_watched__isnull=False, pk__gt=newest_id(McpToolInvocation.objects.all()) - most
    )
    counts: dict[str, Counter[str]] = {}
    for text in rows.values_list("policy_watched", flat=True):
        for said in text.split(", "):
            name, _, effect = said.partition(" ")
            counts.setdefault(name.partition("@")[0], Counter())[effect] += 1
    return counts


def decided(most: int = MOST_CALLS) -> Counter[str]:
    """Count how often each rule decided in the newest calls."""
    rows = McpToolInvocation.objects.filter(
        policy_rule__isnull=False, pk__gt=newest_id(McpToolInvocation.objects.all()) - most
    )
    return Counter(rows.values_list("policy_rule", flat=True))


def names(begun: str) -> list[tuple[str, str]]:
    """Return rules by which the search of calls completes a text."""
    rows = McpPolicyRule.objects.filter(name__icontains=begun).order_by("name")
    return [(name, "") for name in rows.values_list("name", flat=True)[:MOST_SHOWN]]


def _look(rule: Rule, row: McpToolInvocation, known: _Known, found: Verdicts, reads_arguments: bool) -> None:
    found.looked_at += 1
    tool = known.tool(row)
    if tool is None or not rule.concerns(tool, known.toolsets):
        return
    found.concerned += 1
    found.incomplete += "arguments" in (row.left_out or {})
    arguments = row.arguments if reads_arguments and isinstance(row.arguments, dict) else {}
    client: dict[str, Json] = {
        "name": row.client_name,
        "version": row.client_version,
        "transport": row.transport,
        "address": row.client_address,
    }
    facts = Facts(arguments, client, row.started_at.timestamp())
    call = DescribedCall(tool=tool, principal=known.principal(row), facts=facts, toolsets=known.toolsets)
    said = finding_of(rule, call)
    found.held += said.holds
    if said.failed:
        found.failed += 1
        found.reasons[said.failed] += 1
    if (said.holds or said.failed) and len(found.shown) < MOST_SHOWN:
        found.shown.append((row, said))


class _Known:
    """Tools, callers and toolsets of today, read once."""

    def __init__(self, rule: Rule) -> None:
        self._tools: dict[str, McpToolDefinition | None] = {}
        self._definitions: dict[str, dict[str, Json]] = {}
        self._principals: dict[str, dict[str, Json]] = {}
        self.toolsets: dict[str, frozenset[str]] = {}
        if rule.applies_to == "toolset":
            chosen = McpToolset.objects.filter(slug__in=rule.target.split())
            self.toolsets = {row.slug: frozenset(row.names()) for row in chosen}

    def prepare(self, rows: QuerySet[McpToolInvocation]) -> None:
        """Read the rows that these calls refer to, all at once."""
        named = rows.filter(method__isnull=True).order_by().values_list("tool_name", "principal", "caller_label")
        names = list(named.distinct())
        self.learn(tool for tool, _principal, _label in names)
        self.meet({principal: label for _tool, principal, label in names})

    def learn(self, names: Iterable[str]) -> None:
        new = set(names) - self._tools.keys()
        if new:
            self._tools |= dict.fromkeys(new)
            self._tools |= {row.name: row for row in McpToolDefinition.objects.filter(name__in=new)}

    def tool(self, row: McpToolInvocation) -> RuledRow | None:
        known = self._tools.get(row.tool_name)
        if known is None:
            return None
        if row.tool_name not in self._definitions:
            self._definitions[row.tool_name] = definition_of(known)
        return RuledRow(
            row.tool_name, row.tool_version, row.connection, known.read_only, self._definitions[row.tool_name]
        )

    def meet(self, callers: Mapping[str, str]) -> None:
        """Read callers that are not known yet: principal -> label on record."""
        new = {principal: label for principal, label in callers.items() if principal not in self._principals}
        self._principals |= principals_now(new) if new else {}

    def principal(self, row: McpToolInvocation) -> dict[str, Json]:
        return self._principals[row.principal]


def principals_now(callers: Mapping[str, str]) -> dict[str, dict[str, Json]]:
    """Return principals as conditions see them, with the groups of today. Claims are not on record.

    `callers`: principal -> the label that it has where it is no more.
    """
    from django.contrib.auth import get_user_model

    numbers: set[int] = set()
    for principal in callers:
        kind, _, number = principal.partition(":")
        if kind == "key" and number.isdecimal() and len(number) < 19:
            numbers.add(int(number))
    people = {person_key(principal) for principal in callers} - {None}
    users = get_user_model()._default_manager.prefetch_related("groups").in_bulk(people)
    keys = ApiKey.objects.prefetch_related("groups").in_bulk(numbers)
    there: dict[str, Any] = {f"user:{number}": user for number, user in users.items()}
    there |= {f"key:{number}": key for number, key in keys.items()}
    made: dict[str, dict[str, Json]] = {}
    for principal, label in callers.items():
        row = there.get(principal)
        groups = sorted(group.name for group in row.groups.all()) if row is not None else []
        shown = label if row is None else getattr(row, "caller_label", "") or str(row)
        made[principal] = {"id": principal, "label": shown, "groups": groups, "claims": {}}
    return made
