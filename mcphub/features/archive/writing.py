"""Writes closed months: blocks with their rows go to files, file by file, and the signed manifest makes them a month.

A month is written in a folder of its own name with the ending `.draft`, which becomes the month by a rename, after its
manifest is on disk; an object store receives it from there. Every file is read back and verified against the log's
signatures before it gets its name. A run that was killed leaves whole files, which the next one verifies again and
keeps; nothing is twice or missing, as the verifier takes blocks and rows in their one due order only.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from django.conf import settings

from invocations.chain import checking, records
from invocations.chain.commanding import Signs
from invocations.chain.keys import KeyFolder
from invocations.chain.log import Block, Log
from invocations.chain.sealer import checkpoint_note
from invocations.chain.verifier import Bad, Verifier, canonical
from mcphub.features.archive import files, manifests
from mcphub.features.archive.duck import errors
from mcphub.features.archive.manifests import TOMBSTONES, Manifest
from mcphub.features.archive.places import MONTH, ArchivePlace, FolderPlace, IsBusy, opened

_MOST_ROWS = 200_000
_MOST_BYTES = 64 * 1024 * 1024
"""Of JSON in one file; a block is written as a whole, so a file may be longer by one."""
_DRAFT = ".draft"
_PART = re.compile(r"part-(\d{12})-(\d{12})\.parquet")
_TRIES = 3


@dataclass(frozen=True, slots=True)
class MonthSpan:
    """The blocks of a closed month: those that were sealed in it."""

    month: str
    first: int
    last: int


class Archiver:
    """Writes one archive. `written` receives the number of rows of each block, `sent` the size of each sent piece."""

    def __init__(
        self,
        log: Log,
        keys: KeyFolder,
        signer: Signs,
        place: str | Path,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        written: Callable[[int], object] = lambda rows: None,
        sent: Callable[[int], object] = lambda size: None,
        most_rows: int = _MOST_ROWS,
    ) -> None:
        self._log, self._keys, self._signer, self._place = log, keys, signer, place
        self._now, self._written, self._sent, self._most_rows = now, written, sent, most_rows

    def existing(self) -> list[Manifest]:
        """Return the archived months. Raises OSError, and Bad where they are not those of this log."""
        with opened(self._place) as place:
            return self._existing(place)

    def run(self, until: str = "") -> Iterator[Manifest]:
        """Write the closed months that are not archived, through that one; return each as it becomes one.

        Raises Bad where a row is not as it was sealed, KeyProblem, IsBusy and OSError.
        """
        with opened(self._place) as place:
            place.workshop.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _alone(place.workshop):
                months = self._existing(place)
                while (span := self._next(months)) is not None and not (until and span.month > until):
                    place.publish(self._made(place, span, months), span.month, self._sent)
                    months = self._existing(place)
                    yield months[-1]

    def _existing(self, place: ArchivePlace) -> list[Manifest]:
        found = manifests.of_place(place, {key.key_id: key for key in self._keys.publics()})
        for manifest in found:
            check_against(self._log, manifest)
        return found

    def _next(self, months: list[Manifest]) -> MonthSpan | None:
        before = months[-1] if months else None
        first = 0 if before is None else before.last_block + 1
        block = self._log.block(first)
        if block is None:
            return None
        month = month_of(block.header["sealed_at"])
        if before is not None:  # a clock that went back seals nothing in a month that is archived
            month = max(month, following(before.month))
        end = datetime.strptime(f"{following(month)}-01+0000", "%Y-%m-%d%z")
        if end > self._now():
            return None
        after = self._log.run(
            "SELECT min(number) FROM invocations_auditblock WHERE number > ? AND sealed_at >= ?",
            first,
            self._log.moment(end),
        ).fetchone()[0]
        return MonthSpan(month, first, (self._log.size() if after is None else int(after)) - 1)

    def _made(self, place: ArchivePlace, span: MonthSpan, months: list[Manifest]) -> Path:
        """Return the folder of a month that was signed: that of a run that ended while it sent it, or a new one."""
        before = months[-1] if months else None
        draft, signed = place.workshop / f"{span.month}{_DRAFT}", place.workshop / span.month
        self._clear(place, draft, signed)
        if signed.exists():
            if self._is_due(FolderPlace(place.workshop), span, before):
                return signed
            shutil.rmtree(signed)
        draft.mkdir(exist_ok=True, mode=0o700)
        names = self._parts(draft, span)
        told = {name: _told(draft / name, rows) for name, rows in names.items()}
        for name in names:
            told[name]["calls"] = files.calls_of(draft / name)
        known = sum(each.files[TOMBSTONES]["rows"] for each in months)
        lines = [canonical(each) + b"\n" for each in islice(records.tombstones(self._log), known, None)]
        files.write_whole(draft / TOMBSTONES, b"".join(lines))
        told[TOMBSTONES] = _told(draft / TOMBSTONES, len(lines))
        last = self._block(span.last)
        values = {
            "format": manifests.FORMAT,
            "archive": before.archive if before is not None else secrets.token_hex(8),
            "month": span.month,
            "log": self._signer.public.name,
            "key": self._signer.public.key_id,
            "made_at": self._now().isoformat(timespec="seconds"),
            "version": settings.MCPHUB_VERSION,
            "previous": before.digest if before is not None else None,
            "first_block": span.first,
            "last_block": span.last,
            "first_position": self._block(span.first).header["first"],
            "last_position": last.header["first"] + last.header["count"] - 1,
            "rows": sum(names.values()),
            "head": last.leaf.hex(),
            "root": last.tree_root.hex(),
            "checkpoint": checkpoint_note(self._log, self._keys, span.last + 1),
            "files": told,
        }
        manifests.save(draft, values, self._signer)
        files.sync_folder(draft)
        return draft

    def _is_due(self, workshop: FolderPlace, span: MonthSpan, before: Manifest | None) -> bool:
        """Return whether a month that was signed is whole, and the next of the archive as it stands now."""
        try:
            made = manifests.of_month(workshop, span.month, {key.key_id: key for key in self._keys.publics()})
            is_whole = all(
                files.digest(workshop.workshop / span.month / name) == told["sha256"]
                for name, told in made.files.items()
            )
        except (Bad, OSError):
            return False
        due = None if before is None else before.digest
        return is_whole and (made.values["previous"], made.first_block, made.last_block) == (due, span.first, span.last)

    def _clear(self, place: ArchivePlace, *due: Path) -> None:
        """Remove drafts and signed folders of other months, which an archive put in this place since has overtaken."""
        there = set(place.months())
        for path in place.workshop.iterdir():
            is_made = MONTH.fullmatch(path.name.removesuffix(_DRAFT)) is not None
            is_month = isinstance(place, FolderPlace) and path.name in there
            if is_made and not is_month and path not in due:
                shutil.rmtree(path)

    def _parts(self, draft: Path, span: MonthSpan) -> dict[str, int]:
        """Write the files of a month, and keep those of an earlier run; return name -> rows."""
        found = self._kept(draft, span)
        first = span.first if not found else int(max(found)[18:30]) + 1
        while first <= span.last:
            name, rows = self._part(draft, first, span.last)
            found[name] = rows
            first = int(name[18:30]) + 1
        return found

    def _kept(self, draft: Path, span: MonthSpan) -> dict[str, int]:
        found: dict[str, int] = {}
        due = span.first
        for path in sorted(draft.iterdir()):
            match = _PART.fullmatch(path.name)
            if match is not None and int(match[1]) == due and due <= int(match[2]) <= span.last:
                try:
                    found[path.name] = self._verified(path, due, int(match[2]))
                except Bad:  # no file of this log; it is written anew
                    path.unlink()
                    continue
                due = int(match[2]) + 1
            else:
                path.unlink()
        return found

    def _part(self, draft: Path, first: int, last: int) -> tuple[str, int]:
        """Write the next file. Where retention removed something meanwhile, begin it anew."""
        for _ in range(_TRIES - 1):
            known = self._tombstones()
            try:
                return self._part_once(draft, first, last)
            except Bad:
                if self._tombstones() == known:
                    raise
        return self._part_once(draft, first, last)

    def _part_once(self, draft: Path, first: int, last: int) -> tuple[str, int]:
        lines = files.PartDraft(draft / f"rows{_DRAFT}")
        unnamed = draft / f"part{_DRAFT}"
        try:
            through = self._fill(lines, first, last)
            try:
                lines.save_as(unnamed)
            except errors() as error:
                self._judge(first, through)
                raise Bad(f"Blocks {first} to {through} cannot be written as Parquet: {error}") from error
            rows = self._verified(unnamed, first, through)
            path = draft / f"part-{first:012d}-{through:012d}.parquet"
            unnamed.rename(path)
            files.sync_folder(draft)
            return path.name, rows
        finally:
            lines.drop()
            unnamed.unlink(missing_ok=True)

    def _fill(self, lines: files.PartDraft, first: int, last: int) -> int:
        """Write whole blocks until the file is full; return the number of the last."""
        through = first
        for number in range(first, last + 1):
            for record in records.records(self._log, number, number):
                if problem := record.get("problem"):
                    raise Bad(
                        f"{record['row']} {record['id']} (position {record['position']}, block {number}) {problem}."
                    )
                lines.add(record)
            through = number
            self._written(self._block(number).header["count"])
            if lines.rows >= self._most_rows or lines.bytes >= _MOST_BYTES:
                break
        return through

    def _judge(self, first: int, last: int) -> None:
        """Raise Bad with the row that was tampered with, if one of these blocks has such a row."""
        for number in range(first, last + 1):
            checking.verify_block(self._log, self._keys, self._block(number))

    def _verified(self, path: Path, first: int, last: int) -> int:
        """Verify a file as that of these blocks of the log; return its number of rows."""
        verifier = Verifier(self._keys.publics(), digested=True)
        verifier.feed(records.begin(self._log, self._keys, first))
        for record in records.tombstones(self._log):
            verifier.feed(record)
        for record in files.read(path):
            verifier.feed(record)
        verifier.feed(records.end(last - first + 1, verifier.summary.rows))
        return verifier.finish().rows

    def _tombstones(self) -> int:
        return int(self._log.run("SELECT count(*) FROM invocations_audittombstone").fetchone()[0])

    def _block(self, number: int) -> Block:
        block = self._log.block(number)
        if block is None:
            raise Bad(f"Block {number} is missing.")
        return block


def check_against(log: Log, manifest: Manifest) -> None:
    """Raise Bad where the log is not the one that the month was written from."""
    block = log.block(manifest.last_block)
    if block is None:
        raise Bad(
            f"The log is truncated: it ends after {log.size()} blocks, and the archived month {manifest.month} ends "
            f"with block {manifest.last_block}."
        )
    if (block.leaf.hex(), block.tree_root.hex()) != (manifest.values["head"], manifest.values["root"]):
        raise Bad(
            f"The archived month {manifest.month} is not of this log: block {manifest.last_block} differs, so one of "
            "both was rewritten."
        )


def month_of(moment: str) -> str:
    """Return the month, in UTC, of a time as blocks have it."""
    return f"{datetime.fromisoformat(moment).astimezone(UTC):%Y-%m}"


def following(month: str) -> str:
    year, number = map(int, month.split("-"))
    return f"{year + number // 12:04d}-{number % 12 + 1:02d}"


def _told(path: Path, rows: int) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": files.digest(path), "rows": rows}


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the lock ends with it. Raises IsBusy."""
    with os.fdopen(os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise IsBusy(f"another process writes to {folder}") from None
        yield
