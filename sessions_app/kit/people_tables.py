"""The user model of the project: its tables for triggers, its names and keys."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db.models import IntegerField, Model

_UUID_PARTS: Final = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))


class PeopleTables(NamedTuple):
    table: str
    key: str
    """The column of the primary key, an integer or a UUID."""
    is_counted: bool
    """The key is an integer; otherwise a UUID."""
    name: str
    """The field that a person logs in by."""
    name_column: str
    groups: str
    """Of the memberships."""
    permissions: str
    member: str
    """The column of the person in the last two."""

    def principal(self, row: str) -> str:
        """Return SQL for the principal of a row of the table, as Python writes it."""
        if self.is_counted:
            return f"'user:' || {row}.{self.key}"
        digits = f"replace(CAST({row}.{self.key} AS text), '-', '')"  # SQLite stores a UUID without hyphens
        parts = (f"substr({digits}, {start}, {length})" for start, length in _UUID_PARTS)
        return "'user:' || " + " || '-' || ".join(parts)


def _read() -> PeopleTables:
    user: Any = get_user_model()
    return PeopleTables(
        user._meta.db_table,
        user._meta.pk.column,
        isinstance(user._meta.pk, IntegerField),
        user.USERNAME_FIELD,
        user._meta.get_field(user.USERNAME_FIELD).column,
        user.groups.through._meta.db_table,
        user.user_permissions.through._meta.db_table,
        user._meta.get_field("groups").m2m_column_name(),
    )


PEOPLE: Final = _read()


def proxies_and(model: type[Model]) -> list[type[Model]]:
    """Return the model and its proxies: signals of a proxy's rows name the proxy as their sender."""
    return [each for each in apps.get_models() if each._meta.concrete_model is model]


def person_key(principal: str) -> Any:
    """Return the primary key of the person that a principal names; None where it names none."""
    kind, _, text = principal.partition(":")
    if kind != "user" or (PEOPLE.is_counted and not (text.isascii() and text.isdecimal() and len(text) < 19)):
        return None
    try:
        return get_user_model()._meta.pk.to_python(text)
    except ValidationError:
        return None
