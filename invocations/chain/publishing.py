"""Checkpoints on their way out of the database: to a file, and to other places. Needs no Django."""

from __future__ import annotations

from pathlib import Path

from invocations.chain.places import Deliveries, FilePlace
from invocations.chain.sealer import Sealer
from invocations.chain.verifier import Bad, Checkpoint, read_checkpoints

_TAIL_BYTES = 4096


class Publisher:
    """Appends a checkpoint to `file` whenever the log has grown, and hands it to the other places.

    The other places receive the first one in any case: an earlier process may not have delivered it.
    """

    def __init__(self, file: Path, others: Deliveries | None = None) -> None:
        self.file = FilePlace(file)
        self._others = others
        self._handed = 0
        self._size = self._last_size()

    def publish(self, sealer: Sealer) -> str | None:
        """Return the note that was appended, or None where the log has not grown. Raises OSError of the file."""
        found = sealer.checkpoint()
        if found is None:
            return None
        size, note = found
        self._hand(size, note)
        if size <= self._size:
            return None
        self.file.put(note)
        self._size = size
        return note

    def testify(self, sealer: Sealer) -> None:
        """Append this process's last sealed note even if the log lacks it by now: the next start finds it."""
        found = sealer.last_sealed()
        if found is not None and (size := Checkpoint.parse(found).size) > self._size:
            self._hand(size, found)
            self.file.put(found)
            self._size = size

    def _hand(self, size: int, note: str) -> None:
        if self._others is not None and size > self._handed:
            self._others.hand(note)
            self._handed = size

    def _last_size(self) -> int:
        try:
            with self.file.path.open("rb") as file:
                file.seek(max(0, self.file.path.stat().st_size - _TAIL_BYTES))
                tail = file.read().decode(errors="replace")
        except FileNotFoundError:
            return 0
        notes = tail.rstrip("\n").split("\n\n")
        try:
            return Checkpoint.parse("\n\n".join(notes[-2:])).size
        except Bad:
            return 0  # cut off while it was written; the next one begins on a line of its own


def published(file: Path) -> list[Checkpoint]:
    """Return the checkpoints in a file; raise Bad where one is damaged."""
    try:
        return read_checkpoints(file.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return []
