"""A database with nothing held back, for code that looks at it from connections of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from django.db import connection

from sessions_app.history.models import AuditEvent
from sessions_app.models import BusEvent

# Rows that the migrations leave are events, too, and a test of events begins without any.
_ALWAYS_EMPTIED = AuditEvent._meta.db_table
# Deleting announces itself.
_ANNOUNCEMENTS = BusEvent._meta.db_table


class Rows:
    """How many rows each table holds after the migrations, and the way back to that."""

    def __init__(self) -> None:
        self.migrated = _rows()
        if self.migrated.pop(_ANNOUNCEMENTS, 0):  # of rows that the migrations made
            with connection.cursor() as cursor:
                cursor.execute(f"DELETE FROM {_ANNOUNCEMENTS}")
        self.migrated.pop(_ALWAYS_EMPTIED, None)

    def empty(self) -> None:
        """Delete whatever no migration made.

        pytest-django's own flush empties every table and runs every post_migrate hook again: a second and a half on
        PostgreSQL where this takes a hundredth.
        """
        assert "test" in str(connection.settings_dict["NAME"])
        made = [table for table in _rows() if table not in self.migrated]
        if not made:
            return
        with connection.cursor() as cursor, without_rules(cursor):
            for table in (*made, _ANNOUNCEMENTS):
                cursor.execute(f"DELETE FROM {table}")

    def left_over(self) -> dict[str, int]:
        """Tell what a test committed and did not take away, as rows a table."""
        return {
            table: rows
            for table, rows in _rows().items()
            if table != _ALWAYS_EMPTIED and rows != self.migrated.get(table, 0)
        }


def _rows() -> dict[str, int]:
    with connection.cursor() as cursor:
        counts = (f"SELECT '{name}', count(*) FROM {name}" for name in connection.introspection.table_names(cursor))
        cursor.execute(" UNION ALL ".join(counts))
        return {table: rows for table, rows in cursor.fetchall() if rows}


@contextlib.contextmanager
def without_rules(cursor: Any) -> Iterator[None]:
    """Lift what the database refuses by triggers and foreign keys, as somebody with its master's rights can."""
    if connection.vendor == "postgresql":
        cursor.execute("SET session_replication_role = replica")
        yield
        cursor.execute("SET session_replication_role = DEFAULT")
        return
    cursor.execute("PRAGMA foreign_keys = OFF")
    cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'mcphub%append_only%'")
    triggers = cursor.fetchall()
    for name, _ in triggers:
        cursor.execute(f"DROP TRIGGER {name}")
    yield
    for _, statement in triggers:
        cursor.execute(statement)
    cursor.execute("PRAGMA foreign_keys = ON")
