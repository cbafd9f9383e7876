"""How much tools are called, for the pages of the catalogue: a fixed number of statements, whatever a hub holds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery, Sum

from invocations.admin import links as admin_links
from invocations.figures import overview
from invocations.figures.tallies import HOUR, MINUTE, QUARTER, TOOL, Tally, slot_of
from invocations.lists.spans import span
from invocations.models import CallTally, McpToolInvocation
from tools_catalog.models import McpToolDefinition
from tools_catalog.usage import DAYS, Callers, Counted, Recent

MOST_CALLS = 20_000
"""Calls read at most to find callers, over all requested tools."""
_FEWEST_CALLS = 1000
"""… but so many of each tool."""
_MOST_NAMES = 10
_MOST_IN_A_LIST = 500
"""Names in one statement; beyond, all tools are read."""
_Names = Sequence[str] | None
_ALL: _Names = None
"""Every tool of the catalogue: a bound, for tallies have the names of unknown tools, too."""


def recent(names: Sequence[str]) -> dict[str, Recent]:
    """Return the last call, and how the calls of the last 24 hours went, of each tool of these names."""
    now = datetime.now(UTC)
    counts = _counted(names, now, with_durations=True)
    last = _last_called(names)
    return {
        name: Recent(
            last_called=last.get(name),
            calls=counts[name].calls,
            errors=counts[name].errors,
            p95_ms=counts[name].percentile(95),
            link=admin_links.listed(_begin(now), now + timedelta(minutes=1), tool_name=name),
        )
        for name in names
    }


def grouped(groups: Mapping[int, Sequence[str]]) -> dict[int, Recent]:
    """Return the same of each group of tools, all of its calls together."""
    names = sorted({name for group in groups.values() for name in group})
    asked = _ALL if len(names) > _MOST_IN_A_LIST else names
    counts = _counted(asked, datetime.now(UTC), with_durations=True)
    last = _last_called(asked)
    found = {}
    for key, group in groups.items():
        total = Tally()
        for name in group:
            total.add(counts[name])
        called = [last[name] for name in group if name in last]
        p95 = total.percentile(95)
        found[key] = Recent(last_called=max(called, default=None), calls=total.calls, errors=total.errors, p95_ms=p95)
    return found


def ranking(figure: str) -> dict[str, tuple[float, ...]]:
    """Return the sort keys of every tool in the catalogue, by a fixed number of statements."""
    if figure == "last_called":
        return {name: (last.timestamp(),) for name, last in _last_called(_ALL).items()}
    is_latency = figure == "latency"
    counts = _counted(_ALL, datetime.now(UTC), with_calls=not is_latency, with_durations=is_latency)
    if is_latency:
        return {name: (p95,) for name, tally in counts.items() if (p95 := tally.percentile(95)) is not None}
    called = {name: tally for name, tally in counts.items() if tally.calls}
    if figure == "errors":
        return {name: (tally.errors / tally.calls, tally.errors) for name, tally in called.items()}
    return {name: (tally.calls,) for name, tally in called.items()}


def totals() -> dict[str, int]:
    """Return the calls of each tool in the last days, in whole quarters of a day that are sealed."""
    since = datetime.now(UTC) - timedelta(days=DAYS)
    rows = CallTally.objects.filter(subject=TOOL, span=QUARTER, slot__gte=since).order_by().values("name")
    return dict(rows.annotate(of_calls=Sum("calls")).values_list("name", "of_calls"))


def _begin(now: datetime) -> datetime:
    return (now - timedelta(days=1)).replace(second=0, microsecond=0)


def _counted(names: _Names, now: datetime, *, with_calls: bool = True, with_durations: bool) -> defaultdict[str, Tally]:
    """Count the calls of the last 24 hours; durations are those of whole quarters of a day, which are few to read."""
    begin = _begin(now)
    counts: defaultdict[str, Tally] = defaultdict(Tally)
    for name, calls, errors in _tallied(names, begin) if with_calls else ():
        counts[name].add(Tally(calls, errors))
    unsealed, _is_whole = overview.unsealed(MINUTE, begin, now + timedelta(hours=1))
    for (_slot, subject, name), tally in unsealed.items():
        if subject == TOOL:
            counts[name].add(tally)
    if with_durations:
        rows = _of(names).filter(span=QUARTER, slot__gte=slot_of(begin, QUARTER))
        for name, durations in rows.values_list("name", "durations"):
            counts[name].see(durations)
    return counts


def _of(names: _Names) -> QuerySet[CallTally]:
    asked: Any = McpToolDefinition.objects.order_by().values("name") if names is None else names
    return CallTally.objects.filter(subject=TOOL, name__in=asked)


def _tallied(names: _Names, begin: datetime) -> Iterable[tuple[str, int, int]]:
    """Read the minutes up to the first whole hour and the hours from there, by one statement."""
    hour = begin.replace(minute=0) + timedelta(hours=1)
    rows = _of(names).order_by().values("name")
    sums = {"of_calls": Sum("calls"), "of_errors": Sum("errors")}
    hours = rows.filter(span=HOUR, slot__gte=hour).annotate(**sums)
    minutes = rows.filter(span=MINUTE, slot__gte=begin, slot__lt=hour).annotate(**sums)
    both: Any = hours.union(minutes, all=True)
    for row in both:
        yield row["name"], row["of_calls"], row["of_errors"]


def _last_called(names: _Names) -> dict[str, datetime]:
    """Read the newest row of each tool: one statement, one look into the index for each."""
    newest = McpToolInvocation.objects.filter(tool_name=OuterRef("name")).order_by("-id").values("started_at")[:1]
    tools = McpToolDefinition.objects.all() if names is None else McpToolDefinition.objects.filter(name__in=names)
    rows = tools.order_by().annotate(last=Subquery(newest))
    return {name: last for name, last in rows.values_list("name", "last") if last is not None}


def callers(names: Sequence[str]) -> dict[str, Callers]:
    """Return the callers of each tool in recent days, from its newest calls."""
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
    """Return a sequence below which no call began since; None where none did."""
    found = span(after, None)
    return None if found is None else found.least or 1
