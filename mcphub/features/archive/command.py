"""`mcphub audit archive`: writes closed months to a folder or an object store, and verifies one without a database."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcphub.commands.audit_log import open_log
from mcphub.commands.progress import progress
from mcphub.commands.stop import Stop, migrated_database, start_django

if TYPE_CHECKING:
    from invocations.chain.log import Log
    from mcphub.features.archive.manifests import Manifest
    from mcphub.features.archive.writing import Archiver


def declare(verbs: Any) -> None:
    parser = verbs.add_parser("archive", help="write closed months of the sealed audit to Parquet files, or check them")
    parser.add_argument("--until", type=_month, metavar="MONTH", help="the last month, such as 2026-10")
    parser.add_argument("--to", metavar="PLACE", help="a folder, or s3://bucket/prefix (MCPHUB_ARCHIVE_DIR)")
    parser.add_argument(
        "--check", nargs="?", const="", metavar="PLACE", help="check this archive alone; needs no database"
    )
    parser.add_argument("--key", type=Path, metavar="FILE", help="public keys to trust (public.keys of this hub)")


def run(options: argparse.Namespace) -> int:
    from mcphub.features.archive.duck import NoDuckDB

    try:
        if options.check is not None:
            return _check(options)
        with migrated_database():
            return _write(options)
    except NoDuckDB as missing:
        raise Stop(f"mcphub audit archive: {missing}", status=2) from missing
    except OSError as error:
        raise Stop(f"mcphub audit archive: {error.filename}: {error.strerror}.", status=2) from error


def _write(options: argparse.Namespace) -> int:
    from django.conf import settings

    from invocations.chain import service
    from invocations.chain.keys import KeyProblem
    from invocations.chain.verifier import Bad
    from mcphub.features.archive.duck import duck
    from mcphub.features.archive.places import IsBusy
    from mcphub.features.archive.writing import Archiver

    place = options.to or settings.MCPHUB_ARCHIVE_DIR
    with duck():
        pass  # before anything is written
    with open_log() as (log, _database):
        try:
            with progress(log.head().position, "rows") as more:
                archiver = Archiver(log, service.keys(), service.keys().signer(), place, written=more)
                return _archived(archiver, log, options.until or "", place)
        except (KeyProblem, IsBusy) as problem:
            raise Stop(f"mcphub audit archive: {problem}") from problem
        except Bad as bad:
            raise Stop(f"BAD: {bad} Months before it are archived.") from bad


def _archived(archiver: Archiver, log: Log, until: str, place: str) -> int:
    for manifest in archiver.existing():
        record_month(log, manifest)  # a run that was killed may have come no further
    count = 0
    for manifest in archiver.run(until):
        count += 1
        record_month(log, manifest)
        print(f"{manifest.month}: rows: {manifest.rows}, files: {len(manifest.parts)}, bytes: {_size(manifest)}")
    if not count:
        print(f"No closed month is missing in {place}.", file=sys.stderr)
    return 0


def record_month(log: Log, manifest: Manifest) -> None:
    """Record an archived month as an event, once."""
    from mcphub.features.archive.verifying import ARCHIVED, recorded
    from sessions_app.history import events

    if any(each["manifest"] == manifest.digest for each in recorded(log)):
        return
    events.record(
        ARCHIVED,
        actor=events.on_the_machine(),
        subject=manifest.month,
        label=manifest.month,
        after={
            "archive": manifest.archive,
            "month": manifest.month,
            "first_block": manifest.first_block,
            "last_block": manifest.last_block,
            "rows": manifest.rows,
            "manifest": manifest.digest,
            "folder": f"{manifest.place}/{manifest.month}",
        },
    )


def _size(manifest: Manifest) -> int:
    return sum(each["bytes"] for each in manifest.files.values())


def _check(options: argparse.Namespace) -> int:
    start_django()
    from django.conf import settings

    from invocations.chain import service, verifier
    from mcphub.features.archive.verifying import verify_alone

    keys = options.key or service.keys().public
    try:
        summary = verify_alone(options.check or settings.MCPHUB_ARCHIVE_DIR, verifier.read_keys(keys.read_text()))
    except verifier.Bad as bad:
        raise Stop(f"BAD: {bad}") from bad
    print(verifier.describe(summary))
    return 0


def _month(text: str) -> str:
    from mcphub.features.archive.places import MONTH

    if not MONTH.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a month such as 2026-10")
    return text
