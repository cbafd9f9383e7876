"""One process at a time, of those that seal or of those that ship, over a database. Ends with its holder.

Only to save work: that a block is sealed once is decided by its number, which is a primary key, and where a target of
shipping stands by a comparison.
"""

from __future__ import annotations

import contextlib
import fcntl
from pathlib import Path
from typing import Any

from invocations.chain.log import Log

_SEALING = 0x6D637061  # "mcpa"


class Lease:
    """On PostgreSQL an advisory lock of the session, on SQLite a lock on the file `beside` the database."""

    def __init__(self, log: Log, beside: Path | None, key: int = _SEALING) -> None:
        self._key = key
        self._log = log
        self._beside = beside
        self._file: Any = None

    def take(self) -> bool:
        """Take or keep the lease; False where another has it."""
        if self._beside is None:
            return bool(
                self._log.run(
                    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = ? AND classid = 0 "
                    "AND pid = pg_backend_pid()) OR pg_try_advisory_lock(?)",
                    self._key,
                    self._key,
                ).fetchone()[0]
            )
        if self._file is not None:
            return True
        file = self._beside.open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            return False
        self._file = file
        return True

    def is_taken(self) -> bool:
        """Return whether anybody has it."""
        if self._beside is None:
            return bool(
                self._log.run(
                    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = ? AND classid = 0 "
                    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))",
                    self._key,
                ).fetchone()[0]
            )
        with contextlib.suppress(FileNotFoundError), self._beside.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
        return False
