"""The database's part of a backup: a file of SQLite, or the tables of PostgreSQL as COPY gives them.

PostgreSQL's tables are read in one transaction that sees one moment, so calls go on meanwhile. No program of
PostgreSQL is needed: the tables themselves come from the migrations that the backup names.
"""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from mcphub import feature_list
from sessions_app.kit.database import Dedicated
from sessions_app.protocol.json import Json

_OF_THE_FILE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
PART_BYTES = 8 * 2**20
Migration = tuple[str, str]


def applied() -> list[Migration]:
    return sorted(MigrationRecorder(connection).applied_migrations())


def unknown(migrations: Iterable[Migration]) -> list[str]:
    """Name the migrations that this version does not have."""
    loader = MigrationLoader(None)
    known = set(loader.disk_migrations) | {each for made in loader.disk_migrations.values() for each in made.replaces}
    return sorted(".".join(each) for each in set(migrations) - known)


def ours() -> list[str]:
    """Name the tables of this version that the database has, also those of features that are off."""
    there = set(connection.introspection.table_names())
    models = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    described = MigrationLoader(None).project_state().models
    migrated = {model.options.get("db_table") or f"{app}_{name}" for (app, name), model in described.items()}
    off = tuple(f"{config.label}_" for config in feature_list.off())
    kept = {table for table in there if table.startswith(off)}
    return sorted(kept | (there & (models | migrated | {"django_migrations"})))


# SQLite ------------------------------------------------------------------------------------------------


def copy_sqlite(to: Path) -> None:
    """Write the database as of one moment into a file, while others read and write."""
    with contextlib.closing(sqlite3.connect(to)) as target:
        database = Dedicated()
        try:
            database.raw.backup(target)
            target.execute("PRAGMA journal_mode=DELETE")
        except sqlite3.OperationalError as error:
            if (error.sqlite_errorcode & 0xFF) in _OF_THE_FILE:
                raise OSError(
                    errno.ENOSPC if error.sqlite_errorcode == sqlite3.SQLITE_FULL else errno.EIO, str(error), str(to)
                ) from error
            raise
        finally:
            database.close()


def sqlite_path() -> Path:
    return Path(str(connection.settings_dict["NAME"]))


# PostgreSQL --------------------------------------------------------------------------------------------


class Snapshot:
    """The tables as of one moment."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self.tables = {table: columns(raw, table) for table in ours()}
        names = "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = current_schema()"
        self.sequences = {name: last for name, last in raw.execute(names).fetchall() if last is not None}

    def rows(self, table: str) -> Iterator[bytes]:
        """Return a table in parts of some MiB, as COPY writes text."""
        part = bytearray()
        with self._raw.cursor().copy(f"COPY {quoted(table)} ({listed(self.tables[table])}) TO STDOUT") as copy:
            for block in copy:
                part += block
                if len(part) >= PART_BYTES:
                    yield bytes(part)
                    part.clear()
        if part:
            yield bytes(part)


@contextlib.contextmanager
def snapshot() -> Iterator[Snapshot]:
    database = Dedicated()
    try:
        database.raw.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield Snapshot(database.raw)
        database.raw.execute("COMMIT")
    finally:
        database.close()


class Loading:
    """Fills an empty database: tables as the migrations of a backup make them, rows in one transaction.

    Rules of the database are not there yet: they come with the `migrate` that follows. Leave it without `done` and the
    tables are dropped.
    """

    def __init__(self, migrations: Iterable[Migration]) -> None:
        self._wanted = set(migrations)
        self._database = Dedicated()
        self._is_done = False

    def __enter__(self) -> Loading:
        executor = MigrationExecutor(connection)
        graph = executor.loader.graph
        wanted = [each for each in self._wanted if each in graph.nodes]
        targets = [
            each for each in wanted if not any(child.key in self._wanted for child in graph.node_map[each].children)
        ]
        try:
            executor.migrate(sorted(targets))
            connection.close()
            raw = self._database.raw
            raw.execute("BEGIN")
            raw.execute(f"TRUNCATE {', '.join(map(quoted, ours()))} RESTART IDENTITY CASCADE")
            raw.execute("SET CONSTRAINTS ALL DEFERRED")
        except BaseException:
            self._drop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_done:
            self._drop()
        self._database.close()

    def rows(self, table: str, columns: Iterable[str], parts: Iterable[bytes]) -> None:
        with self._database.raw.cursor().copy(f"COPY {quoted(table)} ({listed(columns)}) FROM STDIN") as copy:
            for part in parts:
                copy.write(part)

    def done(self, sequences: dict[str, Json]) -> None:
        for name, last in sequences.items():
            self._database.raw.execute("SELECT setval(%s::regclass, %s)", [quoted(name), last])
        self._database.raw.execute("COMMIT")
        self._is_done = True

    def _drop(self) -> None:
        self._database.close()
        connection.close()
        drop_ours()


def drop_ours() -> None:
    """Drop the hub's tables in PostgreSQL."""
    found = ours()
    with connection.cursor() as cursor:
        for table in found:
            cursor.execute(f"DROP TABLE IF EXISTS {quoted(table)} CASCADE")


def columns(raw: Any, table: str) -> list[str]:
    asked = (
        "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = %s "
        "AND is_generated = 'NEVER' ORDER BY ordinal_position"
    )
    return [row[0] for row in raw.execute(asked, [table]).fetchall()]


def listed(columns: Iterable[str]) -> str:
    return ", ".join(map(quoted, columns))


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
