"""Which people somebody may change: one rule for the console and REST."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.models import AnonymousUser, Permission, User

from sessions_app.keys.making import groups_beyond


def is_within(editor: User | AnonymousUser, person: User) -> bool:
    """Return whether the person has nothing beyond the editor: whoever sets a password can log in with it."""
    if editor.is_superuser:
        return True
    beyond = person.is_superuser or groups_beyond(editor, person.groups.all())
    return not beyond and editor.has_perms(person.get_all_permissions())


def code_of(permission: Permission) -> str:
    """Return a permission as code names it: `app.codename`. Reads its content type."""
    return f"{permission.content_type.app_label}.{permission.codename}"


def permissions_beyond(editor: User | AnonymousUser, permissions: Iterable[Permission]) -> list[str]:
    """Return those that the editor lacks and so cannot hand out, by their codes, in order."""
    return sorted(code for code in map(code_of, permissions) if not editor.has_perm(code))
