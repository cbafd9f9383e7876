"""Token buckets that every process draws from, within the ledger's transaction: exact however many draw.

On PostgreSQL time is the database's own, one for all machines; on SQLite that of the machine that all share.
"""

from __future__ import annotations

from invocations.ledger.records import Take
from sessions_app.kit.database import Dedicated

_ROUNDING = 1e-9
"""Tokens. A caller that waited the stated time must not be refused for the last bit of a float."""
_CLOCK_BACK_SECONDS = 60.0
"""Whoever waited for the row has an older moment than the one in it; one further ahead is of a clock set back since."""

_TABLE = "sessions_app_ratelimitbucket"
_COLUMNS = "client_id, tokens, capacity, refill_per_second, last_refill, request_count"
_SQLITE = (
    f"INSERT INTO {_TABLE} ({_COLUMNS}) VALUES (?1, ?2, ?2, ?3, ?4, 0) ON CONFLICT (client_id) DO NOTHING",  # noqa: S608 - our own names
    "SELECT tokens, (julianday(?2) - julianday(last_refill)) * 86400, ?2 "  # noqa: S608 - our own names
    f"FROM {_TABLE} WHERE client_id = ?1",
    f"UPDATE {_TABLE} SET tokens = ?2, capacity = ?3, refill_per_second = ?4, "  # noqa: S608
    "last_refill = CASE WHEN ?6 THEN max(last_refill, ?5) ELSE ?5 END, last_request = ?5, "
    "request_count = request_count + 1 WHERE client_id = ?1",
)
_POSTGRESQL = (
    f"INSERT INTO {_TABLE} ({_COLUMNS}) VALUES ($1, $2, $2, $3, clock_timestamp(), 0) "  # noqa: S608
    "ON CONFLICT (client_id) DO NOTHING",
    "SELECT tokens, extract(epoch FROM clock_timestamp() - last_refill)::float8, clock_timestamp() "  # noqa: S608
    f"FROM {_TABLE} WHERE client_id = $1 FOR UPDATE",
    f"UPDATE {_TABLE} SET tokens = $2, capacity = $3, refill_per_second = $4, "  # noqa: S608
    "last_refill = CASE WHEN $6 THEN greatest(last_refill, $5) ELSE $5 END, last_request = $5, "
    "request_count = request_count + 1 WHERE client_id = $1",
)


def take(database: Dedicated, record: Take, now: float) -> tuple[float, float]:
    """Draw tokens; give the seconds until there are as many (0: they were drawn), and how many are left.

    A refused request takes nothing; a debtor is not refused, and waits until the debt is paid, one bucket at most. A
    clock that goes back adds nothing.
    """
    insert, select, update = _SQLITE if database.is_sqlite else _POSTGRESQL
    own = (database.timestamp(now),) if database.is_sqlite else ()
    rate = record.refill_per_second
    row = None
    while row is None:  # purged between the two statements: once more
        database.raw.execute(insert, (record.bucket, record.capacity, rate, *own))
        row = database.raw.execute(select, (record.bucket, *own)).fetchone()
    tokens, elapsed, moment = row
    level = min(float(record.capacity), tokens + max(0.0, elapsed) * rate)
    given = record.may_owe or level >= record.amount - _ROUNDING
    if given:
        level = max(-float(record.capacity) if record.may_owe else 0.0, level - record.amount)
    is_near = elapsed > -_CLOCK_BACK_SECONDS
    database.raw.execute(update, (record.bucket, level, record.capacity, rate, moment, is_near))
    behind = -elapsed if elapsed < 0 and is_near else 0.0
    missing = max(0.0, -level) if record.may_owe else 0.0 if given else record.amount - level
    return missing / rate + behind if missing or not given else 0.0, level
