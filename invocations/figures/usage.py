"""How much tools are called, for the pages of the catalogue: a fixed number of statements, whatever a hub holds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import OuterRef, Subquery, Sum

from invocations.admin import links as admin_links
from invocations.figures import overview
from invocations.figures.tallies import HOUR, MINUTE, QUARTER, TOOL, Tally
from invocations.lists.spans import span
from invocations.models import CallTally, McpToolInvocation
from tools_catalog.models import McpToolDefinition
from tools_catalog.usage import DAYS, Callers, Counted, Recent

MOST_CALLS = 20_000
"""Calls that are read at most to say who made them, of all tools asked for together."""
_FEWEST_CALLS = 1000
"""… but so many of each tool."""
_MOST_NAMES = 10


def recent(names: Sequence[str]) -> dict[str, Recent]:
    """Give the last call, and the counts of the last 24 hours, of each tool of these names."""
    now = datetime.now(UTC)
    begin = (now - timedelta(days=1)).replace(second=0, microsecond=0)
    counts: dict[str, Tally] = defaultdict(Tally)
    for name, calls, errors in _tallied(names, begin):
        counts[name].add(Tally(calls, errors))
    unsealed, _is_whole = overview.unsealed(MINUTE, begin, now + timedelta(hours=1))
    for (_slot, subject, name), tally in unsealed.items():
        if subject == TOOL:
            counts[name].add(tally)
    last = _last_called(names)
    return {
        name: Recent(
            last_called=last.get(name),
            calls=counts[name].calls,
            errors=counts[name].errors,
            link=admin_links.listed(begin, now + timedelta(minutes=1), tool_name=name),
        )
        for name in names
    }


def totals() -> dict[str, int]:
    """Give the calls of each tool in the last days, in whole quarters of a day that are sealed."""
    since = datetime.now(UTC) - timedelta(days=DAYS)
    rows = CallTally.objects.filter(subject=TOOL, span=QUARTER, slot__gte=since).order_by().values("name")
    return dict(rows.annotate(of_calls=Sum("calls")).values_list("name", "of_calls"))


def _tallied(names: Sequence[str], begin: datetime) -> Iterable[tuple[str, int, int]]:
    """Read the minutes up to the first whole hour and the hours from there, by one statement."""
    hour = begin.replace(minute=0) + timedelta(hours=1)
    rows = CallTally.objects.filter(subject=TOOL, name__in=names).order_by().values("name")
    sums = {"of_calls": Sum("calls"), "of_errors": Sum("errors")}
    hours = rows.filter(span=HOUR, slot__gte=hour).annotate(**sums)
    minutes = rows.filter(span=MINUTE, slot__gte=begin, slot__lt=hour).annotate(**sums)
    both: Any = hours.union(minutes, all=True)
    for row in both:
        yield row["name"], row["of_calls"], row["of_errors"]


def _last_called(names: Sequence[str]) -> dict[str, datetime]:
    """Read the newest row of each tool: one statement, one look into the index for each."""
    newest = McpToolInvocation.objects.filter(tool_name=OuterRef("name")).order_by("-id").values("started_at")[:1]
    rows = McpToolDefinition.objects.filter(name__in=names).order_by().annotate(last=Subquery(newest))
    return {name: last for name, last in rows.values_list("name", "last") if last is not None}


def callers(names: Sequence[str]) -> dict[str, Callers]:
    """Give who called each tool in the last days, from its newest calls."""
    now = datetime.now(UTC)
    most = max(_FEWEST_CALLS, MOST_CALLS // max(1, len(names)))
    first = _first(now - timedelta(days=DAYS))
    return {
        name: newest("principal", now - timedelta(days=DAYS), now, most=most, first=first, tool_name=name)
        for name in names
    }


def newest(
    column: str, after: datetime, before: datetime, *, most: int = MOST_CALLS, first: int | None = None, **of: str
) -> Callers:
    """Count the calls of a time by a column, `principal` with its label, over the newest of one tool or one caller."""
    first = first or _first(after)
    if first is None:
        return Callers()
    counts: Counter[str] = Counter()
    labels: dict[str, str] = {}
    rows: Any = McpToolInvocation.objects.filter(pk__gte=first, **of).order_by("-pk")
    read = 0
    for value, label, started in rows.values_list(column, "caller_label", "started_at")[:most]:
        read += 1
        if value and after <= started < before:
            counts[value] += 1
            labels.setdefault(value, label)
    if column != "principal":
        labels = {}
    return Callers(
        [Counted(value, labels.get(value, ""), calls) for value, calls in counts.most_common(_MOST_NAMES)],
        read < most and len(counts) <= _MOST_NAMES,
    )


def _first(after: datetime) -> int | None:
    """Give a sequence below which no call began since; None where none did."""
    found = span(after, None)
    return None if found is None else found.least or 1
