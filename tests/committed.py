"""A database with nothing held back, for code that looks at it from connections of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection


def committing(*models: Any) -> Callable[..., Iterator[None]]:
    """Give a fixture to stand in for `transactional_db`; it empties the tables of `models` before and after each test.

    pytest-django's own flushes every table and runs every post_migrate hook again: a second and a half on
    PostgreSQL where this takes a hundredth.
    """

    @pytest.fixture
    def transactional_db(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
        with django_db_blocker.unblock():
            assert "test" in str(connection.settings_dict["NAME"])
            empty()  # of what the migrations left: events, for one
            yield
            empty()
            connection.close()

    def empty() -> None:
        with connection.cursor() as cursor, without_rules(cursor):
            for model in models:
                cursor.execute(f"DELETE FROM {model._meta.db_table}")

    return transactional_db


@contextlib.contextmanager
def without_rules(cursor: Any) -> Iterator[None]:
    """Lift what the database refuses by triggers, as somebody with its master's rights can."""
    if connection.vendor == "postgresql":
        cursor.execute("SET session_replication_role = replica")
        yield
        cursor.execute("SET session_replication_role = DEFAULT")
        return
    cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'mcphub%append_only%'")
    triggers = cursor.fetchall()
    for name, _ in triggers:
        cursor.execute(f"DROP TRIGGER {name}")
    yield
    for _, statement in triggers:
        cursor.execute(statement)
