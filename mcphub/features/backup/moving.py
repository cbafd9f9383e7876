"""Moves a stopped hub from SQLite to PostgreSQL: this process's database is the target, the source is a file.

Rows are copied as streams in one transaction, which is committed only if every table has as many rows as before, and
the audit on both sides verifies and has one root. Whatever fails until then, and a kill at any moment, leaves
the source as it was and the target marked as half done; the next move into it begins anew.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from django.core.management import call_command
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from invocations.chain import checking, publishing, service
from invocations.chain.log import Log
from invocations.chain.tables import AUDITED
from invocations.chain.verifier import Bad, Summary
from mcphub import moved
from mcphub.commands.progress import progress
from mcphub.features.backup import tables
from mcphub.features.backup.sqlite_source import SqliteSource, held
from sessions_app.history import events
from sessions_app.kit.database import Dedicated

_OF_DJANGO = "django_migrations"
"""Written by the migrations of the target themselves."""


class CannotMove(Exception):
    """The move is refused; the message names the next step."""


@dataclass(frozen=True, slots=True)
class AuditState:
    """The verified audit of one side. `summary` is None where nothing was sealed yet."""

    blocks: int
    root: str
    summary: Summary | None


@dataclass(frozen=True, slots=True)
class Moved:
    tables: int
    rows: int
    audit: AuditState


def move(path: Path, target: str) -> Moved:
    """Move the database; `target` is its address for people.

    Raises CannotMove, InUse, Bad, sqlite3.Error, and errors of PostgreSQL.
    """
    if why := moved.why_not(path):
        raise CannotMove(why)
    with held(path) as source:
        _check(source)
        before = _audit(source.log)
        _make_tables()
        database = Dedicated()
        try:
            database.raw.execute("SET TIME ZONE 'UTC'")  # the times of SQLite are texts in UTC
            with database.raw.transaction():
                counts = _copy_all(source, database.raw)
                _compare_audits(source.log, service.log_of(database), before)
            database.raw.execute(f"ANALYZE {', '.join(map(tables.quoted, counts))}")
        finally:
            database.close()
        call_command("migrate", interactive=False, verbosity=0)  # installs the rules in the database
        found = {"rows": sum(counts.values()), "blocks": before.blocks, "root": before.root}
        events.record("hub.moved", actor=events.on_the_machine(), label=str(path), after=found)
        moved.mark(path, target)
        try:
            moved.end(connection)
        except BaseException:
            moved.mark_of(path).unlink()
            raise
    return Moved(len(counts), sum(counts.values()), before)


def _check(source: SqliteSource) -> None:
    """Raise CannotMove or InUse unless source and target fit and nobody works with the source."""
    try:
        applied = source.migrations()
    except sqlite3.OperationalError as error:
        raise CannotMove("The file is no database of a hub.") from error
    if unknown := tables.unknown(applied):
        raise CannotMove(
            f"The database has migrations that are not known here ({', '.join(unknown[:3])}). Use the version that "
            "serves on it, with the same MCPHUB_APPS."
        )
    apps = {app for app, _ in applied}  # a feature that was never on has no tables there
    if pending := sorted({each for each in MigrationLoader(None).graph.nodes if each[0] in apps} - applied):
        raise CannotMove(
            f"The database is of an older version, without {'.'.join(pending[0])}. Run `mcphub migrate` on it first."
        )
    source.check_unused()
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_encoding")
        if (encoding := cursor.fetchone()[0]) != "UTF8":
            raise CannotMove(f"The target's encoding is {encoding}; name a database whose encoding is UTF8.")
    if (found := tables.ours()) and not moved.is_half_done(connection):
        raise CannotMove(f"The target has tables already ({found[0]}). Name an empty database.")


def _make_tables() -> None:
    """Make empty tables in the target, instead of those that a move left half done. They have no rules yet."""
    with transaction.atomic():
        tables.drop_ours()
        MigrationRecorder(connection).ensure_schema()
        moved.begin(connection)
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())
    connection.close()


def _copy_all(source: SqliteSource, raw: Any) -> dict[str, int]:
    """Fill all tables; return table -> number of rows."""
    here = [table for table in tables.ours() if table != _OF_DJANGO]
    raw.execute(f"TRUNCATE {', '.join(map(tables.quoted, here))}")  # of what migrations wrote
    names = [table for table in here if source.columns(table)]
    raw.execute("SET CONSTRAINTS ALL DEFERRED")
    with progress(sum(map(source.count, names)), "rows") as more:
        counts = {table: _copy(source, raw, table, more) for table in names}
    raw.execute("SET CONSTRAINTS ALL IMMEDIATE")
    for table, count in counts.items():
        there = raw.execute(f"SELECT count(*) FROM {tables.quoted(table)}").fetchone()[0]  # noqa: S608 - quoted
        if there != count:
            raise CannotMove(f"The table {table} had {count} rows and has {there} in the target.")
        _continue_numbers(source, raw, table)
    return counts


def _copy(source: SqliteSource, raw: Any, table: str, more: Callable[[int], object]) -> int:
    columns = tables.columns(raw, table)
    if differing := source.columns(table) ^ set(columns):
        raise CannotMove(f"The table {table} has other columns there than here ({', '.join(sorted(differing))}).")
    count, row = 0, None
    copying = f"COPY {tables.quoted(table)} ({tables.listed(columns)}) FROM STDIN"
    try:
        with raw.cursor().copy(copying) as copy:
            for row in source.rows(table, columns):
                copy.write_row(row)
                count += 1
                if not count % 1000:
                    more(1000)
    except sqlite3.OperationalError as error:
        raise CannotMove(f"A row of {table} after {count} others cannot be read: {error}.") from error
    except psycopg.DataError as error:
        raise CannotMove(_refused(table, columns, row, error)) from error
    more(count % 1000)
    return count


def _refused(table: str, columns: list[str], row: tuple[Any, ...] | None, error: psycopg.DataError) -> str:
    """Return the sentence about a value that PostgreSQL does not take."""
    if row is not None and error.sqlstate is None:  # the driver's own: it was about to send this row
        for name, value in zip(columns, row, strict=True):
            if isinstance(value, str) and "\x00" in value:
                return (
                    f"{table}, {columns[0]} {row[0]}: the text in {name} has a NUL character, which PostgreSQL cannot "
                    "store. Change it with the hub, and move then."
                )
    place = (error.diag.context or f"COPY {table}").partition("\n")[0][:300]
    return f"PostgreSQL does not take a value: {str(error).partition(chr(10))[0]} ({place})."


def _continue_numbers(source: SqliteSource, raw: Any, table: str) -> None:
    """Let the target go on after the highest number that the source ever gave."""
    identity = raw.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = %s "
        "AND is_identity = 'YES'",
        [table],
    ).fetchone()
    if identity is None:
        return
    highest = raw.execute(f"SELECT max({tables.quoted(identity[0])}) FROM {tables.quoted(table)}").fetchone()[0]  # noqa: S608 - quoted
    if last := max(highest or 0, source.highest_given(table)):
        raw.execute("SELECT setval(pg_get_serial_sequence(%s, %s), %s)", [tables.quoted(table), identity[0], last])


# The audit ---------------------------------------------------------------------------------------------


def _audit(log: Log) -> AuditState:
    """Verify all that is sealed. Raises Bad, CannotMove."""
    keys, size = service.keys(), log.size()
    trusted = keys.publics()
    if size and not trusted:
        raise CannotMove(f"{keys.public} is missing, so the audit cannot be verified. Restore it first.")
    summary = checking.verify(log, keys, trusted, publishing.published(service.checkpoints())) if size else None
    return AuditState(size, log.head().tree.root().hex(), summary)


def _compare_audits(source: Log, target: Log, before: AuditState) -> None:
    """Raise Bad or CannotMove unless the target has the same log, and the same rows that wait to be sealed."""
    after = _audit(target)
    if after != before:
        raise CannotMove(f"The audit has {after.blocks} blocks with the root {after.root} there, and another one here.")
    through, highest = source.head().through, source.highest()
    for of in AUDITED:
        span = of, through[of.name], highest[of.name]
        for here, there in itertools.zip_longest(source.rows(*span), target.rows(*span)):
            if here != there:
                raise Bad(f"The {of.name} {(here or there)['id']} is another one in the target.")
