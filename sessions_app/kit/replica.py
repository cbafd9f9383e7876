"""Reads for auditors on a replica of PostgreSQL, where MCPHUB_AUDIT_DATABASE_URL names one.

Pages and REST over the audit read records there. All else stays with the hub's database: writes, permissions, lookups
of the call path. Where no replica is named, all of this is the hub's database.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import datetime

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model

ALIAS = "audit"
"""The replica in DATABASES."""
_APPS = frozenset({"invocations"})
_MODELS = frozenset({"sessions_app.auditevent"})
_read_from: ContextVar[str] = ContextVar("mcphub_read_from", default=DEFAULT_DB_ALIAS)

# A standby that has applied all it received is up to date only while it still receives.
_AS_OF = (
    "SELECT CASE WHEN EXISTS (SELECT FROM pg_stat_wal_receiver) "
    "AND pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN now() ELSE pg_last_xact_replay_timestamp() END"
)


def is_set_up() -> bool:
    return ALIAS in connections.settings


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Read records from the replica meanwhile."""
    token = _read_from.set(ALIAS if is_set_up() else DEFAULT_DB_ALIAS)
    try:
        yield
    finally:
        _read_from.reset(token)


def alias() -> str:
    """Return the entry of DATABASES that is read now."""
    return _read_from.get()


def connection() -> BaseDatabaseWrapper:
    """Return Django's connection that is read now."""
    return connections[_read_from.get()]


def as_of() -> datetime | None:
    """Return the moment up to which the replica is current; None if it is not a standby and cannot report it.

    Raises DatabaseError.
    """
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("SELECT pg_is_in_recovery()")
        if not cursor.fetchone()[0]:
            return None
        cursor.execute(_AS_OF)
        moment: datetime | None = cursor.fetchone()[0]
        return moment


class ReplicaRouter:
    """One of DATABASE_ROUTERS, where there is a replica."""

    def db_for_read(self, model: type[Model], **hints: object) -> str | None:
        options = model._meta
        return _read_from.get() if options.app_label in _APPS or options.label_lower in _MODELS else DEFAULT_DB_ALIAS

    def db_for_write(self, model: type[Model], **hints: object) -> str:
        return DEFAULT_DB_ALIAS

    def allow_relation(self, one: Model, other: Model, **hints: object) -> bool:
        return True  # both are rows of one database

    def allow_migrate(self, db: str, app_label: str, **hints: object) -> bool:
        return db == DEFAULT_DB_ALIAS
