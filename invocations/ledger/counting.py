"""Calls and durations by tool and outcome, for Prometheus, counted as their rows are made.

Names come from the catalogue, up to a bound: client input never names a series.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container
from typing import Final

from django.conf import settings

BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Upper bounds in seconds; those of OpenTelemetry's conventions for MCP."""
OTHER: Final = "other"

Series = tuple[str, str, str]
"""Method, tool, connection."""


class CallCounts:
    """Of one process. Used on its event loop."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[Series, str], int] = {}
        """By series and error code, which is empty for a call that did well."""
        self.durations: dict[Series, list[int]] = {}
        """Calls in each bucket, the last without a bound."""
        self.seconds: dict[Series, float] = {}
        self._most: int = settings.MCPHUB_METRICS_TOOLS
        self._names: set[tuple[str, str]] = set()

    def count(self, method: str, tool: str, connection: str, code: str, seconds: float | None) -> None:
        """Count a call. `tool` is a name of the catalogue, or empty; `seconds` are those of one that was made."""
        key = ((method, tool, connection), code)
        count = self.outcomes.get(key)
        if count is None:
            key = (self._series(method, tool, connection), code)
            count = self.outcomes.get(key, 0)
        self.outcomes[key] = count + 1
        if seconds is None:
            return
        series = key[0]
        durations = self.durations.get(series)
        if durations is None:
            durations = self.durations[series] = [0] * (len(BUCKETS) + 1)
        durations[bisect_left(BUCKETS, seconds)] += 1
        self.seconds[series] = self.seconds.get(series, 0.0) + seconds

    def keep_only(self, tools: Container[str]) -> None:
        """Forget the series of tools that the catalogue has no more: their names make room."""
        gone = {name for name in self._names if name[0] and name[0] not in tools}
        if gone:
            self._names -= gone
            self.outcomes = {key: count for key, count in self.outcomes.items() if key[0][1:] not in gone}
            self.durations = {key: found for key, found in self.durations.items() if key[1:] not in gone}
            self.seconds = {key: found for key, found in self.seconds.items() if key[1:] not in gone}

    def _series(self, method: str, tool: str, connection: str) -> Series:
        name = (tool, connection)
        if name not in self._names:
            if len(self._names) >= self._most:
                return (method, OTHER, OTHER)
            self._names.add(name)
        return (method, tool, connection)
