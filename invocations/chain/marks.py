"""Which times a stretch of the sequence holds, so that a time is found in it without reading an index of all calls.

Sequence and time do not run quite alike: a row is written when its call is over. So for each stretch of 4096 IDs a
mark holds the earliest and latest start of its calls. The sealing process keeps the marks up to the sealed rows;
later rows are examined one by one. They are no evidence and can be thrown away: they are made again.
"""

from __future__ import annotations

from invocations.chain.log import Log

STRETCH = 4096
_AT_ONCE = 50_000
"""Rows in one statement: it holds SQLite's lock."""

_INVOCATION = "invocations_mcptoolinvocation"
_MARK = "invocations_sequencemark"


def follow(log: Log, through: int) -> None:
    """Create missing marks through this ID. Passes on database errors.

    Every row that will ever stand at `through` or below must be visible.
    """
    least, most = ("min", "max") if log.is_sqlite else ("least", "greatest")
    while log.run(
        f"INSERT INTO {_MARK} (number, least_started, most_started, through) "  # noqa: S608 - our own names
        f"SELECT id / {STRETCH} AS number, min(started_at), max(started_at), max(id) FROM "
        f"(SELECT id, started_at FROM {_INVOCATION} WHERE id > ? AND id <= ? ORDER BY id LIMIT {_AT_ONCE}) AS of_calls "
        "GROUP BY 1 ORDER BY 1 ON CONFLICT (number) DO UPDATE SET "
        f"least_started = {least}({_MARK}.least_started, excluded.least_started), "
        f"most_started = {most}({_MARK}.most_started, excluded.most_started), "
        f"through = {most}({_MARK}.through, excluded.through)",
        marked(log),
        through,
    ).rowcount:
        pass


def marked(log: Log) -> int:
    """Return the id through which all is marked."""
    return int(log.run(f"SELECT coalesce(max(through), 0) FROM {_MARK}").fetchone()[0])  # noqa: S608
