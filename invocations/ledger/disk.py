"""Space on the disk of the database, so that calls are refused before it fails.

On SQLite alone: a database server has a disk of its own, which the hub cannot see.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

LOW: Final = 4
"""Times the least: below it the log and `/ready` warn."""
_RELIEF: Final = 1.1
"""Times the least: above it calls are made again, so that they do not come and go at the bound."""
_MIB: Final = 1024 * 1024


class DiskSpace:
    """The free space in a folder. `look` runs now and then; the rest returns its findings."""

    def __init__(self, folder: Path | None, least_bytes: int) -> None:
        """`folder` None, or `least_bytes` 0: nothing is watched."""
        self._folder = folder if least_bytes else None
        self._least = least_bytes
        self.free_bytes: int | None = None
        self.is_short = False
        self._is_low = False

    @property
    def words(self) -> str | None:
        """Return the problem; None if there is none."""
        if self.free_bytes is None or not (self.is_short or self._is_low):
            return None
        free = f"{self.free_bytes // _MIB} MiB are free on the disk of the database"
        if self.is_short:
            return f"{free}, and calls need {self._least // _MIB} MiB"
        return f"{free}; below {self._least // _MIB} MiB calls are refused"

    def look(self) -> None:
        """Read the free space. Takes some microseconds; on a network disk that hangs, as long as that."""
        if self._folder is None:
            return
        try:
            found = os.statvfs(self._folder)
        except OSError as error:
            if self.free_bytes is not None:
                logger.warning("The free space in %s cannot be read: %s", self._folder, error.strerror)
            self.free_bytes, self.is_short, self._is_low = None, False, False
            return
        free = self.free_bytes = found.f_bavail * found.f_frsize
        was_short, was_low = self.is_short, self._is_low
        self.is_short = free < self._least * (_RELIEF if was_short else 1)
        self._is_low = free < self._least * LOW * (_RELIEF if was_low else 1)
        if self.is_short and not was_short:
            logger.error("Calls are refused: %s. Free some space.", self.words)
        elif was_short and not self.is_short:
            logger.warning("Calls are made again: %d MiB are free on the disk of the database", free // _MIB)
        elif self._is_low and not was_low:
            logger.warning("%s. Free some space.", self.words)
