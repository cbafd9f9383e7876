"""JSON that a person may read and not change, on the page of a row: indented, as everywhere else.

Django shows the values of its own JSONField so, and knows nothing of ours, which would be written as Python does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.contrib import admin
from django.contrib.admin.helpers import AdminForm
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model

from sessions_app.kit.fields import JSONText
from sessions_app.kit.shown import json_block


def show_json(adminform: AdminForm, model: type[Model]) -> None:
    """Change an AdminForm so that the read-only JSON among its fields is shown as JSON."""
    shown = {name: _block(field) for name in adminform.readonly_fields if (field := _json_field(model, name))}
    if not shown:
        return
    adminform.readonly_fields = [*adminform.readonly_fields, *shown.values()]
    adminform.fieldsets = [
        (title, {**options, "fields": _replaced(options["fields"], shown)}) for title, options in adminform.fieldsets
    ]


def _json_field(model: type[Model], name: object) -> JSONText | None:
    try:
        field = model._meta.get_field(name) if isinstance(name, str) else None
    except FieldDoesNotExist:
        return None
    return field if isinstance(field, JSONText) else None


def _block(field: JSONText) -> Any:
    @admin.display(description=field.verbose_name)
    def shown(row: Model) -> str:
        value = getattr(row, field.attname)
        return "-" if value in (None, {}, [], "") else json_block(value, str(field.verbose_name))

    shown.__name__ = field.name  # by which Django finds the help text
    return shown


def _replaced(fields: Collection[Any], shown: Mapping[str, object]) -> list[Any]:
    return [_replaced(each, shown) if isinstance(each, list | tuple) else shown.get(each, each) for each in fields]
