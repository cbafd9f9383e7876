"""`mcphub person`: people of the hub, listed, shown, disabled, enabled, and the end of all their access."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import migrated_database

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.db.models import QuerySet


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="list|show|enable|disable|end", required=True, title="verbs", dest="verb")
    listed = rows.declare_list(verbs, KIND)
    listed.add_argument("--disabled", action="store_true", help="only those who may not come in")
    rows.declare_show(verbs, KIND)
    rows.declare_deed(verbs, KIND, "enable", "let people log in again; what ended stays ended")
    rows.declare_deed(verbs, KIND, "disable", "let people in no more; revoke their keys, tokens and logins for good")
    rows.declare_deed(verbs, KIND, "end", "revoke keys, tokens and logins for good of people who may log in again")


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        if options.verb == "show":
            return rows.show_row(replace(KIND, told=_whole), options)
        if options.verb != "list":
            return _end(options) if options.verb == "end" else _switch(options)
        found = _people()
        return rows.list_rows(KIND, options, found.filter(is_active=False) if options.disabled else found)


def _switch(options: argparse.Namespace) -> int:
    from mcphub.ending import is_last_superuser

    people, wanted = rows.named(KIND, options.name), options.verb == "enable"
    changed, done = [], []
    for person in people:
        if not wanted and is_last_superuser(person):
            name = rows.plain(person.get_username())
            print(f"{name} is the last superuser who can log in. Make another one first.", file=sys.stderr)
            continue
        changed.append(person.is_active != wanted)
        done.append(person)
        if person.is_active != wanted:
            person.is_active = wanted
            person.change_reason = options.reason[:500]
            person.save(update_fields=["is_active"])
    rows.tell(KIND, done, changed, options, done=f"is {options.verb}d", before=f"was {options.verb}d before")
    return 0 if len(done) == len(people) else 1


def _end(options: argparse.Namespace) -> int:
    from mcphub import ending

    people = rows.named(KIND, options.name)
    for person in people:
        ending.end_all(person, options.reason or "ended on the command line")
    return rows.tell(KIND, people, [True] * len(people), options, done="has no access open any more", before="")


def _people() -> QuerySet[Any]:
    from django.contrib.auth import get_user_model

    user = get_user_model()
    return user._default_manager.prefetch_related("groups").order_by(user.USERNAME_FIELD)


def _told(row: User) -> Mapping[str, Any]:
    return {
        "name": row.get_username(),
        "full_name": row.get_full_name() if hasattr(row, "get_full_name") else "",
        "email": getattr(row, row.get_email_field_name(), ""),
        "principal": f"user:{row.pk}",
        "state": "active" if row.is_active else "disabled",
        "superuser": row.is_superuser,
        "console": row.is_active and getattr(row, "is_staff", False),
        "groups": sorted(group.name for group in row.groups.all()),
        "last_login": row.last_login.isoformat() if row.last_login else None,
    }


def _whole(row: User) -> Mapping[str, Any]:
    """Return a person with everything open in their name: for one only, as each login of the hub is read for it."""
    from sessions_app.login import open_logins
    from sessions_app.models import ApiKey, McpSession

    told = _told(row)
    return {
        **told,
        "keys": ApiKey.objects.filter(owner=row, revoked_at=None).count(),
        "sessions": McpSession.objects.live().filter(principal=told["principal"], is_implicit=False).count(),
        "logins": len(open_logins.of(row)),
    }


def _line(told: Mapping[str, Any]) -> list[object]:
    role = "superuser" if told["superuser"] else ", ".join(told["groups"]) or "-"
    return [told["name"], told["state"], role, told["last_login"] or "never logged in", told["full_name"]]


KIND = RowKind(
    command="person",
    noun="person",
    nouns="people",
    key="USERNAME_FIELD",
    rows=_people,
    told=_told,
    line=_line,
    none="There is no such person. `mcphub createsuperuser` makes one.",
)
