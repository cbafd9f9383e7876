"""Calendar windows in UTC: their start, and the time of reset. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

Period = Literal["minute", "hour", "day", "month"]
MINUTE: Period = "minute"
HOUR: Period = "hour"
DAY: Period = "day"
MONTH: Period = "month"
PERIODS: tuple[Period, ...] = (MINUTE, HOUR, DAY, MONTH)

_SECONDS = {MINUTE: 60, HOUR: 3600, DAY: 86400}


@dataclass(frozen=True, slots=True, order=True)
class QuotaWindow:
    """From `begins` up to, but without, `ends`: seconds since the epoch."""

    begins: int
    ends: int

    @property
    def resets_at(self) -> str:
        """Return its end in RFC 3339 form."""
        return datetime.fromtimestamp(self.ends, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def window_of(period: Period, moment: float) -> QuotaWindow:
    """Return the window in which a moment lies. `moment`: seconds since the epoch."""
    if period == MONTH:
        now = datetime.fromtimestamp(moment // 1, UTC)
        first = datetime(now.year, now.month, 1, tzinfo=UTC)
        following = (first + timedelta(days=31)).replace(day=1)
        return QuotaWindow(int(first.timestamp()), int(following.timestamp()))
    seconds = _SECONDS[period]
    begins = int(moment // seconds) * seconds
    return QuotaWindow(begins, begins + seconds)
