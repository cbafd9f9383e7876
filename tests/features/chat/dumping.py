"""Every row of a hub's database, as somebody with a dump of it reads them."""

from __future__ import annotations


def found(*words: str) -> list[str]:
    """Return `table.column: text` of each cell that holds one of the words."""
    from django.db import connection

    cells = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            names = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                for name, value in zip(names, row, strict=True):
                    text = bytes(value).decode("latin-1") if isinstance(value, bytes | memoryview) else str(value)
                    cells += [f"{table}.{name}: {text[:300]}" for word in words if word in text]
    return cells
