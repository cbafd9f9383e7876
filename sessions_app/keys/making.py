"""Permissions to create keys: one set of rules for the console, REST, `mcphub token` and own keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, Group, User
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext as _t

from sessions_app.models.keys import ApiKey, may_hold

if TYPE_CHECKING:
    from sessions_app.rest.access import KeyPrincipal

    Editor = User | AnonymousUser | KeyPrincipal

MOST_OF_PERSON = 50
"""Keys of one person that work."""


def default_end() -> datetime | None:
    """Return the default end of a new key; None if the operator wants none to end."""
    days = settings.MCPHUB_KEY_DAYS
    return (timezone.now() + timedelta(days=days)).replace(microsecond=0) if days else None


def scopes_beyond(editor: Editor, scopes: Iterable[str]) -> list[str]:
    """Return those of `scopes` that `editor`, a person or a key, lacks and so may hand to nobody."""
    key = _key_of(editor)
    if key is not None:
        return [scope for scope in scopes if scope not in key.scopes]
    return [scope for scope in scopes if not may_hold(editor, scope)]  # type: ignore[arg-type]


def groups_beyond(editor: Editor, groups: Iterable[Group]) -> list[Group]:
    """Return those of `groups` that `editor` has not, and so may hand to nobody. A superuser has all."""
    if editor.is_superuser:
        return []
    key = _key_of(editor)
    rows = editor.groups if key is None else key.held_groups()  # type: ignore[union-attr]
    own = set(rows.values_list("pk", flat=True))
    return [group for group in groups if group.pk not in own]


def may_act_for(editor: Editor, owner: User | None) -> bool:
    """Return whether `editor` may hold the text of a key that makes its calls in the name of `owner`.

    Only that person may, and a superuser: whoever has the text is that person to the hub.
    """
    if owner is None or editor.is_superuser:
        return True
    key = _key_of(editor)
    return (editor.pk if key is None else key.owner_id) == owner.pk


def refuse(editor: Editor | None, *, owner: User | None, scopes: Collection[str], groups: Collection[Group]) -> None:
    """Raise ValidationError, by field, where `editor` may not make such a key; None is whoever runs the machine."""
    problems: dict[str, Any] = {}
    if editor is not None:
        if beyond := scopes_beyond(editor, scopes):
            problems["scopes"] = _t(
                "You can't grant %(scopes)s: your own account, or your key, lacks that permission."
            ) % {"scopes": ", ".join(beyond)}
        if strange := groups_beyond(editor, groups):
            problems["groups"] = _t("You can't assign %(groups)s: you are not a member. Ask a superuser.") % {
                "groups": _names(strange)
            }
        if not may_act_for(editor, owner):
            problems["owner"] = _t("Only this person or a superuser can create a key that acts as this person.")
    if owner is not None and "owner" not in problems:
        problems = {**of_person(owner, scopes, groups), **problems}
    if problems:
        raise ValidationError(problems)


def of_person(owner: User, scopes: Collection[str], groups: Collection[Group]) -> dict[str, str]:
    """Return the reasons, by field, if the key cannot be this person's; empty otherwise."""
    problems = {}
    if not owner.is_active:
        problems["owner"] = _t("%(person)s is disabled. Enable the account first.") % {"person": owner}
    elif ApiKey.objects.usable().filter(owner=owner).count() >= MOST_OF_PERSON:
        problems["owner"] = _t("%(person)s has %(count)d keys, the maximum. Revoke one first.") % {
            "person": owner,
            "count": MOST_OF_PERSON,
        }
    if lacking := [scope for scope in scopes if not may_hold(owner, scope)]:
        problems["scopes"] = _t("The person lacks the permission for %(scopes)s.") % {"scopes": ", ".join(lacking)}
    own = set(owner.groups.values_list("pk", flat=True))
    if strange := [group for group in groups if group.pk not in own]:
        problems["groups"] = _t("The person is not in %(groups)s. Add the person to the group first.") % {
            "groups": _names(strange)
        }
    return problems


def _key_of(editor: Editor) -> ApiKey | None:
    key: ApiKey | None = getattr(editor, "key", None)
    return key


def _names(groups: Iterable[Group]) -> str:
    return ", ".join(sorted(group.name for group in groups))
