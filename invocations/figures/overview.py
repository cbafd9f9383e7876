"""Activity in a time range, in few reads: tallies of sealed rows, and the few unsealed calls.

Times are whole slots, so counts equal the list from `after` to `before`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.db.models import QuerySet, Sum

from invocations.chain.models import AuditBlock
from invocations.figures.tallies import ALL, HOUR, MINUTE, SPANS, Count, Tally, slot_of
from invocations.models import CallTally, McpToolInvocation

LONGEST = timedelta(days=366)
_MINUTES_FOR = timedelta(hours=6)
"""Up to this length, and of the last two days, minutes are read; else the longest slots that bars are made of."""
_STEPS = (60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400, 604_800)
_MOST_STEPS = 60
_MOST_UNSEALED = 20_000
_COUNTED = (
    "started_at",
    "status",
    "duration_ms",
    "tool_name",
    "client_name",
    "principal",
    "error_code",
    "occurrences",
    "asked_by",
)


@dataclass
class TimeStep:
    """One bar of a chart."""

    begin: datetime
    tally: Tally = field(default_factory=Tally)


@dataclass
class Overview:
    """`top`: subject -> (name, tally), the most calls first. `is_whole`: every call of the time is counted."""

    after: datetime
    before: datetime
    step: timedelta
    steps: list[TimeStep]
    total: Tally
    is_whole: bool
    _recent: dict[str, dict[str, Tally]]
    _span: int
    previous: Tally | None = None
    """Of the time of the same length before it, where that was asked for."""
    _counts: dict[str, dict[str, Tally]] = field(default_factory=dict)

    def top(self, subject: str, most: int = 8) -> list[tuple[str, Tally]]:
        """Return the names of a subject with the most calls."""
        counts = sorted(self.counts(subject).items(), key=lambda each: (-each[1].calls, each[0]))
        found = {name: Tally(tally.calls, tally.errors) for name, tally in counts[:most]}
        for name, durations in self._tallies(subject).filter(name__in=found).values_list("name", "durations"):
            found[name].durations.update(Tally.load(durations))
        for name, tally in self._recent[subject].items():
            if name in found:
                found[name].durations.update(tally.durations)
        return list(found.items())

    def counts(self, subject: str) -> dict[str, Tally]:
        """Return calls and errors of every name of a subject, without durations: one statement, whoever asks again."""
        if subject not in self._counts:
            sums = self._tallies(subject).order_by().values("name")
            totals = {
                name: Tally(calls, errors)
                for name, calls, errors in sums.annotate(of_calls=Sum("calls"), of_errors=Sum("errors")).values_list(
                    "name", "of_calls", "of_errors"
                )
            }
            for name, tally in self._recent[subject].items():
                totals.setdefault(name, Tally()).add(Tally(tally.calls, tally.errors))
            self._counts[subject] = totals
        return self._counts[subject]

    def _tallies(self, subject: str) -> QuerySet[CallTally]:
        return CallTally.objects.filter(subject=subject, span=self._span, slot__gte=self.after, slot__lt=self.before)


def between(
    after: datetime, before: datetime, *, subject: str = ALL, name: str = "", is_compared: bool = False
) -> Overview:
    """Count the calls that began from `after` to `before`, of all or of one name; `after` moves back to a slot's begin.

    The time is at most `LONGEST`. `is_compared`: the time of the same length before it is summed up, too.
    """
    now = datetime.now(UTC)
    length = before - after
    oldest = after - length if is_compared else after
    span = MINUTE if length <= _MINUTES_FOR and now - oldest < timedelta(days=2) else HOUR
    seconds = next(
        (step for step in _STEPS if step >= span and length.total_seconds() <= step * _MOST_STEPS), _STEPS[-1]
    )
    if span != MINUTE:
        span = max(each for each in SPANS if seconds % each == 0)
    after = slot_of(after, seconds)
    steps = []
    begin = after
    while begin < before:
        steps.append(TimeStep(begin))
        begin += timedelta(seconds=seconds)
    before = begin
    earlier = after - (before - after) if is_compared else after
    recent, is_whole = unsealed(span, earlier, before)
    found = Overview(after, before, timedelta(seconds=seconds), steps, Tally(), is_whole, defaultdict(dict), span)
    if is_compared:
        found.previous = _summed(subject, name, span, earlier, after)
    for (slot, of, called), tally in recent.items():
        if slot < after:
            if found.previous is not None and (of, called) == (subject, name):
                found.previous.add(tally)
            continue
        found._recent[of].setdefault(called, Tally()).add(tally)
        if (of, called) == (subject, name):
            _at(found, slot).add(tally)
    rows = found._tallies(subject).filter(name=name)
    for slot, calls, errors, durations in rows.values_list("slot", "calls", "errors", "durations"):
        _at(found, slot).add(Tally(calls, errors, Tally.load(durations)))
    for step in steps:
        found.total.add(step.tally)
    return found


def _summed(subject: str, name: str, span: int, after: datetime, before: datetime) -> Tally:
    """Return the sealed calls of a time of whole slots, as one tally."""
    total = Tally()
    rows = CallTally.objects.filter(subject=subject, name=name, span=span, slot__gte=after, slot__lt=before)
    for calls, errors, durations in rows.values_list("calls", "errors", "durations"):
        total.add(Tally(calls, errors, Tally.load(durations)))
    return total


def _at(found: Overview, slot: datetime) -> Tally:
    return found.steps[int((slot - found.after) / found.step)].tally


def unsealed(span: int, after: datetime, before: datetime) -> tuple[dict[tuple[datetime, str, str], Tally], bool]:
    """Count the unsealed calls; False if there are too many to read."""
    sealed = AuditBlock.objects.order_by("-number").values_list("invocations_through", flat=True).first() or 0
    rows = McpToolInvocation.objects.filter(pk__gt=sealed).order_by("pk").values(*_COUNTED)[: _MOST_UNSEALED + 1]
    count, seen = Count(), 0
    for row in rows:
        seen += 1
        count.see({**row, "started_at": row["started_at"].astimezone(UTC).isoformat()})
    found = {}
    for (seconds, slot, subject, name), tally in count.found().items():
        begin = datetime.fromisoformat(slot).replace(tzinfo=UTC)
        if seconds == span and after <= begin < before:
            found[begin, subject, name] = tally
    return found, seen <= _MOST_UNSEALED
