"""The months of a partitioned record. On PostgreSQL, calls and envelopes of a month may lie in tables of their own.

A partition is named for the end of its month, `<table>_until_202612`, and holds rows received before that moment (UTC)
and not before the end of the partition before it. Rows that no month takes lie in `<table>_other`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from invocations.chain.log import Log
from invocations.chain.tables import ENVELOPE, INVOCATION

TABLES = (ENVELOPE, INVOCATION)
_ENDS = re.compile(r"_until_(\d{4})(\d{2})$")
_LOCK_MILLISECONDS = 30
"""For each table. Calls queue behind whoever waits for the lock, so it is given up soon."""


@dataclass(frozen=True, slots=True)
class Month:
    """Partitions that end at one moment."""

    until: datetime
    partitions: tuple[str, ...]
    through: dict[str, int]
    """By the name of the audit's table: the highest ID in this month's partition and in those before; 0 without."""


def partitions(log: Log, table: str) -> dict[str, datetime | None]:
    """Return the partitions of a table in order of their ends, the one without an end last; none: not partitioned."""
    if log.is_sqlite:
        return {}
    rows = log.run(
        "SELECT child.relname FROM pg_inherits JOIN pg_class AS child ON child.oid = inhrelid "
        "WHERE inhparent = to_regclass(?)",
        table,
    ).fetchall()
    found = {name: _end(name) for (name,) in rows}
    return dict(sorted(found.items(), key=lambda each: each[1] or datetime.max.replace(tzinfo=UTC)))


def _end(partition: str) -> datetime | None:
    found = _ENDS.search(partition)
    return datetime(int(found[1]), int(found[2]), 1, tzinfo=UTC) if found else None


def name(table: str, until: datetime) -> str:
    return f"{table}_until_{until:%Y%m}"


def go_whole(log: Log) -> bool:
    """Return whether retention removes whole months: both tables have months, and this role may drop them."""
    if log.is_sqlite:
        return False
    owned = log.run(
        "SELECT count(*) FROM pg_class WHERE oid = ANY (SELECT to_regclass(name) FROM unnest(?::text[]) AS name) "
        "AND relkind = 'p' AND pg_has_role(relowner, 'USAGE')",
        [of.table for of in TABLES],
    ).fetchone()[0]
    return bool(owned == len(TABLES))


def past(log: Log, before: datetime) -> list[Month]:
    """Return the months that ended before then, oldest first."""
    ends: dict[datetime, list[str]] = {}
    tables = {of.name: partitions(log, of.table) for of in TABLES}
    for of in tables.values():
        for partition, until in of.items():
            if until is not None and until <= before:
                ends.setdefault(until, []).append(partition)
    through = dict.fromkeys(tables, 0)
    found = []
    for until in sorted(ends):
        for table, of in tables.items():
            for partition in of:
                if partition in ends[until]:
                    through[table] = max(through[table], _edge(log, "max", partition))
        found.append(Month(until, tuple(ends[until]), dict(through)))
    return found


def _edge(log: Log, side: str, partition: str) -> int:
    return int(log.run(f'SELECT {side}(id) FROM "{partition}"').fetchone()[0] or 0)  # noqa: S608 - of the catalog


def holds_before(log: Log, month: Month, ids: dict[str, int]) -> bool:
    """Return whether the month has rows with these IDs or lower ones, by the name of the audit's table."""
    return any(
        0 < _edge(log, "min", partition) <= ids[of.name]
        for of in TABLES
        for partition in month.partitions
        if partition.startswith(f"{of.table}_until_")
    )


def is_empty(log: Log, month: Month) -> bool:
    return not any(_edge(log, "max", partition) for partition in month.partitions)


def wait_briefly(log: Log) -> None:
    """Let statements of this transaction raise LockNotAvailable of psycopg where they would wait for a lock."""
    log.run(f"SET LOCAL lock_timeout = {_LOCK_MILLISECONDS:d}")


def drop(log: Log, month: Month) -> None:
    """Drop the month's partitions, within a transaction. Raise LockNotAvailable of psycopg where a query reads on."""
    wait_briefly(log)
    log.run(f"LOCK TABLE {', '.join(of.table for of in TABLES)} IN ACCESS EXCLUSIVE MODE")
    for partition in month.partitions:
        log.run(f'DROP TABLE "{partition}"')


def siblings(log: Log, month: Month) -> dict[str, list[str]]:
    """Return the other partitions of each audited table, by its name."""
    return {of.name: [each for each in partitions(log, of.table) if each not in month.partitions] for of in TABLES}


def is_locked(error: BaseException) -> Any:
    """Return whether a statement gave up waiting for a lock."""
    return getattr(error, "sqlstate", None) == "55P03"
