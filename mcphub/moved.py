"""Marks of a move from SQLite to PostgreSQL, so that no hub starts on the old database, or on half of the new one."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

_NOT_ENDED = "mcphub database move: not ended"
"""Comment on the target's table of migrations, from before the first table until after the last step."""


def mark_of(database: Path) -> Path:
    """Return the file beside a database of SQLite that marks it as moved."""
    return database.with_name(f"{database.name}.moved")


def mark(database: Path, target: str) -> None:
    """Write the mark, on disk before this returns. `target` is an address without a password."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    with mark_of(database).open("w", encoding="utf-8") as file:
        file.write(f"{target} at {at}\n")
        file.flush()
        os.fsync(file.fileno())


def why_not(database: Path) -> str:
    """Return why a hub must not use this file, as sentences; empty if it may."""
    path = mark_of(database)
    try:
        to = path.read_text(encoding="utf-8", errors="replace").partition("\n")[0][:500]
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return (
        f"The database {database} was moved to {to}; a hub on the old file would fork the record. Set "
        f"MCPHUB_DATABASE_URL to the new database. To give that up, with all that it recorded since, delete {path}."
    )


def begin(connection: BaseDatabaseWrapper) -> None:
    """Mark the target, whose table of migrations exists."""
    _comment(connection, f"'{_NOT_ENDED}'")


def end(connection: BaseDatabaseWrapper) -> None:
    _comment(connection, "NULL")


def is_half_done(connection: BaseDatabaseWrapper) -> bool:
    """Return whether a move into this database began and did not end."""
    if connection.vendor != "postgresql":
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT obj_description(to_regclass('django_migrations'), 'pg_class')")
        return bool(cursor.fetchone()[0] == _NOT_ENDED)


def _comment(connection: BaseDatabaseWrapper, text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"COMMENT ON TABLE django_migrations IS {text}")
