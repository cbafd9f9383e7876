"""Connections of their own for the threads that must not share Django's: the ledger's writer, the follower."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, InterfaceError, InternalError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model, QuerySet
from django.db.transaction import TransactionManagementError

from sessions_app.kit import replica
from sessions_app.kit.raw_transaction import transaction_on

_PASSING = {"25P02", "25006"}
"""InternalError of PostgreSQL that is not a mistake: statements after a failed one in a transaction, and a write
while the server accepts none, as after a change of roles.
"""
_CANCELLED = "57014"
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_Row = TypeVar("_Row")
_PAUSE_SECONDS = 0.1
"""Between two tries: after a restart of the database each connection of the pool may be a dead one."""
_LONGEST_PAUSE_SECONDS = 0.25
_INSTRUCTIONS = 5_000
"""Of SQLite between two looks at the clock: a fraction of a millisecond, where all is in memory."""


def driver() -> Any:
    """Return the module of the database's driver, with the errors of PEP 249: `sqlite3` or `psycopg`."""
    connection: Any = connections["default"]
    return connection.Database


def is_away(error: BaseException | None) -> bool:
    """Return whether the database could not be used just now, which is nobody's mistake and passes.

    So is the statement after a failed one: Django's validation swallows errors while it checks a constraint, and then
    the next statement of the transaction fails, in Django or in PostgreSQL.
    """
    if isinstance(error, InternalError):
        return getattr(error.__cause__, "sqlstate", "") in _PASSING
    return isinstance(error, OperationalError | InterfaceError | TransactionManagementError)


async def persistently(
    seconds: float, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
) -> _Result:
    """Run a function with Django's connection off the event loop, and again on another connection while the database
    is away.

    `function` must be one that may be repeated. Raises its last error when `seconds` are over.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return await database_sync_to_async(function)(*args, **kwargs)
        except Exception as error:
            if not is_away(error) or time.monotonic() >= until:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)


class TookTooLong(Exception):
    """A statement was ended before it was done."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Let no statement of the connection that is read now take longer: it ends in TookTooLong. For reading only."""
    connection = replica.connection()
    connection.ensure_connection()
    bounded = _sqlite_at_most if connection.vendor == "sqlite" else _postgresql_at_most
    try:
        with bounded(connection, seconds):
            yield
    except OperationalError as error:
        if not _was_ended(error.__cause__):
            raise
        raise TookTooLong from error


@contextlib.contextmanager
def _sqlite_at_most(connection: BaseDatabaseWrapper, seconds: float) -> Iterator[None]:
    raw, until = connection.connection, time.monotonic() + seconds
    raw.set_progress_handler(lambda: time.monotonic() > until, _INSTRUCTIONS)
    try:
        yield
    finally:
        raw.set_progress_handler(None, 0)


@contextlib.contextmanager
def _postgresql_at_most(connection: BaseDatabaseWrapper, seconds: float) -> Iterator[None]:
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('statement_timeout')")
        before = cursor.fetchone()[0]
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(max(1, int(seconds * 1000)))])
        yield
        # It holds until the end of the transaction, which may be that of a caller.
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [before])


def _was_ended(error: BaseException | None) -> bool:
    if isinstance(error, sqlite3.Error):
        return error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT
    return getattr(error, "sqlstate", None) == _CANCELLED


def in_slices(rows: Sequence[_Row], most: int) -> Iterator[Sequence[_Row]]:
    """Yield so many rows at a time, for a transaction each; `giving_way` between them."""
    for start in range(0, len(rows), most):
        if start + most < len(rows):
            with giving_way():
                yield rows[start : start + most]
        else:
            yield rows[start:]


@contextlib.contextmanager
def giving_way(pause: Callable[[float], object] = time.sleep) -> Iterator[None]:
    """Pause on SQLite after the block for as long as that took, unless the caller's own transaction goes on.

    Who waits there for its turn to write asks again at intervals, and would find it taken, for as long as others write
    one transaction after the other.
    """
    began = time.monotonic()
    yield
    database = connections[DEFAULT_DB_ALIAS]
    if database.vendor == "sqlite" and not database.in_atomic_block:
        pause(min(time.monotonic() - began, _LONGEST_PAUSE_SECONDS))


def delete_in_slices(rows: QuerySet[Model], most: int = 1000) -> int:
    """Delete rows, so many in a transaction, and give their number: whoever writes on SQLite comes in between."""
    total = 0
    while True:
        some = list(rows.order_by().values_list("pk", flat=True)[:most])
        removed, _ = rows.model._default_manager.filter(pk__in=some).delete()
        total += int(removed)
        if len(some) < most:
            return total


def direct_settings(alias: str = DEFAULT_DB_ALIAS) -> dict[str, Any]:
    """Return the database as an entry of DATABASES, past a pooler: for state that outlives a transaction on its
    connection.
    """
    direct = settings.MCPHUB_DIRECT_DATABASE if alias == DEFAULT_DB_ALIAS else {}
    return {**connections[alias].settings_dict, **direct}


def is_pooled(raw: Any) -> bool:
    """Return whether a pooler such as PgBouncer is between this connection of psycopg and PostgreSQL.

    A pooler names itself to its clients by a number of its own, not by that of the process that serves them.
    """
    return bool(raw.execute("SELECT pg_backend_pid()").fetchone()[0] != raw.info.backend_pid)


class Dedicated:
    """One raw connection to the hub's database, opened at first use by the thread that uses it.

    It bypasses a pooler: its users prepare statements, listen, or hold locks of their session.

    `raw` is a `sqlite3.Connection` in autocommit mode or a `psycopg.Connection` in autocommit mode.
    """

    def __init__(self, prepare: Callable[[Any, bool], None] | None = None, *, alias: str = DEFAULT_DB_ALIAS) -> None:
        """`prepare(raw, is_sqlite)` sets up each new connection; `alias` is an entry of DATABASES."""
        self._prepare = prepare
        self._alias = alias
        self._wrapper: BaseDatabaseWrapper | None = None
        self.is_sqlite = connections["default"].vendor == "sqlite"

    @property
    def raw(self) -> Any:
        if self._wrapper is None:
            wrapper = connections.create_connection(self._alias)
            # Outside the pool: this connection is held for the life of the process.
            known = direct_settings(self._alias)
            wrapper.settings_dict = {**known, "OPTIONS": {**known["OPTIONS"]}}
            wrapper.settings_dict["OPTIONS"].pop("pool", None)
            self._wrapper = wrapper
            try:
                wrapper.connect()
                if self._prepare is not None:
                    self._prepare(wrapper.connection, self.is_sqlite)
            except BaseException:
                self.close()
                raise
        return self._wrapper.connection

    def transaction(self) -> AbstractContextManager[None]:
        return transaction_on(self.raw, self.is_sqlite)

    def timestamp(self, seconds: float) -> str:
        """Return a time (seconds since the epoch) as text that the database takes for a timestamp."""
        text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        return text if self.is_sqlite else text + "+00"

    def close(self) -> None:
        wrapper, self._wrapper = self._wrapper, None
        if wrapper is not None:
            with contextlib.suppress(Exception):  # one that broke cannot be closed any more
                wrapper.close()
