"""Checkpoints on their way out of the database: appended to a file. Needs no Django."""

from __future__ import annotations

import os
from pathlib import Path

from invocations.chain.sealer import Sealer
from invocations.chain.verifier import Bad, Checkpoint, read_checkpoints

_TAIL_BYTES = 4096


class Publisher:
    """Appends a checkpoint to `file` whenever the log has grown."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._size = self._last_size()

    def publish(self, sealer: Sealer) -> str | None:
        """Give the note that was appended, or None where the log has not grown."""
        found = sealer.checkpoint()
        if found is None or found[0] <= self._size:
            return None
        size, note = found
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.file.open("a") as file:
            file.write(f"{note}\n")
            file.flush()
            os.fsync(file.fileno())
        self._size = size
        return note

    def is_ahead(self, sealer: Sealer) -> bool:
        """Whether what was published tells of more blocks than there are: the log was cut, or an old copy restored."""
        found = sealer.checkpoint()
        return self._size > (found[0] if found else 0)

    def _last_size(self) -> int:
        try:
            with self.file.open("rb") as file:
                file.seek(max(0, self.file.stat().st_size - _TAIL_BYTES))
                tail = file.read().decode(errors="replace")
        except FileNotFoundError:
            return 0
        notes = tail.rstrip("\n").split("\n\n")
        try:
            return Checkpoint.parse("\n\n".join(notes[-2:])).size
        except Bad:
            return 0  # cut off while it was written; the next one begins on a line of its own


def published(file: Path) -> list[Checkpoint]:
    """Give the checkpoints in a file; raise Bad where one is damaged."""
    try:
        return read_checkpoints(file.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return []
