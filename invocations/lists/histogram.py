"""The distribution of a list's matches over time: from the tallies if they suffice, else from the counted rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from invocations.figures import overview
from invocations.figures.tallies import ALL, CALLER, CLIENT, CODE, TOOL, slot_of
from sessions_app.keys.naming import principals_of
from sessions_app.kit.lists.filters import Demand, During
from sessions_app.workspaces import scope

STEPS = (1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 21_600, 86_400, 604_800, 2_592_000)
MOST_BARS = 60
_USUAL = (timedelta(days=1), timedelta(days=30))
"""Times that are tried where none is asked for, until one holds a call."""
_TALLIED = {"tool": TOOL, "client": CLIENT, "principal": CALLER, "error_code": CODE}


@dataclass(slots=True)
class HistogramBar:
    begin: datetime
    good: int = 0
    bad: int = 0


@dataclass(frozen=True, slots=True)
class Histogram:
    bars: list[HistogramBar]
    step: timedelta
    counted_from: datetime | None = None
    """Where rows were counted back to no further than this."""
    is_tallied: bool = False


Ends = tuple[datetime | None, datetime | None]


def tallied(demands: Sequence[Demand]) -> Histogram | None:
    """Return the histogram of calls from the tallies, if they have the figures."""
    found = _subject(demands)
    if found is None or scope.current() is not None:  # tallies are of the whole hub
        return None
    subject, name, status = found
    after, before = ends_of(demands)
    now = datetime.now(UTC)
    before = min(before or now, now + timedelta(minutes=1))
    begins = [max(after, before - overview.LONGEST)] if after is not None else [before - each for each in _USUAL]
    begins = [begin for begin in begins if begin < before]
    shown = None
    for begin in begins:
        shown = overview.between(begin, before, subject=subject, name=name)
        if shown.total.calls:
            break
    if shown is None or not shown.is_whole:
        return None
    bars = [
        HistogramBar(
            step.begin,
            0 if status == "error" else step.tally.calls - step.tally.errors,
            0 if status == "ok" else step.tally.errors,
        )
        for step in shown.steps
    ]
    return Histogram(bars, shown.step, is_tallied=True)


def of_rows(rows: Sequence[tuple[datetime, bool]], demands: Sequence[Demand], *, is_cut: bool) -> Histogram | None:
    """Return the histogram of moments and whether each is a failure, newest first; None where there are none."""
    after, before = ends_of(demands)
    moments = [moment for moment, _is_bad in rows]
    if not moments:
        return None
    oldest, newest = min(moments), max(moments)
    begin = oldest if after is None or is_cut else min(after, oldest)
    end = newest if before is None else max(before, newest)
    if after is not None and before is None:
        end = max(newest, datetime.now(UTC))
    length = (end - begin).total_seconds()
    seconds = next((step for step in STEPS if length < step * (MOST_BARS - 1)), STEPS[-1])
    first = slot_of(begin, seconds)
    count = min(int((end - first).total_seconds() // seconds) + 1, MOST_BARS)
    bars = [HistogramBar(first + timedelta(seconds=seconds * number)) for number in range(count)]
    for moment, is_bad in rows:
        place = int((moment - first).total_seconds() // seconds)
        if 0 <= place < count:
            bars[place].bad += is_bad
            bars[place].good += not is_bad
    return Histogram(bars, timedelta(seconds=seconds), oldest if is_cut else None)


def ends_of(demands: Sequence[Demand]) -> Ends:
    """Return the first and the last moment that may be found, as far as times are asked for."""
    ranges = [
        value for each in demands if isinstance(each.of, During) and not each.is_excluded for value in each.values
    ]
    begins, ends = [begin for begin, _end in ranges], [end for _begin, end in ranges]
    after = None if not begins or None in begins else min(begin for begin in begins if begin is not None)
    before = None if not ends or None in ends else max(end for end in ends if end is not None)
    return after, before


def _subject(demands: Sequence[Demand]) -> tuple[str, str, str] | None:
    """Return subject and name of the tallies, and the status, or None where the tallies do not know."""
    subject, name, status = ALL, "", ""
    times = 0
    for each in demands:
        if each.is_excluded or len(each.values) != 1:
            return None
        value = each.values[0]
        if isinstance(each.of, During):
            times += 1
        elif each.of.name == "status" and not status:
            status = str(value)
        elif each.of.name in _TALLIED and subject == ALL:
            names = principals_of(str(value)) if each.of.name == "principal" else [str(value)]
            if len(names) != 1:
                return None
            subject, name = _TALLIED[each.of.name], names[0]
        else:
            return None
    return (subject, name, status) if times < 2 else None
