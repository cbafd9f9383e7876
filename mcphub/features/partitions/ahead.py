"""Makes the partitions of months to come."""

from __future__ import annotations

from datetime import UTC, datetime

from invocations.chain import months
from invocations.chain.log import Log
from mcphub.features.partitions import tables

MONTHS_AHEAD = 2


def make(log: Log, now: datetime) -> list[str]:
    """Make the partitions that are missing for this month and the next; return their names."""
    made = []
    for of in months.TABLES:
        ends = [end for end in months.partitions(log, of.table).values() if end]
        while ends and ends[-1] < month_after(now, MONTHS_AHEAD):
            begins = max(ends[-1], _after_strays(log, of.table))
            ends.append(month_after(begins, 0))
            made.append(_make_one(log, of.table, begins, ends[-1]))
    return made


def month_after(moment: datetime, more: int) -> datetime:
    """Return the end of the month of a moment, or of a later month."""
    months_since_0 = moment.year * 12 + moment.month + more
    return datetime(months_since_0 // 12, months_since_0 % 12 + 1, 1, tzinfo=UTC)


def _after_strays(log: Log, table: str) -> datetime:
    """Return the end of the last month of the rows that no partition took: none can be made for those months."""
    newest = log.run(f"SELECT max(received_at) FROM {tables.rest_of(table)}").fetchone()[0]  # noqa: S608 - our own name
    return month_after(newest.astimezone(UTC), 0) if newest else datetime.min.replace(tzinfo=UTC)


def _make_one(log: Log, table: str, begins: datetime, until: datetime) -> str:
    """Make a partition beside the table and attach it, so that calls go on meanwhile."""
    name = months.name(table, until)
    with tables.briefly(log):
        tables.make_like(log, name, table)
        log.run(
            f"ALTER TABLE {table} ATTACH PARTITION {name} "
            f"FOR VALUES FROM ('{begins.isoformat()}') TO ('{until.isoformat()}')"
        )
        tables.guard_against_truncate(log, table, name)
    return name
