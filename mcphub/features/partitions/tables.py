"""Statements on the tables of a partitioned record, of PostgreSQL's catalog alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from psycopg import sql

from invocations.chain import months
from invocations.chain.log import Log

BOUND = "mcphub_before_its_end"
"""The constraint that a table has while it is converted: proof for PostgreSQL that its rows fit the partition."""
CONVERTING = "SELECT pg_try_advisory_lock(hashtext('mcphub partitions'))"
_CONVERTED = "SELECT pg_advisory_unlock(hashtext('mcphub partitions'))"
KEYS = {"by_id": "id, received_at", "by_call": "invocation_id, received_at"}
"""The unique columns of a partitioned table, which have the moment by which it is partitioned among them."""

_UNKNOWN = """
    SELECT relname FROM pg_class AS whole WHERE relname = ANY (?) AND relkind = 'p' AND pg_table_is_visible(oid) AND (
        coalesce(pg_stat_get_last_analyze_time(oid) < now() - interval '1 day', true)
        OR whole.reltuples > 2 * (
            SELECT sum(greatest(part.reltuples, 0)) FROM pg_inherits JOIN pg_class AS part ON part.oid = inhrelid
            WHERE inhparent = whole.oid
        )
    )
"""
"""Tables that nobody analyzed for a day, or since more than half of their rows went."""


@dataclass(frozen=True, slots=True)
class Grant:
    role: str
    privilege: str
    column: str


def rest_of(table: str) -> str:
    return f"{table}_other"


def key(table: str, which: str) -> tuple[str, str]:
    """Return the name and the columns of a unique index of the partitioned table; `which`: `by_id` or `by_call`."""
    return f"{table.partition('_')[2]}_{which}", KEYS[which]


def is_partitioned(log: Log, table: str) -> bool:
    kind = log.run("SELECT relkind::text FROM pg_class WHERE oid = to_regclass(?)", table).fetchone()
    return bool(kind and kind[0] == "p")


def unknown(log: Log) -> list[str]:
    """Return the partitioned tables whose statistics for the planner are missing, old or of rows that are gone."""
    return [row[0] for row in log.run(_UNKNOWN, [of.table for of in months.TABLES]).fetchall()]


def analyze(log: Log) -> None:
    """Collect those statistics, while calls go on: autovacuum does it for each month, never for the whole table."""
    for table in unknown(log):
        run(log, "ANALYZE (SKIP_LOCKED) {}", table)  # another process may be at it


def make_like(log: Log, name: str, table: str) -> None:
    log.run(f'CREATE TABLE "{name}" (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)')
    owner = log.run("SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = to_regclass(?)", table).fetchone()[0]
    run(log, "ALTER TABLE {} OWNER TO {}", name, owner)


def run(log: Log, statement: str, *names: str) -> None:
    """Run a statement with quoted names."""
    log.run(sql.SQL(statement).format(*map(sql.Identifier, names)).as_string(None).replace("%", "%%"))


def triggers(log: Log, table: str) -> dict[str, str]:
    """Return the statements that made the table's triggers, by their names."""
    rows = log.run(
        "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = to_regclass(?) AND NOT tgisinternal",
        table,
    ).fetchall()
    return dict(rows)


def guard_against_truncate(log: Log, table: str, partition: str) -> None:
    """Create the table's statement triggers on a partition: PostgreSQL does not pass them on."""
    found = log.run(
        "SELECT tgname, proname FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid "
        "WHERE tgrelid = to_regclass(?) AND NOT tgisinternal AND tgtype & 32 = 32",
        table,
    ).fetchall()
    for name, function in found:
        run(
            log,
            "CREATE TRIGGER {} BEFORE TRUNCATE ON {} FOR EACH STATEMENT EXECUTE FUNCTION {}()",
            name,
            partition,
            function,
        )


def grants(log: Log, table: str) -> list[Grant]:
    """Return the rights that roles have on a table, and on its columns."""
    rows = log.run(
        "SELECT grantee::regrole::text, privilege_type, '' FROM pg_class, aclexplode(relacl) "
        "WHERE oid = to_regclass(?) AND grantee NOT IN (0, relowner) UNION ALL "
        "SELECT grantee::regrole::text, privilege_type, attname FROM pg_attribute, aclexplode(attacl) "
        "WHERE attrelid = to_regclass(?) AND grantee <> 0",
        table,
        table,
    ).fetchall()
    return [Grant(*row) for row in rows]


def viewed_by(log: Log, table: str) -> list[str]:
    """Return the views that read a table: they would stay with its first partition."""
    rows = log.run(
        "SELECT DISTINCT ev_class::regclass::text FROM pg_depend JOIN pg_rewrite ON pg_rewrite.oid = objid "
        "WHERE classid = 'pg_rewrite'::regclass AND refobjid = to_regclass(?) AND ev_class <> refobjid ORDER BY 1",
        table,
    ).fetchall()
    return [row[0] for row in rows]


def left_behind(log: Log) -> list[str]:
    """Return the tables of this role on which a conversion left its constraint, or goes on."""
    rows = log.run(
        "SELECT relname FROM pg_class JOIN pg_constraint ON conrelid = pg_class.oid WHERE relname = ANY (?) "
        "AND relkind = 'r' AND conname = ? AND pg_has_role(relowner, 'USAGE')",
        [of.table for of in months.TABLES],
        BOUND,
    ).fetchall()
    return [row[0] for row in rows]


def clear_up(log: Log) -> None:
    """Take back what a conversion that was killed left on the tables, unless one goes on."""
    if not log.run(CONVERTING).fetchone()[0]:
        return
    try:
        for table in left_behind(log):
            with briefly(log):
                take_back(log, table)
    finally:
        log.run(_CONVERTED)


def take_back(log: Log, table: str) -> None:
    log.run(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {BOUND}")
    for which in KEYS:
        log.run(f"DROP INDEX IF EXISTS {key(table, which)[0]}")


@contextlib.contextmanager
def briefly(log: Log) -> Iterator[None]:
    """Run the block in a transaction that waits for no lock for long; raises LockNotAvailable of psycopg."""
    with log.transaction():
        months.wait_briefly(log)
        yield
