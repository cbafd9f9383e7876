"""Counts of calls by minute, hour, quarter of a day, day and week, kept up while rows are sealed, so that an overview
reads no calls, and of its longest times no more slots than it draws.

Pure, and without Django: the sealing process counts with it. A tally counts for a subject: all calls, a tool, a
client, a caller or an error code. Durations are kept as counts of classes, each a fifth wider than the one before.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

MINUTE, HOUR, QUARTER, DAY, WEEK = 60, 3600, 21_600, 86_400, 604_800
SPANS = (MINUTE, HOUR, QUARTER, DAY, WEEK)
"""Seconds of a slot. Slots are counted from 1970, so weeks begin on Thursdays."""
KEPT_SECONDS = {MINUTE: 2 * DAY} | dict.fromkeys(SPANS[1:], 400 * DAY)
ALL, TOOL, CLIENT, CALLER, CODE = "all", "tool", "client", "caller", "code"
NAMED = (TOOL, CLIENT, CALLER, CODE)
SUBJECTS = (ALL, *NAMED)
_CLASSES_OF_AN_OCTAVE = 4

Key = tuple[int, str, str, str]
"""Span in seconds, slot as `YYYY-MM-DDTHH:MM:SS` in UTC, subject, name."""


@dataclass(slots=True)
class Tally:
    """`durations`: class -> calls; see `class_of`."""

    calls: int = 0
    errors: int = 0
    durations: Counter[int] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        self.calls += other.calls
        self.errors += other.errors
        self.durations.update(other.durations)

    def percentile(self, part: int) -> int | None:
        """Return the milliseconds that `part` of a hundred calls do not exceed: at most a fifth too many, never
        too few.

        None where nothing was counted.
        """
        wanted = self.durations.total() * part / 100
        reached = 0
        for number in sorted(self.durations):
            reached += self.durations[number]
            if reached >= wanted:
                return longest_of(number)
        return None

    def dump(self) -> str:
        """Return the durations as JSON text, shortest first."""
        return json.dumps({str(number): self.durations[number] for number in sorted(self.durations)})

    def see(self, durations: str) -> None:
        """Add durations as they were dumped."""
        found = self.durations
        for number, count in json.loads(durations).items():
            found[int(number)] += count

    @staticmethod
    def load(durations: str) -> Counter[int]:
        return Counter({int(number): count for number, count in json.loads(durations).items()})


@lru_cache(4096)
def class_of(duration_ms: int) -> int:
    """Return the class of a duration: 0 for less than a millisecond, then four for each doubling."""
    if duration_ms <= 0:
        return 0
    number = math.ceil(math.log2(duration_ms) * _CLASSES_OF_AN_OCTAVE) + 1
    # Floating point may miss by one at the border.
    return number - 1 if number > 1 and duration_ms <= longest_of(number - 1) else number


def longest_of(number: int) -> int:
    """Return the longest duration of a class, in whole milliseconds."""
    return 0 if number == 0 else math.floor(2 ** ((number - 1) / _CLASSES_OF_AN_OCTAVE) + 1e-9)


def slot_of(moment: datetime, span: int) -> datetime:
    """Return when the slot of a span begins that holds a moment."""
    since = int(moment.timestamp())
    return datetime.fromtimestamp(since - since % span, UTC)


@lru_cache(4096)
def _slots_of(minute: str) -> tuple[tuple[int, str], ...]:
    """Return span and slot, as in `Key`, of a time as `YYYY-MM-DDTHH:MM`; none for an invalid time."""
    try:
        moment = datetime.strptime(minute, "%Y-%m-%dT%H:%M").replace(tzinfo=UTC)
    except ValueError:
        return ()
    if len(minute) != len("2026-01-01T00:00"):
        return ()
    return tuple((span, f"{slot_of(moment, span):%Y-%m-%dT%H:%M:%S}") for span in SPANS)


class Count:
    """Counts invocations as they are seen."""

    def __init__(self) -> None:
        self._alike: Counter[tuple[Any, ...]] = Counter()

    def see(self, row: Mapping[str, Any]) -> None:
        """Count an invocation, given by column; `started_at` in ISO form and UTC. Nulls may be left out."""
        duration, get = row.get("duration_ms"), row.get
        if type(duration) is int and get("asked_by") is None:  # a question takes the time of a person
            alike = (
                row["started_at"][:16],
                row["status"],
                class_of(duration),
                get("tool_name"),
                get("client_name"),
                get("principal"),
                get("error_code"),
            )
            self._alike[alike] += get("occurrences", 1)

    def found(self) -> dict[Key, Tally]:
        """Return the counts.

        A row with an invalid time, as after tampering, is skipped: the proof reports it.
        """
        found: dict[Key, Tally] = {}
        for (minute, status, duration_class, *names), calls in self._alike.items():
            subjects = [(ALL, ""), *((subject, name) for subject, name in zip(NAMED, names, strict=True) if name)]
            for span, slot in _slots_of(minute):
                for subject, name in subjects:
                    key = span, slot, subject, name
                    if key not in found:
                        found[key] = Tally()
                    tally = found[key]
                    tally.calls += calls
                    tally.errors += calls if status == "error" else 0
                    tally.durations[duration_class] += calls
        return found
