"""Access to the console: people in groups with permissions."""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings
from django.contrib.auth.models import Group, User


def keep_console(user: User, *, given: Iterable[Group], lost: Iterable[Group]) -> None:
    """Let a person into the console by groups that were given, or out where nothing else than `lost` let them in."""
    if settings.MCPHUB_EMBEDDED:  # the console is the host's admin, and its doors are the host's
        return
    is_staff = user.is_staff
    if opens_console(given):
        is_staff = True
    elif opens_console(lost) and not user.is_superuser:
        has_rights = user.user_permissions.exists() or opens_console(user.groups.all())
        is_staff = is_staff and has_rights
    if is_staff != user.is_staff:
        user.is_staff = is_staff
        user.save(update_fields=["is_staff"])


def opens_console(groups: Iterable[Group]) -> bool:
    return any(group.permissions.exists() for group in groups)
