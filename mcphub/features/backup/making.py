"""Writes a backup: one encrypted file with the database of one moment and the keys that belong to it."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.db import connection

from mcphub.features.backup import files, sealed, tables
from sessions_app.protocol.json import Json

DATABASE = "database.sqlite3"
CONTENTS = "contents.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    size: int
    tables: int
    left_out: str


def write(path: Path, passphrase: str) -> Made:
    """Write the backup; calls go on meanwhile. OSError: nothing is left of it. Raises FileExistsError.

    Checkpoints are read before the database and keys after its moment, so that both cover its statements.
    """
    if path.exists():
        raise FileExistsError(17, "File exists", str(path))
    draft = path.with_name(f"{path.name}.{os.getpid()}.partial")
    published = _content(files.checkpoints())
    try:
        with draft.open("xb") as file, _database(draft) as database:
            kept = [(files.checkpoints(), published), *((part, _content(part)) for part in files.of_keys())]
            writer = sealed.Writer(file, passphrase, _header())
            with (
                gzip.GzipFile(fileobj=writer, mode="wb", compresslevel=1, mtime=0) as packed,
                tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as archive,
            ):
                for part, content in kept:
                    if content is not None:
                        _add(archive, part.name, content)
                count = _add_database(archive, database)
            writer.finish()
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)  # fails where a file appeared meanwhile
        return Made(size=path.stat().st_size, tables=count, left_out=files.left_out())
    finally:
        draft.unlink(missing_ok=True)


def _header() -> dict[str, Json]:
    return {
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": settings.MCPHUB_VERSION,
        "database": connection.vendor,
        "migrations": [list(each) for each in tables.applied()],
    }


@contextlib.contextmanager
def _database(draft: Path) -> Iterator[Path | tables.Snapshot]:
    """Take the database of one moment: of SQLite a copy beside the backup, of PostgreSQL a transaction."""
    if connection.vendor == "postgresql":
        with tables.snapshot() as found:
            yield found
        return
    copy = draft.with_suffix(".sqlite3")
    try:
        tables.copy_sqlite(copy)
        yield copy
    finally:
        copy.unlink(missing_ok=True)


def _add_database(archive: tarfile.TarFile, database: Path | tables.Snapshot) -> int:
    if isinstance(database, Path):
        with database.open("rb") as file:
            _stream(archive, DATABASE, file, database.stat().st_size)
        return len(tables.ours())
    contents = {"tables": database.tables, "sequences": database.sequences}
    _add(archive, CONTENTS, json.dumps(contents).encode())
    for table in database.tables:
        for number, part in enumerate(database.rows(table)):
            _add(archive, f"tables/{table}/{number}", part)
    return len(database.tables)


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    _stream(archive, name, io.BytesIO(content), len(content))


def _stream(archive: tarfile.TarFile, name: str, file: BinaryIO, size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size = size
    archive.addfile(member, file)


def _content(part: files.BackedUpFile) -> bytes | None:
    try:
        return part.path.read_bytes()
    except FileNotFoundError:
        return None
