"""Makes the tables of calls and envelopes partitioned by month, while calls go on.

The existing table becomes the first partition, whole: its rows are read once to prove that they fit, and not moved.
Locks that calls wait for are held for milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from psycopg.errors import CheckViolation, LockNotAvailable

from invocations.chain import months
from invocations.chain.log import Log
from mcphub.features.partitions import ahead, tables

_LEAST = timedelta(days=8)
"""Between a conversion and the end of its first partition: until it is done, no later call could be recorded."""
_TRIES = 100
_PAUSE_SECONDS = 0.2


class CannotConvert(Exception):
    """The conversion is refused or was given up, and nothing is left of it; the message names the next step."""


def convert(log: Log, now: datetime, told: Callable[[str], object] = str) -> list[str]:
    """Convert both tables, make the months ahead, and return the names of the partitions made.

    `told` receives a sentence before each long step. Raises CannotConvert, and errors of psycopg.
    """
    if not log.run(tables.CONVERTING).fetchone()[0]:
        raise CannotConvert("Another conversion runs. Wait for its end, and run the command again.")
    made = []
    for of in months.TABLES:
        if not tables.is_partitioned(log, of.table):
            _check(log, of.table)
            _patiently(log, tables.take_back, of.table)
            try:
                made.append(_convert_one(log, of.table, ahead.month_after(now + _LEAST, 0), told))
            except BaseException:
                _patiently(log, tables.take_back, of.table)
                raise
    made += ahead.make(log, now)
    told("Collecting the statistics of the planner")
    tables.analyze(log)
    return made


def _check(log: Log, table: str) -> None:
    owner, may = log.run(
        "SELECT pg_get_userbyid(relowner), pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(?)",
        table,
    ).fetchone()
    if not may:
        raise CannotConvert(f"Only the owner of the tables can convert them. Connect as {owner}.")
    if views := tables.viewed_by(log, table):
        raise CannotConvert(
            f"Views read {table}, and would miss later months: {', '.join(views)}. Drop them, convert, and make them "
            "again."
        )


def _convert_one(log: Log, table: str, until: datetime, told: Callable[[str], object]) -> str:
    _patiently(log, _bound, table, until)
    told(f"{table}: reading its rows")
    try:
        log.run(f"ALTER TABLE {table} VALIDATE CONSTRAINT {tables.BOUND}")
    except CheckViolation as error:
        raise CannotConvert(
            f"{table} has rows received after {until:%Y-%m-%d}: the clock of a machine was wrong. Convert it when that "
            "moment has passed."
        ) from error
    for which in tables.KEYS:
        name, columns = tables.key(table, which)
        told(f"{table}: making the index {name}")
        log.run(f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON {table} ({columns})")
    _patiently(log, _swap, table, until)
    return months.name(table, until)


def _patiently(log: Log, step: Callable[..., None], table: str, *more: datetime) -> None:
    """Run a step in a transaction; again, where queries hold the table: calls wait behind whoever waits for it."""
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE_SECONDS)  # the database signals no end of a query
        try:
            with tables.briefly(log):
                return step(log, table, *more)
        except LockNotAvailable as error:
            held = error
    raise CannotConvert(
        "Queries held the table all the time. Run the command again when exports and reports have ended."
    ) from held


def _bound(log: Log, table: str, until: datetime) -> None:
    log.run(f"ALTER TABLE {table} ADD CONSTRAINT {tables.BOUND} CHECK (received_at < '{until.isoformat()}') NOT VALID")


def _swap(log: Log, table: str, until: datetime) -> None:
    """Put a partitioned table in the place of the table, which becomes its first partition."""
    log.run(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
    partition = months.name(table, until)
    triggers, grants = tables.triggers(log, table), tables.grants(log, table)
    sequence = log.run("SELECT pg_get_serial_sequence(?, 'id')", table).fetchone()[0]
    last, was_used = log.run(f"SELECT last_value, is_called FROM {sequence}").fetchone()  # noqa: S608 - of the catalog
    sequence_grants = tables.grants(log, sequence)
    unique = [tables.key(table, which)[0] for which in tables.KEYS]
    indexes = log.run(
        "SELECT index.relname, pg_get_indexdef(indexrelid), conname FROM pg_index "
        "JOIN pg_class AS index ON index.oid = indexrelid LEFT JOIN pg_constraint ON conindid = indexrelid "
        "WHERE indrelid = to_regclass(?)",
        table,
    ).fetchall()
    for name in triggers:
        tables.run(log, "DROP TRIGGER {} ON {}", name, table)
    tables.run(log, "ALTER TABLE {} ALTER COLUMN id DROP IDENTITY", table)
    for _, _, constraint in indexes:
        if constraint:
            tables.run(log, "ALTER TABLE {} DROP CONSTRAINT {}", table, constraint)
    tables.run(log, "ALTER TABLE {} RENAME TO {}", table, partition)
    plain = [(name, definition) for name, definition, constraint in indexes if not constraint]
    for name, _ in plain:
        tables.run(log, "ALTER INDEX {} RENAME TO {}", name, f"{name[:55]}_{until:%Y%m}")
    log.run(
        f"CREATE TABLE {table} (LIKE {partition} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING COMMENTS) "
        "PARTITION BY RANGE (received_at)"
    )
    tables.run(log, "ALTER TABLE {} DROP CONSTRAINT {}", table, tables.BOUND)
    start = int(last) + int(was_used)
    log.run(f"ALTER TABLE {table} ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (START WITH {start:d})")
    for name, definition in plain:
        if name not in unique:
            log.run(definition.replace("%", "%%"))
    for which in tables.KEYS:
        name, columns = tables.key(table, which)
        log.run(f"CREATE UNIQUE INDEX {name} ON {table} ({columns})")
    log.run(f"ALTER TABLE {table} ATTACH PARTITION {partition} FOR VALUES FROM (MINVALUE) TO ('{until.isoformat()}')")
    tables.run(log, "ALTER TABLE {} DROP CONSTRAINT {}", partition, tables.BOUND)
    tables.make_like(log, tables.rest_of(table), table)
    log.run(f"ALTER TABLE {table} ATTACH PARTITION {tables.rest_of(table)} DEFAULT")
    for definition in triggers.values():
        log.run(definition.replace("%", "%%"))
    for each in (partition, tables.rest_of(table)):
        tables.guard_against_truncate(log, table, each)
    owner = log.run("SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = ?", partition).fetchone()[0]
    tables.run(log, "ALTER TABLE {} OWNER TO {}", table, owner)
    for grant in grants:
        columns = f" ({grant.column})" if grant.column else ""
        log.run(f"GRANT {grant.privilege}{columns} ON {table} TO {grant.role}")
    for grant in sequence_grants:
        log.run(f"GRANT {grant.privilege} ON SEQUENCE {sequence} TO {grant.role}")
