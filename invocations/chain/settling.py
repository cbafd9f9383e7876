"""Through which id all rows of a table that will ever be are visible: nothing there can still come to light."""

from __future__ import annotations

from invocations.chain.log import Log


class Settling:
    """Follows it for one table. On PostgreSQL an id may be committed after a higher one (see `Log.writers`)."""

    def __init__(self, table: str) -> None:
        """`table` is the name that the log has for it."""
        self._table = table
        self._through = 0
        self._next = 0
        """Settled as soon as the writers at the time of this highest ID have ended."""
        self._writers: set[str] = set()

    def look(self, log: Log) -> int:
        """Return the ID, as far as one query shows. It waits for nobody, so it may lag behind by a look."""
        if self._writers:
            self._writers &= log.writers()
        if self._writers:
            return self._through
        self._through = self._next
        # In this order: who drew an id up to the highest, and has not committed, is among the writers.
        self._next = log.highest()[self._table]
        self._writers = log.writers()
        if not self._writers:
            self._through = self._next
        return self._through
