"""Files in a folder: JSON lines that are appended to and rotated, or one file of Parquet a delivery.

A file is named by the position of its first row, so names sort as the log does. A line truncated by a kill is removed
when the file is opened again.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from mcphub.features.audit_export.destinations.parquet import parquet_of
from mcphub.features.audit_export.reading import Shipment

_TAIL_BYTES = 4 * 1024 * 1024
_MODE = 0o600


class FolderTarget:
    def __init__(self, folder: Path, file_bytes: int, *, is_parquet: bool) -> None:
        self._folder, self._file_bytes, self._is_parquet = folder, file_bytes, is_parquet
        self._known: tuple[Path, int] | None = None
        """The file that is written, and how long it is as far as this process has written it."""

    def deliver(self, shipment: Shipment) -> int:
        """Raises OSError: a full disk, a volume that is read-only."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._is_parquet or shipment.label:
            ending, content = ("parquet", parquet_of(shipment)) if self._is_parquet else ("jsonl", shipment.lines)
            _write_whole(self._folder / f"{shipment.stem}.{ending}", content)
            return 0
        path = self._file(shipment)
        is_new = not path.exists()
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _MODE), "ab") as file:
            file.write(shipment.lines)
            file.flush()
            os.fsync(file.fileno())
            self._known = (path, file.tell())
        if is_new:
            _sync_folder(self._folder)
        return 0

    def _file(self, shipment: Shipment) -> Path:
        """Return the file to append to: the newest, unless it is full or of another day."""
        today = f"{datetime.now(UTC):%Y%m%d}"
        newest = max(self._folder.glob("audit-*.jsonl"), default=None)
        if newest is not None:
            if self._known is None or self._known[0] != newest or self._known[1] != newest.stat().st_size:
                _cut_after_last_line(newest)
            if newest.stem.endswith(today) and newest.stat().st_size < self._file_bytes:
                return newest
        # Two of one position and day: the first was full before its first row was delivered, so it is this one.
        return self._folder / f"audit-{shipment.first:016d}-{today}.jsonl"

    def close(self) -> None:
        pass


def _write_whole(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _cut_after_last_line(path: Path) -> None:
    """Take away the begin of a line that a kill, or a full disk, left."""
    with path.open("r+b") as file:
        size = at = file.seek(0, os.SEEK_END)
        while at:
            begin = max(0, at - _TAIL_BYTES)
            file.seek(begin)
            found = file.read(at - begin).rfind(b"\n")
            if found >= 0:
                at = begin + found + 1
                break
            at = begin
        if at < size:
            file.truncate(at)
            os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
