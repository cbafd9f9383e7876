"""The ledger's SQL, for SQLite and PostgreSQL: one statement a batch and table.

A batch travels as few statements of many rows (SQLite) or as one JSON parameter (PostgreSQL), so the interpreter lock
is given up a few times a batch, not once a row. Every statement can be repeated after a commit with an unknown
outcome. Parameters are written `$1`; SQLite's text is made of that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any

import orjson

from invocations import columns
from invocations.columns import Row
from invocations.ledger import durability
from invocations.ledger.records import Key
from sessions_app.kit.database import Dedicated, driver

# A third of the processor time of an insert went into NULL: sqlite3 asks None whether it knows how to be stored, which
# it does not, by way of two exceptions a value. Nothing changes but who is asked.
sqlite3.register_adapter(type(None), {None: None}.get)

_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
MOST_ROWS = _SIZES[-1]
"""That one statement of SQLite appends."""
"""Rows that a SQLite statement takes: few, so that few are prepared and kept. Empty rows fill the last one up."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that the ledger appends to. `columns`: name -> PostgreSQL type, in the order of a row.

    A row that stands there under the same `unique` columns, the first of which is never null, is left as it is.
    """

    name: str
    columns: dict[str, str]
    unique: str = "invocation_id"
    sqlite: dict[int, str] = field(init=False, default_factory=dict)
    """By the number of rows that a statement takes."""
    postgresql: str = field(init=False, default="")

    def __post_init__(self) -> None:
        row = f"({', '.join('?' * len(self.columns))})"
        for size in _SIZES:
            # OR ROLLBACK: a row that breaks a rule undoes the transaction, as it would anyway, and SQLite need not
            # copy each page first to be able to undo the statement alone: a quarter of the time a row.
            self.sqlite[size] = (
                f"INSERT OR ROLLBACK INTO {self.name} ({', '.join(self.columns)}) "  # noqa: S608 - our own names
                f"SELECT * FROM (VALUES {', '.join([row] * size)}) WHERE column1 IS NOT NULL "
                f"ON CONFLICT ({self.unique}) DO NOTHING"
            )
        object.__setattr__(self, "postgresql", self.insert_from("jsonb_array_elements($1::jsonb) AS v"))

    def insert_from(self, source: str, first: int = 0) -> str:
        """Return PostgreSQL's INSERT of rows that `source` holds as JSON arrays `v`, from their item `first` on.

        One JSON parameter costs this process a tenth of an array a column, and is one text for any number of rows.
        The conflict is of any unique columns: those of a partitioned record have its time beside the ID.
        """
        values = ", ".join(f"(v->>{number})::{type_}" for number, type_ in enumerate(self.columns.values(), first))
        return (
            f"INSERT INTO {self.name} ({', '.join(self.columns)}) SELECT {values} FROM {source} "  # noqa: S608
            "ON CONFLICT DO NOTHING"
        )


ENVELOPE, INVOCATION = (
    Table(declared.table, {column.name: column.type.value for column in declared.written})
    for declared in (columns.ENVELOPE, columns.INVOCATION)
)

KEY = Table(
    "invocations_mcpidempotencykey",
    {"scope": "text", "key": "text", "fingerprint": "text", "invocation_id": "text", "created_at": "timestamptz"},
    "scope, key",
)

_ID, _CODE = columns.INVOCATION.position("invocation_id"), columns.INVOCATION.position("error_code")
LIVE = "state IN ('created', 'initialized')"


def prepare(raw: Any, is_sqlite: bool, bound_seconds: float) -> str | None:
    """Set the connection's own bounds; give why its commits would not be durable, or None."""
    milliseconds = int(bound_seconds * 1000)
    if is_sqlite:
        raw.execute(f"PRAGMA busy_timeout={milliseconds}")
        raw.execute("PRAGMA wal_autocheckpoint=4000")
        raw.execute("PRAGMA cache_size=-1000")
        return durability.why_not(raw, is_sqlite)
    raw.execute(f"SET statement_timeout = {milliseconds}")
    raw.execute("SET application_name = 'mcphub ledger'")
    not_durable = durability.why_not(raw, is_sqlite)
    from psycopg import RawCursor  # not beside SQLite: it takes ten megabytes

    # Django's cursors write the parameters into the statement, which is then parsed and planned each time.
    raw.cursor_factory = RawCursor
    raw.prepare_threshold = 0
    return not_durable


def poison(is_sqlite: bool) -> tuple[type[Exception], ...]:
    """Return the errors that a row's own content can raise."""
    module = driver()
    found = (module.IntegrityError, module.DataError, ValueError, OverflowError, TypeError)
    return found if is_sqlite else (*found, module.errors.ProgramLimitExceeded)


def was_undone(error: Exception) -> bool:
    """Return whether the database's error means that nothing of the transaction remains."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF == sqlite3.SQLITE_BUSY
    state = getattr(error, "sqlstate", None)
    return state is not None and (state == "57014" or state[:2] in ("40", "55"))  # cancelled, deadlock, lock


def insert(database: Dedicated, table: Table, rows: Sequence[Row]) -> int:
    """Append rows; give how many were new."""
    raw = database.raw
    if not database.is_sqlite:
        return int(raw.execute(table.postgresql, (orjson.dumps(rows).decode(),)).rowcount)
    new = 0
    for begin in range(0, len(rows), MOST_ROWS):
        part = rows[begin : begin + MOST_ROWS]
        size = next(size for size in _SIZES if size >= len(part))
        values = [*chain.from_iterable(part), *(None,) * (len(table.columns) * (size - len(part)))]
        new += raw.execute(table.sqlite[size], values).rowcount
    return new


def superseded(database: Dedicated, rows: Sequence[Row]) -> set[str]:
    """Return the ids among `rows` under which another outcome stands: interrupted, found by another process."""
    ours = {str(row[_ID]): row[_CODE] for row in rows}
    query = "SELECT invocation_id, error_code FROM invocations_mcptoolinvocation WHERE invocation_id"
    found = _execute(database, f"{query} {_among(database, 1)}", _packed(database, list(ours))).fetchall()
    return {id_ for id_, code in found if code == "interrupted" and ours[id_] != "interrupted"}


def recorded(database: Dedicated, intents: list[str], outcomes: list[str]) -> tuple[set[str], set[str]]:
    """Return which of these ids have an envelope, and which an outcome."""
    found = []
    for table, ids in ((ENVELOPE, intents), (INVOCATION, outcomes)):
        query = f"SELECT invocation_id FROM {table.name} WHERE invocation_id {_among(database, 1)}"  # noqa: S608 - ours
        found.append({row[0] for row in _execute(database, query, _packed(database, ids)).fetchall()} if ids else set())
    return found[0], found[1]


def live_sessions(database: Dedicated, ids: list[str], stale: list[str], now: float, expires: float) -> set[str]:
    """Return which sessions are live; write the activity of those in `stale`, which then live until `expires`."""
    moment = database.timestamp(now)
    found = _execute(
        database,
        f"SELECT session_id FROM sessions_app_mcpsession WHERE {LIVE} "  # noqa: S608
        f"AND (expires_at IS NULL OR expires_at > $1) AND session_id {_among(database, 2)}",
        moment,
        _packed(database, ids),
    )
    alive = {row[0] for row in found}
    active = [id_ for id_ in stale if id_ in alive]
    if active:
        # On PostgreSQL a row that another process is touching or ending needs no second touch, and no deadlock.
        latest, lock = ("max", "") if database.is_sqlite else ("greatest", "FOR UPDATE SKIP LOCKED")
        _execute(
            database,
            f"UPDATE sessions_app_mcpsession SET last_activity_at = {latest}(last_activity_at, $1), "  # noqa: S608
            "expires_at = $2 WHERE session_id IN (SELECT session_id FROM sessions_app_mcpsession "
            f"WHERE session_id {_among(database, 3)} AND expires_at IS NOT NULL AND {LIVE} {lock})",
            moment,
            database.timestamp(expires),
            _packed(database, active),
        )
    return alive


def claim_keys(
    database: Dedicated, claims: list[tuple[str, str, str, str]], now: float
) -> dict[tuple[str, str], tuple[str, str]]:
    """Claim (scope, key, fingerprint, invocation id); give first id and fingerprint of each (scope, key).

    Nothing is given where all were first.
    """
    moment = database.timestamp(now)
    claims = sorted(claims)  # one order in every process: no deadlock
    if insert(database, KEY, [(*claim, moment) for claim in claims]) == len(claims):
        return {}
    if database.is_sqlite:
        rows = database.raw.execute(
            "SELECT k.scope, k.key, k.invocation_id, k.fingerprint FROM json_each(?) AS c "
            "JOIN invocations_mcpidempotencykey AS k "
            "ON k.scope = json_extract(c.value, '$[0]') AND k.key = json_extract(c.value, '$[1]')",
            (orjson.dumps(claims).decode(),),
        ).fetchall()
    else:
        rows = database.raw.execute(
            "SELECT k.scope, k.key, k.invocation_id, k.fingerprint "
            "FROM unnest($1::text[], $2::text[]) AS c(scope, key) "
            "JOIN invocations_mcpidempotencykey AS k USING (scope, key)",
            ([claim[0] for claim in claims], [claim[1] for claim in claims]),
        ).fetchall()
    return {(scope, key): (id_, fingerprint) for scope, key, id_, fingerprint in rows}


def free_key(database: Dedicated, key: Key, invocation_id: str) -> None:
    """Let go of a key that this call claimed."""
    statement = f"DELETE FROM {KEY.name} WHERE scope = $1 AND key = $2 AND invocation_id = $3"  # noqa: S608
    _execute(database, statement, key[0], key[1], invocation_id)


def _execute(database: Dedicated, query: str, *values: object) -> Any:
    return database.raw.execute(_for_sqlite(query) if database.is_sqlite else query, values)


@lru_cache(maxsize=64)
def _for_sqlite(query: str) -> str:
    return query.replace("$", "?")


def _among(database: Dedicated, number: int) -> str:
    return f"IN (SELECT value FROM json_each(${number}))" if database.is_sqlite else f"= ANY(${number})"  # noqa: S608 - a number


def _packed(database: Dedicated, ids: list[str]) -> Any:
    return orjson.dumps(ids).decode() if database.is_sqlite else ids
