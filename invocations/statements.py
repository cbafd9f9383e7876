"""The ledger's SQL, for SQLite and PostgreSQL: one statement a batch and table.

A batch travels as few statements of many rows (SQLite) or one array a column (PostgreSQL), so the interpreter
lock is given up a few times a batch, not once a row. Every statement may be repeated after a commit whose fate
is unknown.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import orjson

from invocations.records import Row, Take
from sessions_app.database import Dedicated

_ROWS = (128, 64, 32, 16, 8, 4, 2, 1)
"""Rows in one SQLite statement: powers of two, so that few are prepared and kept.

Measured beside one JSON parameter and `json_each`: a third to a half of the time a row, and no copies of bodies.
"""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that the ledger appends to. `columns`: name -> PostgreSQL type, in the order of a row."""

    name: str
    columns: dict[str, str]
    sqlite: dict[int, str] = field(init=False, default_factory=dict)
    """By the number of rows that a statement takes."""
    postgresql: str = field(init=False, default="")

    def __post_init__(self) -> None:
        names = ", ".join(self.columns)
        row = f"({', '.join('?' * len(self.columns))})"
        arrays = ", ".join(f"%s::{type_}[]" for type_ in self.columns.values())
        conflict = "ON CONFLICT (invocation_id) DO NOTHING"
        # Table and column names are ours; values travel as parameters.
        for size in _ROWS:
            self.sqlite[size] = f"INSERT INTO {self.name} ({names}) VALUES {', '.join([row] * size)} {conflict}"  # noqa: S608
        object.__setattr__(
            self,
            "postgresql",
            f"INSERT INTO {self.name} ({names}) SELECT * FROM unnest({arrays}) {conflict}",  # noqa: S608
        )


ENVELOPE = Table(
    "invocations_mcprequestenvelope",
    {
        "invocation_id": "text", "session_id": "text", "process_id": "text", "request_id": "text",
        "method": "text", "params": "text", "tool_name": "text", "tool_version": "text", "tool_digest": "text",
        "principal": "text", "context": "text", "received_at": "timestamptz",
    },
)  # fmt: skip

INVOCATION = Table(
    "invocations_mcptoolinvocation",
    {
        "invocation_id": "text", "session_id": "text", "process_id": "text", "request_id": "text",
        "tool_name": "text", "tool_version": "text", "tool_digest": "text", "arguments": "text",
        "arguments_digest": "text", "status": "text", "result": "text", "error": "text", "error_code": "text",
        "jsonrpc_code": "int4", "retryable": "bool", "received_at": "timestamptz", "started_at": "timestamptz",
        "finished_at": "timestamptz", "duration_ms": "int4", "duplicate_of": "text", "occurrences": "int4",
        "transport": "text", "protocol_version": "text", "principal": "text", "caller_label": "text",
        "client_name": "text", "client_version": "text", "client_address": "text", "trace_id": "text",
    },
)  # fmt: skip

_CODE = list(INVOCATION.columns).index("error_code")


def prepare(raw: Any, is_sqlite: bool, bound_seconds: float) -> str | None:
    """Set the connection's own bounds; give why its commits would not be durable, or None."""
    milliseconds = int(bound_seconds * 1000)
    if is_sqlite:
        raw.execute(f"PRAGMA busy_timeout={milliseconds}")
        raw.execute("PRAGMA wal_autocheckpoint=4000")
        level = raw.execute("PRAGMA synchronous").fetchone()[0]
        return None if level >= 2 else "SQLite runs with PRAGMA synchronous below FULL"
    raw.execute(f"SET statement_timeout = {milliseconds}")
    raw.execute("SET application_name = 'mcphub ledger'")
    for name in ("fsync", "synchronous_commit"):
        value = raw.execute(f"SHOW {name}").fetchone()[0]
        if value == "off":
            return f"PostgreSQL runs with {name}={value}"
    return None


@contextlib.contextmanager
def transaction(database: Dedicated) -> Iterator[None]:
    raw = database.raw
    if not database.is_sqlite:
        with raw.transaction():
            yield
        return
    raw.execute("BEGIN IMMEDIATE")
    try:
        yield
        raw.execute("COMMIT")
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise


def insert(database: Dedicated, table: Table, rows: Sequence[Row]) -> int:
    """Append rows; give how many were new."""
    raw = database.raw
    if not database.is_sqlite:
        return int(raw.execute(table.postgresql, [list(column) for column in zip(*rows, strict=True)]).rowcount)
    new = done = 0
    for size in _ROWS:
        while len(rows) - done >= size:
            values = list(chain.from_iterable(rows[done : done + size]))
            new += raw.execute(table.sqlite[size], values).rowcount
            done += size
    return new


def superseded(database: Dedicated, rows: Sequence[Row]) -> set[str]:
    """Give the ids among `rows` under which another outcome stands: interrupted, found by another process."""
    ours = {row[0]: row[_CODE] for row in rows}
    found = _among(
        database, "SELECT invocation_id, error_code FROM invocations_mcptoolinvocation WHERE invocation_id", list(ours)
    )
    return {id_ for id_, code in found if code == "interrupted" and ours[id_] != "interrupted"}


def live_sessions(database: Dedicated, ids: list[str], stale: list[str], now: float) -> set[str]:
    """Give which sessions are live; write the activity of those in `stale`."""
    moment = database.timestamp(now)
    mark = "?" if database.is_sqlite else "%s"
    found = _among(
        database,
        "SELECT session_id FROM sessions_app_mcpsession WHERE state IN ('created', 'initialized') "  # noqa: S608
        f"AND (expires_at IS NULL OR expires_at > {mark}) AND session_id",
        ids,
        moment,
    )
    alive = {row[0] for row in found}
    active = [id_ for id_ in stale if id_ in alive]
    if active:
        from django.conf import settings

        expires = database.timestamp(now + settings.MCPHUB_SESSION_IDLE_SECONDS)
        if database.is_sqlite:
            database.raw.execute(
                "UPDATE sessions_app_mcpsession SET last_activity_at = max(last_activity_at, ?), expires_at = ? "
                "WHERE session_id IN (SELECT value FROM json_each(?)) AND expires_at IS NOT NULL",
                (moment, expires, orjson.dumps(active).decode()),
            )
        else:
            # A row that another process is touching or ending needs no second touch, and no deadlock.
            database.raw.execute(
                "UPDATE sessions_app_mcpsession SET last_activity_at = greatest(last_activity_at, %s::timestamptz), "
                "expires_at = %s::timestamptz WHERE session_id IN (SELECT session_id FROM sessions_app_mcpsession "
                "WHERE session_id = ANY(%s) AND expires_at IS NOT NULL "
                "AND state IN ('created', 'initialized') FOR UPDATE SKIP LOCKED)",
                (moment, expires, active),
            )
    return alive


def claim_keys(
    database: Dedicated, claims: list[tuple[str, str, str, str]], now: float
) -> dict[tuple[str, str], tuple[str, str]]:
    """Claim (scope, key, fingerprint, invocation id); give each (scope, key)'s first id and fingerprint."""
    claims = sorted(claims)  # one order in every process: no deadlock
    moment = database.timestamp(now)
    columns = "scope, key, fingerprint, invocation_id, created_at"
    if database.is_sqlite:
        packed = orjson.dumps(claims).decode()
        database.raw.execute(
            f"INSERT INTO invocations_mcpidempotencykey ({columns}) SELECT json_extract(value, '$[0]'), "  # noqa: S608
            "json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]'), ? "
            "FROM json_each(?) WHERE true ON CONFLICT (scope, key) DO NOTHING",
            (moment, packed),
        )
        rows = database.raw.execute(
            "SELECT k.scope, k.key, k.invocation_id, k.fingerprint FROM json_each(?) AS c "
            "JOIN invocations_mcpidempotencykey AS k "
            "ON k.scope = json_extract(c.value, '$[0]') AND k.key = json_extract(c.value, '$[1]')",
            (packed,),
        ).fetchall()
    else:
        scopes, keys, prints, ids = (list(column) for column in zip(*claims, strict=True))
        database.raw.execute(
            f"INSERT INTO invocations_mcpidempotencykey ({columns}) SELECT *, %s::timestamptz "  # noqa: S608
            "FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) ON CONFLICT (scope, key) DO NOTHING",
            (moment, scopes, keys, prints, ids),
        )
        rows = database.raw.execute(
            "SELECT k.scope, k.key, k.invocation_id, k.fingerprint "
            "FROM unnest(%s::text[], %s::text[]) AS c(scope, key) "
            "JOIN invocations_mcpidempotencykey AS k USING (scope, key)",
            (scopes, keys),
        ).fetchall()
    return {(scope, key): (id_, fingerprint) for scope, key, id_, fingerprint in rows}


def take(database: Dedicated, record: Take, now: float) -> float:
    """Draw a token: 0, or the seconds until there is one. A clock that went back adds nothing."""
    rate = record.per_minute / 60
    moment = database.timestamp(now)
    mark = "?" if database.is_sqlite else "%s"
    database.raw.execute(
        "INSERT INTO sessions_app_ratelimitbucket "  # noqa: S608
        "(client_id, tokens, capacity, refill_per_second, last_refill, request_count, last_request) "
        f"VALUES ({mark}, {mark}, {mark}, {mark}, {mark}, 0, {mark}) ON CONFLICT (client_id) DO NOTHING",
        (record.bucket, record.per_minute, record.per_minute, rate, moment, moment),
    )
    lock = "" if database.is_sqlite else " FOR UPDATE"
    elapsed = (
        "max(0, (julianday(?) - julianday(last_refill)) * 86400)"
        if database.is_sqlite
        else "greatest(0, extract(epoch FROM %s::timestamptz - last_refill))"
    )
    tokens, seconds = database.raw.execute(
        f"SELECT tokens, {elapsed} FROM sessions_app_ratelimitbucket WHERE client_id = {mark}{lock}",  # noqa: S608
        (moment, record.bucket),
    ).fetchone()
    level = min(float(record.per_minute), tokens + float(seconds) * rate)
    given = level >= 1
    database.raw.execute(
        f"UPDATE sessions_app_ratelimitbucket SET tokens = {mark}, capacity = {mark}, refill_per_second = {mark}, "  # noqa: S608
        f"last_refill = {'max' if database.is_sqlite else 'greatest'}(last_refill, {mark}), "
        f"request_count = request_count + 1, last_request = {mark} WHERE client_id = {mark}",
        (level - 1 if given else level, record.per_minute, rate, moment, moment, record.bucket),
    )
    return 0.0 if given else (1 - level) / rate


def _among(database: Dedicated, query: str, ids: list[str], *first: Any) -> list[Any]:
    """Run `query`, one of this module's, for those of `ids`."""
    among = "IN (SELECT value FROM json_each(?))" if database.is_sqlite else "= ANY(%s)"
    last = orjson.dumps(ids).decode() if database.is_sqlite else ids
    rows: list[Any] = database.raw.execute(f"{query} {among}", (*first, last)).fetchall()
    return rows
