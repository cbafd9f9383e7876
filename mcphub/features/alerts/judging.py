"""When an alert fires: pure, over counts of calls by slot of time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from invocations.figures.tallies import Tally

ERRORS, SLOW, QUIET, SPEND = "errors", "slow", "quiet", "spend"
MILLION = 1_000_000


@dataclass(slots=True)
class AlertCount(Tally):
    """A count of calls, or of money."""

    spent: int = 0
    """Millionths of the hub's currency."""


@dataclass(frozen=True, slots=True)
class AlertThreshold:
    measure: str
    limit: int = 0
    """Percent of errors, milliseconds, or whole units of the currency; nothing for `quiet`."""
    least_calls: int = 1
    """Below this number of calls within the time, errors and latency fire nothing."""

    def is_passed_by(self, tally: AlertCount) -> bool:
        if self.measure == SPEND:
            return tally.spent >= self.limit * MILLION
        if self.measure == QUIET:
            return tally.calls == 0
        if tally.calls < max(1, self.least_calls):
            return False
        if self.measure == ERRORS:
            return 100 * tally.errors >= self.limit * tally.calls
        p95 = tally.percentile(95)
        return p95 is not None and p95 >= self.limit


@dataclass(slots=True)
class AlertHistory:
    """The result of trying a threshold on the past."""

    fired: int = 0
    slots_fired: int = 0
    slots: int = 0
    holds: bool = False
    """At its end."""

    def add(self, other: AlertHistory) -> None:
        self.fired += other.fired
        self.slots_fired += other.slots_fired
        self.slots += other.slots
        self.holds = other.holds


def tried(
    threshold: AlertThreshold, counted: Iterable[AlertCount], window: int, settle: int, held: bool = False
) -> AlertHistory:
    """Return how often it would have fired: `counted` slot by slot, each judged with the `window` - 1 before it.

    `held`: it fired before the first of them. A return within `settle` slots counts as the same firing, as notices
    do. The first `window` - 1 slots only fill the window.
    """
    found, kept, whole = AlertHistory(), deque[AlertCount](), AlertCount()
    over_for = 0 if held else settle + 1
    for tally in counted:
        kept.append(tally)
        whole.add(tally)
        whole.spent += tally.spent
        if len(kept) > window:
            _take_out(whole, kept.popleft())
        if len(kept) < window:
            continue
        found.slots += 1
        if threshold.is_passed_by(whole):
            found.fired += over_for > settle
            found.slots_fired += 1
            over_for = 0
        else:
            over_for += 1
    found.holds = over_for == 0
    return found


def _take_out(whole: AlertCount, old: AlertCount) -> None:
    whole.calls -= old.calls
    whole.errors -= old.errors
    whole.spent -= old.spent
    whole.durations.subtract(old.durations)
