"""Through which id all rows of a table that will ever be are visible: nothing there can still come to light."""

from __future__ import annotations

import time
from typing import Protocol


class WritersLog(Protocol):
    """What is asked of a log."""

    def highest(self) -> dict[str, int]: ...
    def writers(self) -> set[str]: ...


class Settling:
    """Follows it for one table. On PostgreSQL an id may be committed after a higher one (see `Log.writers`)."""

    def __init__(self, table: str) -> None:
        """`table` is the name that the log has for it."""
        self._table = table
        self._through = 0
        self.highest = 0
        """At the last look that asked for it. Settled as soon as the writers at that time have ended."""
        self.is_known = False
        """Whether any ID is known to be settled yet; a table without rows has 0."""
        self._has_looked = False
        self._writers: set[str] = set()

    def look(self, log: WritersLog) -> int:
        """Return the ID, as far as one query shows. It waits for nobody, so it may lag behind by a look."""
        if self._writers:
            self._writers &= log.writers()
        if self._writers:
            return self._through
        if self._has_looked:
            self._through, self.is_known = self.highest, True
        self._has_looked = True
        # In this order: who drew an id up to the highest, and has not committed, is among the writers.
        self.highest = log.highest()[self._table]
        self._writers = log.writers()
        if not self._writers:
            self._through, self.is_known = self.highest, True
        return self._through

    def await_first(self, log: WritersLog, seconds: float) -> int:
        """Return the first ID that is settled, once those who write now have committed.

        Return the highest where one of them takes longer than this: what it commits may be below.
        """
        until = time.monotonic() + seconds
        settled = self.look(log)
        while not self.is_known:
            if time.monotonic() > until:
                return self.highest
            time.sleep(0.01)
            settled = self.look(log)
        return settled
