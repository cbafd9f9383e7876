"""Verifies an archive: alone, or as one chain with the log in a database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from invocations.chain import records
from invocations.chain.log import Log
from invocations.chain.records import Record
from invocations.chain.verifier import NOTHING, TABLES, Bad, Checkpoint, PublicKey, Summary, Verifier, read_export
from mcphub.features.archive import files, manifests
from mcphub.features.archive.manifests import TOMBSTONES, Manifest
from mcphub.features.archive.places import ArchivePlace, opened
from mcphub.features.archive.writing import check_against

ARCHIVED = "audit.archived"
"""The kind of event that records an archived month."""


def verify(place: str | Path, log: Log, trusted: Iterable[PublicKey], checkpoints: Iterable[Checkpoint]) -> Summary:
    """Verify an archive and that the log, which was verified before, continues it and records its months.

    Raises Bad.
    """
    with opened(place) as archive:
        found = _manifests(archive, trusted)
        _check_recorded(log, found)
        for manifest in found:
            check_against(log, manifest)
        return _verify(found, trusted, checkpoints)


def verify_alone(
    place: str | Path, trusted: Iterable[PublicKey], verified: Callable[[int], object] = lambda rows: None
) -> Summary:
    """Verify an archive without the database: that its months from the first block on are as they were signed.

    Raises Bad.
    """
    with opened(place) as archive:
        return _verify(_manifests(archive, trusted), trusted, (), verified)


def _manifests(archive: ArchivePlace, trusted: Iterable[PublicKey]) -> list[Manifest]:
    found = manifests.of_place(archive, {key.key_id: key for key in trusted})
    if not found:
        raise Bad(f"There is no archived month in {archive}.")
    return found


def recorded(log: Log) -> Iterator[Record]:
    """Return the records of archived months in the log, as far as retention has not removed them."""
    rows = log.run("SELECT after FROM sessions_app_auditevent WHERE kind = ? ORDER BY id", ARCHIVED).fetchall()
    for (after,) in rows:
        yield json.loads(after) if isinstance(after, str) else after


def _check_recorded(log: Log, found: list[Manifest]) -> None:
    """Raise Bad where a month that the log records is missing, or is another one."""
    there = {manifest.month: manifest for manifest in found}
    known: dict[str, set[str]] = {}
    for record in recorded(log):
        if record["archive"] == found[0].archive:
            known.setdefault(record["month"], set()).add(record["manifest"])
    for month, digests in sorted(known.items()):
        if month not in there:
            raise Bad(f"The month {month} is missing: the log records that it was archived here.")
        if there[month].digest not in digests:
            raise Bad(f"The month {month} is not the one that the log records: it was swapped, or signed anew.")
    # Each manifest names the one before, so the newest record answers for those whose own was removed.
    if not known.keys() & there.keys():
        raise Bad(
            f"The log records no month of this archive. If retention removed the records, `mcphub audit archive --to "
            f"{found[0].place}` makes a new one."
        )


def _verify(
    found: list[Manifest],
    trusted: Iterable[PublicKey],
    checkpoints: Iterable[Checkpoint],
    verified: Callable[[int], object] = lambda rows: None,
) -> Summary:
    keys = list(trusted)
    blocks = found[-1].last_block + 1
    kept = [each for each in checkpoints if each.size <= blocks]
    kept += [Checkpoint.parse(manifest.values["checkpoint"]) for manifest in found]
    verifier = Verifier(keys, kept, digested=True)
    verifier.feed(_begin(keys[0].name))
    for manifest in found:
        _check_files(manifest)
        for record in _tombstones(manifest):
            verifier.feed(record)
    for manifest in found:
        for name in manifest.parts:
            _verify_file(verifier, manifest, name)
            verified(manifest.files[name]["rows"])
    verifier.feed(records.end(blocks, verifier.summary.rows))
    return verifier.finish()


def _begin(origin: str) -> Record:
    """Return the state of a log before its first block."""
    return {
        "export": 1,
        "origin": origin,
        "first_block": 0,
        "first_position": 0,
        "frontier": [],
        "previous": NOTHING,
        "through": dict.fromkeys(TABLES, 0),
        "checkpoint": None,
    }


def _check_files(manifest: Manifest) -> None:
    """Raise Bad where a file is missing, or one is there that the manifest does not name."""
    there = manifest.place.names(manifest.month)
    for name in sorted(manifest.files):
        if name not in there:
            raise Bad(f"The file {manifest.month}/{name} is missing.")
    strange = sorted(name for name in there - set(manifest.files) if name.endswith((".parquet", ".jsonl")))
    if strange:
        raise Bad(f"The file {manifest.month}/{strange[0]} is not one that the manifest names.")


def _tombstones(manifest: Manifest) -> list[Record]:
    with manifest.fetched(TOMBSTONES) as path:
        if files.digest(path) != manifest.files[TOMBSTONES]["sha256"]:
            raise Bad(f"The file {manifest.month}/{TOMBSTONES} was changed after it was archived.")
        with path.open("rb") as lines:
            return list(read_export(lines))


def _verify_file(verifier: Verifier, manifest: Manifest, part: str) -> None:
    """Feed a file; name the first row that is not as it was sealed, or the file where none can be named."""
    name = f"{manifest.month}/{part}"
    with manifest.fetched(part) as path:
        is_whole = files.digest(path) == manifest.files[part]["sha256"]
        try:
            for record in files.read(path):
                verifier.feed(record)
        except Bad as bad:
            raise Bad(f"{name}: {bad}") from None
    if not is_whole:
        raise Bad(f"The file {name} was changed after it was archived: its digest is not that of the manifest.")
