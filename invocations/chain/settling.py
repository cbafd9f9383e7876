"""Through which id all rows of a table that will ever be are visible: nothing there can still come to light."""

from __future__ import annotations

import time
from typing import Protocol


class WritersLog(Protocol):
    """The queries of a log that `Settling` needs."""

    def highest(self) -> dict[str, int]: ...
    def writers(self) -> set[str]: ...


class Settling:
    """Follows it for one table. On PostgreSQL an id may be committed after a higher one (see `Log.writers`)."""

    def __init__(self, table: str) -> None:
        """`table` is the name that the log has for it."""
        self._table = table
        self._through: int | None = None
        self._highest: int | None = None
        """Settled as soon as the writers at the time of this ID have ended."""
        self._writers: set[str] = set()

    @property
    def is_known(self) -> bool:
        """Return whether any ID is settled yet; 0 is the ID of a table without rows."""
        return self._through is not None

    def look(self, log: WritersLog) -> int:
        """Return the ID, as far as one query shows, or 0. It waits for nobody, so it may lag behind by a look."""
        if self._writers:
            self._writers &= log.writers()
        if not self._writers:
            self._through = self._highest
            # In this order: who drew an id up to the highest, and has not committed, is among the writers.
            self._highest = log.highest()[self._table]
            self._writers = log.writers()
            if not self._writers:
                self._through = self._highest
        return self._through or 0

    def await_first(self, log: WritersLog, seconds: float) -> int:
        """Return the first ID that is settled, once those who write now have committed.

        Return the highest where one of them takes longer than this: what it commits may be below.
        """
        until = time.monotonic() + seconds
        settled = self.look(log)
        while not self.is_known:
            if time.monotonic() > until:
                return self._highest or 0
            time.sleep(0.01)  # the database signals no end of a transaction
            settled = self.look(log)
        return settled
