"""The tables of people, which are those of the project's own user model in a host. For triggers."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from django.contrib.auth import get_user_model


class PeopleTables(NamedTuple):
    table: str
    key: str
    """The column of the primary key."""
    groups: str
    """Of the memberships."""
    permissions: str
    member: str
    """The column of the person in the last two."""


def _read() -> PeopleTables:
    user: Any = get_user_model()
    return PeopleTables(
        user._meta.db_table,
        user._meta.pk.column,
        user.groups.through._meta.db_table,
        user.user_permissions.through._meta.db_table,
        user._meta.get_field("groups").m2m_column_name(),
    )


PEOPLE: Final = _read()
