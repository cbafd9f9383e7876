"""A circuit breaker: after failures in a row nobody tries for a while, then one tries for all. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

FAILURES = 5
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
STABLE_SECONDS = 10.0
"""A connection that stood so long begins to count its failures anew."""
LONGEST_REST_SECONDS = 2.0
"""A pause for a server that answers other requests than the failed ones."""


def backoff(failures: int, draw: Callable[[], float] = random.random) -> float:
    """Return the seconds to wait after so many failures in a row: doubled each time, half of it by chance."""
    pause: float = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(max(0, failures - 1), 10))
    return pause / 2 + draw() * pause / 2


@dataclass(slots=True)
class Retries:
    """How long to wait before a connection is made again: ever longer, until one has stood for a while."""

    draw: Callable[[], float] = random.random
    failures: int = 0

    def failed(self, stood_seconds: float | None) -> float:
        """Return the pause after a connection that stood so long; None: it was not made, however long that took."""
        if stood_seconds is not None and stood_seconds > STABLE_SECONDS:
            self.failures = 0
        self.failures += 1
        if stood_seconds is not None and self.failures == 1:
            return 0.0  # what worked a moment ago is tried again at once, the first time
        return backoff(self.failures, self.draw)

    def ended_well(self) -> None:
        self.failures = 0


@dataclass(slots=True)
class Breaker:
    """Closed while all goes well. `now` is asked for seconds of any steady clock."""

    now: Callable[[], float]
    limit: int = FAILURES
    draw: Callable[[], float] = random.random
    failures: int = 0
    _opened: int = field(default=0)
    _until: float = field(default=0.0)
    _is_probing: bool = field(default=False)
    _answers: bool = field(default=False)

    @property
    def is_open(self) -> bool:
        return self._opened > 0 and not (self._answers and self._until <= self.now())

    @property
    def left_seconds(self) -> float:
        """The rest of the pause; 0 where none is left, or none began."""
        return max(0.0, self._until - self.now()) if self.is_open else 0.0

    @property
    def openings(self) -> int:
        """How often in a row it opened."""
        return self._opened

    def rest(self, seconds: float, openings: int = 1) -> None:
        """Open because somebody else found out."""
        self._opened = max(1, openings)
        self._until = self.now() + seconds
        self._is_probing = self._answers = False

    def wait_seconds(self) -> float:
        """Return how long to stay away; 0 lets one through. Whoever is let through reports how it went."""
        if not self.is_open:
            return 0.0
        left = self._until - self.now()
        if left > 0:
            return left
        if self._is_probing:
            return FIRST_PAUSE_SECONDS
        self._is_probing = True
        return 0.0

    def succeeded(self) -> None:
        self.failures = self._opened = 0
        self._is_probing = self._answers = False

    def answered(self) -> None:
        """Something else was answered: all may try again, the first time at once, then after ever longer rests.

        A server that answers is healthy; only some of its requests fail. Yet each failure costs the hub more than a
        call that goes well, up to a new session, and whoever asks for nothing else must not slow the calls of others:
        until a call goes well, one that fails is enough for the next rest.
        """
        if not self._opened:
            self.failures = 0
        elif self.is_open:
            rest = min(LONGEST_REST_SECONDS, backoff(self._opened - 1, self.draw)) if self._opened > 1 else 0.0
            self._until = min(self._until, self.now() + rest)
            self._answers = True

    def failed(self) -> None:
        self.failures += 1
        self._is_probing = False
        began_before_rest = self._answers and self.now() < self._until
        if not began_before_rest and (self._opened or self.failures >= self.limit):
            self._opened += 1
            self._answers = False
            self._until = self.now() + backoff(self._opened, self.draw)

    def left(self) -> None:
        """The trial call gave up before a verdict."""
        self._is_probing = False
