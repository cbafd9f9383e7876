"""Rows of features that are switched off: their tables stay in the database, and their foreign keys hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.contrib.admin.utils import NestedObjects
from django.db import connections
from django.db.backends.utils import CursorWrapper
from django.db.models import Model
from django.utils.translation import gettext as _


def refusal(rows: Iterable[Model]) -> str:
    """Return what keeps these rows from being deleted, and what to do first; empty where no left-out row does."""
    found = _tables_using(list(rows))
    if not found:
        return ""
    tables = ", ".join(f"{table} ({count})" for table, count in sorted(found.items()))
    said = _(
        "Still used by rows of a feature that is switched off, in %(tables)s. Switch it on, or remove those rows first."
    )
    return said % {"tables": tables}


def _tables_using(rows: list[Model]) -> Counter[str]:
    """Count, by table of no installed model, the rows that name one of these, or a row that is deleted with them."""
    found: Counter[str] = Counter()
    if not rows:
        return found
    using = rows[0]._state.db or "default"
    with connections[using].cursor() as cursor:
        keys = _foreign_keys(using, cursor)
        if not keys:
            return found
        deleted = NestedObjects(using=using)
        deleted.collect(rows)
        quote = connections[using].ops.quote_name
        for model, instances in deleted.data.items():
            for table, column, named in keys[model._meta.db_table]:
                sql = f"SELECT COUNT(*) FROM {quote(table)} WHERE {quote(column)} = %s"  # noqa: S608 - the database's names
                for row in instances:
                    cursor.execute(sql, [_value(row, named, using)])
                    found[table] += cursor.fetchone()[0]
    return +found


def _foreign_keys(using: str, cursor: CursorWrapper) -> defaultdict[str, list[tuple[str, str, str]]]:
    """Return, by the table that is named: the table, its column and the column that it names."""
    introspection = connections[using].introspection
    own = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    found: defaultdict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for table in set(introspection.table_names(cursor)) - own:
        for constraint in introspection.get_constraints(cursor, table).values():
            if constraint["foreign_key"] and len(constraint["columns"]) == 1:
                target, named = constraint["foreign_key"]
                found[target].append((table, constraint["columns"][0], named))
    return found


def _value(row: Model, column: str, using: str) -> Any:
    (field,) = (each for each in row._meta.concrete_fields if each.column == column)
    return field.get_db_prep_value(getattr(row, field.attname), connections[using])
