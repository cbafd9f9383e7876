"""The hub's database of SQLite as a move reads it: one moment of it, and nobody else writes meanwhile."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from invocations.chain.lease import Lease
from invocations.chain.log import Log
from invocations.recovery import interrupted
from mcphub.features.backup.tables import Migration, listed, quoted
from sessions_app.models import ServerProcess

_WAITS_SECONDS = 5


class InUse(Exception):
    """Somebody works with the database; the message names whom, and the next step."""


class SqliteSource:
    """Reads only, in one transaction that has the right to write, so that no other one has it."""

    def __init__(self, raw: sqlite3.Connection, path: Path) -> None:
        self._raw = raw
        self._path = path
        self.log = Log(lambda: raw, is_sqlite=True)

    def check_unused(self) -> None:
        """Raise InUse while a hub serves, or seals what it recorded."""
        rows = self._raw.execute(
            "SELECT host, pid, boot_mark, status, last_seen_at, stopped_at FROM sessions_app_serverprocess"
        )
        for host, pid, boot_mark, status, last_seen_at, stopped_at in rows:
            process = ServerProcess(
                host=host,
                pid=pid,
                boot_mark=boot_mark,
                status=status,
                last_seen_at=_moment(last_seen_at),
                stopped_at=_moment(stopped_at) if stopped_at else None,
            )
            if not interrupted.has_ended(process, socket.gethostname()):
                raise InUse(
                    f"A hub serves on this database: process {process.pid} on {process.host}. Stop it first. One that "
                    f"was killed in another container counts as ended after {interrupted.SILENT_SECONDS} s."
                )
        if Lease(self.log, Path(f"{self._path}-sealer")).is_taken():
            raise InUse("The process that seals the audit still works on this database. Wait until it has ended.")

    def migrations(self) -> set[Migration]:
        return set(self._raw.execute("SELECT app, name FROM django_migrations"))

    def columns(self, table: str) -> set[str]:
        """Return the names of the columns that are stored, not those that are computed."""
        told = self._raw.execute(f"PRAGMA table_xinfo({quoted(table)})")
        return {name for _, name, *_, hidden in told if not hidden}

    def count(self, table: str) -> int:
        return int(self._raw.execute(f"SELECT count(*) FROM {quoted(table)}").fetchone()[0])  # noqa: S608 - quoted

    def rows(self, table: str, columns: list[str]) -> Iterator[tuple[Any, ...]]:
        """Return the rows as a stream, in the order in which they were written."""
        return self._raw.execute(f"SELECT {listed(columns)} FROM {quoted(table)} ORDER BY rowid")  # noqa: S608 - quoted

    def highest_given(self, table: str) -> int:
        """Return the highest id that the table ever gave; the row may be removed, and its id is not given again."""
        row = self._raw.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", [table]).fetchone()
        return int(row[0]) if row else 0


@contextlib.contextmanager
def held(path: Path) -> Iterator[SqliteSource]:
    """Open the database and keep others from writing; raise InUse where one does. Nothing in it changes."""
    raw = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", _WAITS_SECONDS, isolation_level=None, uri=True)
    with contextlib.closing(raw):
        try:
            raw.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            raise InUse("Another program writes to this database. Stop it first.") from error
        try:
            yield SqliteSource(raw, path)
        finally:
            raw.execute("ROLLBACK")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
