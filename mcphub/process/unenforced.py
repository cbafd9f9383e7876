"""Policies in the database that nothing enforces, because `MCPHUB_FEATURES` leaves their feature out."""

from __future__ import annotations

from django.db import connection

from mcphub import feature_list
from mcphub.parts import RowsInForce


def sentences() -> list[str]:
    """Return a sentence for each kind of such policies."""
    found = [part for config in feature_list.off() for part in config.parts if isinstance(part, RowsInForce)]
    if not found:
        return []
    tables = set(connection.introspection.table_names())
    counted = [(part, count(part)) for part in found if part.table in tables]
    return [str(part.words) % {"count": number} for part, number in counted if number]


def count(part: RowsInForce) -> int:
    """Return how many rows are in force."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT COUNT(*) FROM {part.table} WHERE {part.condition}")  # noqa: S608 - declared in our code
        return int(cursor.fetchone()[0])
