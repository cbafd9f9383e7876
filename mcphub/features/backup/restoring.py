"""Puts a backup into an empty place: a data directory without keys, a database without tables.

Whatever fails, nothing of the backup stays: the database is put in place, or committed, after the last byte was read
and found to be as it was written.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from django.db import connection

from mcphub.features.backup import files, making, sealed, tables
from sessions_app.protocol.json import Json


class CannotRestore(Exception):
    """The backup does not fit here; the message names the next step."""


def read(path: Path, passphrase: str, present: set[Path]) -> dict[str, Json]:
    """Restore, and return the backup's description of itself. `present` are the key files of secrets that were here
    before.

    Raises CannotRestore, sealed.Unreadable, OSError.
    """
    with path.open("rb") as file:
        reader = sealed.SealedReader(file, passphrase)
        migrations = _fitting(reader.header)
        with _errors(), gzip.GzipFile(fileobj=cast(BinaryIO, reader)) as packed:
            archive = tarfile.open(fileobj=packed, mode="r|")  # noqa: SIM115 - it holds nothing that is to be closed
            members = ((member.name, cast(BinaryIO, archive.extractfile(member))) for member in archive)
            _restore(members, migrations, present, lambda: _to_the_end(packed, reader))
    return reader.header


def _fitting(header: dict[str, Json]) -> list[tables.Migration]:
    try:
        migrations = [(str(app), str(name)) for app, name in header["migrations"]]
        vendor, version = str(header["database"]), str(header["version"])
    except (KeyError, TypeError, ValueError) as error:
        raise sealed.Unreadable("The backup's first lines are damaged.") from error
    if unknown := tables.unknown(migrations):
        raise CannotRestore(
            f"The backup is of version {version} and has migrations that this version does not know "
            f"({', '.join(unknown[:3])}). Restore it with version {version} or a newer one."
        )
    if vendor != connection.vendor:
        names = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
        raise CannotRestore(
            f"The backup is of a database of {names.get(vendor, vendor)}, and MCPHUB_DATABASE_URL names one of "
            f"{names[connection.vendor]}. Name a database of the backup's kind."
        )
    if vendor == "sqlite" and tables.sqlite_path().exists():
        raise CannotRestore(f"{tables.sqlite_path()} exists. Name a new folder with --data-dir, or move it away.")
    if vendor == "postgresql" and (found := tables.ours()):
        raise CannotRestore(f"The database has tables already ({found[0]}). Name an empty one in MCPHUB_DATABASE_URL.")
    return migrations


def _restore(
    members: Iterator[tuple[str, BinaryIO]],
    migrations: list[tables.Migration],
    present: set[Path],
    finish: Callable[[], None],
) -> None:
    parts = {part.name: part for part in [files.checkpoints(), *files.of_keys()]}
    written: list[Path] = []
    try:
        for name, file in members:
            if name in parts:
                _put(parts[name], file.read(), present, written)
            elif name == making.DATABASE:
                return _sqlite(file, finish)
            elif name == making.CONTENTS:
                return _postgresql(json.load(file), members, migrations, finish)
        raise sealed.Unreadable("The backup holds no database.")
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _put(part: files.BackedUpFile, content: bytes, present: set[Path], written: list[Path]) -> None:
    if part.name == files.CHECKPOINTS and part.path.exists():
        return  # what was published after the backup is the better witness
    if part.path in present or (part.path.exists() and part.name.startswith("audit/")):
        if part.path.read_bytes().strip() == content.strip():
            return
        raise CannotRestore(
            f"{part.path} exists and is another one than the backup's ({part.what}). Name a new folder with "
            "--data-dir, or move the file away."
        )
    files.put(part, content)
    written.append(part.path)


def _sqlite(file: BinaryIO, finish: Callable[[], None]) -> None:
    target = tables.sqlite_path()
    draft = target.with_name(f"{target.name}.{os.getpid()}.restoring")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
            shutil.copyfileobj(file, copy, 2**20)
            copy.flush()
            os.fsync(copy.fileno())
        finish()
        os.link(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def _postgresql(
    contents: dict[str, Json],
    members: Iterator[tuple[str, BinaryIO]],
    migrations: list[tables.Migration],
    finish: Callable[[], None],
) -> None:
    with tables.Loading(migrations) as loading:
        for table, named in itertools.groupby(members, lambda member: member[0].split("/")[1]):
            loading.rows(table, contents["tables"][table], (file.read() for _, file in named))
        finish()
        loading.done(contents["sequences"])


def _to_the_end(packed: gzip.GzipFile, reader: sealed.SealedReader) -> None:
    """Read the rest, so that the last chunk and gzip's checksum are verified."""
    while packed.read(2**20):
        pass
    while reader.read(2**20):
        pass


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise sealed.Unreadable("The backup is damaged: what it holds cannot be unpacked.") from error
