"""`mcphub token`: API keys made, listed, shown, rotated and revoked. A running hub knows each change within 250 ms."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import Stop, fills, migrated_database, start_django

if TYPE_CHECKING:
    from django.contrib.auth.models import Group, User
    from django.db.models import QuerySet

    from sessions_app.models import ApiKey, McpWorkspace

_SCOPES = (
    "tools:list",
    "tools:call",
    "audit:read",
    "chat",
    "catalog:write",
    "calls:replay",
    "keys:write",
    "people:write",
)
_DEFAULT = _SCOPES[:2]


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(
        metavar="create|list|show|rotate|revoke|accountable", required=True, title="verbs", dest="verb"
    )
    create = verbs.add_parser("create", help="make a key and print it on the last line")
    create.add_argument("name", metavar="NAME", help="who or what will hold the key")
    scope = create.add_argument(
        "--scope",
        action="append",
        type=_scope,
        metavar="SCOPE",
        help=f"what the key may do, repeated for more: {', '.join(_SCOPES)} (default: {', '.join(_DEFAULT)})",
    )
    fills(scope, "scopes")
    whose = create.add_mutually_exclusive_group()
    whose.add_argument("--owner", metavar="PERSON", help="user name of whom the key's calls are in the name")
    whose.add_argument("--service", default="", metavar="NAME", help="the service account that the key is for")
    create.add_argument(
        "--accountable",
        action="append",
        default=[],
        metavar="PERSON",
        help="user name of who answers for the key, and so confirms and approves nothing of it; repeated for more",
    )
    create.add_argument(
        "--workspace",
        default="",
        metavar="NAME",
        help="whose tools it sees, beside those of everybody; no other workspace's",
    )
    group = create.add_argument(
        "--group", action="append", default=[], metavar="GROUP", help="whose tools it sees; repeated for more"
    )
    fills(group, "groups")
    expires = create.add_argument(
        "--expires",
        type=_days,
        metavar="DAYS",
        help="days until it stops working, or `never` (default: the limit key_days, 365)",
    )
    fills(expires, "expires_at")
    listed = verbs.add_parser("list", help="name the keys by their prefixes, without their texts")
    listed.add_argument("--json", action="store_true", help="as JSON")
    show = verbs.add_parser("show", help="print all of one key but its text")
    rows.completes(show.add_argument("prefix", metavar="PREFIX", help="what the key begins with"), KIND)
    rotate = verbs.add_parser("rotate", help="give a key a new text and print it on the last line")
    which = "what the key begins with, such as mcph_1a2b3c4d"
    rows.completes(rotate.add_argument("prefix", metavar="PREFIX", help=which), KIND)
    rotate.add_argument(
        "--overlap", type=_hours, default=0, metavar="HOURS", help="how long the old text works as well (0)"
    )
    revoke = verbs.add_parser("revoke", help="end keys for good")
    rows.completes(revoke.add_argument("prefix", metavar="PREFIX", nargs="+", help="what the key begins with"), KIND)
    accountable = verbs.add_parser(
        "accountable",
        help="name the people who answer for a key: they confirm and approve nothing of it, one other person does",
    )
    rows.completes(accountable.add_argument("prefix", metavar="PREFIX", help="what the key begins with"), KIND)
    accountable.add_argument("people", metavar="PERSON", nargs="+", help="user names, in place of those before")
    for verb in (rotate, revoke, accountable):
        verb.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")
    for verb in (create, show, rotate, revoke, accountable):
        verb.add_argument("--json", action="store_true", help="as JSON; a new text is its member `text`")


def run(options: argparse.Namespace) -> int:
    start_django()
    if options.verb == "create":
        return _create(options)
    with migrated_database():
        if options.verb == "list":
            return _list(options)
        if options.verb == "show":
            options.name = _prefix(options.prefix)
            return rows.show_row(KIND, options)
        verbs = {"rotate": _rotate, "revoke": _revoke, "accountable": _name_accountable}
        return verbs[options.verb](options)


def _list(options: argparse.Namespace) -> int:
    return rows.list_rows(KIND, options)


def _keys() -> QuerySet[Any]:
    from sessions_app.models import ApiKey

    return ApiKey.objects.select_related("owner", "workspace").prefetch_related("groups").order_by("pk")


def _told(key: Any) -> Mapping[str, Any]:
    from sessions_app import accountable

    return {
        "prefix": key.prefix,
        "name": key.name,
        "owner": key.owner.get_username() if key.owner is not None else None,
        "service": key.service or None,
        "principal": key.principal,
        "accountable": accountable.names_of(key.credential),
        "scopes": key.scopes,
        "groups": [group.name for group in key.groups.all()],
        "workspace": key.workspace.slug if key.workspace is not None else None,
        "state": _state(key),
        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
        "last_used_at": key.last_used_at.isoformat() if key.last_used_at else None,
    }


def _line(told: Mapping[str, Any]) -> list[object]:
    ends = told["expires_at"][:10] if told["expires_at"] else "no end"
    whose = told["owner"] or told["service"] or "-"
    return [told["prefix"], told["state"], ends, whose, ",".join(told["scopes"]), told["name"]]


def _state(key: ApiKey) -> str:
    if key.revoked_at:
        return "revoked"
    if key.owner is not None and not key.owner.is_active:
        return "disabled"
    return "valid" if key.is_usable() else "expired"


def _rotate(options: argparse.Namespace) -> int:
    from datetime import timedelta

    key = _found(options.prefix)
    if key.revoked_at is not None:
        raise Stop(f"mcphub token rotate: {key.prefix} was revoked; make another key.", status=2)
    key.change_reason = options.reason[:300] or "rotated"
    text = key.rotate(timedelta(hours=options.overlap))
    if options.json:
        return rows.print_json({**_told(key), "text": text})
    until = f"works for {options.overlap} more hours" if options.overlap else "no longer works"
    print(f"{key.name}: the old text {until}. The new one is shown only now:", file=sys.stderr)
    print(text)
    return 0


def _revoke(options: argparse.Namespace) -> int:
    from sessions_app.models import ApiKey

    told = []
    for prefix in options.prefix:
        key = _found(prefix)
        done = ApiKey.objects.filter(pk=key.pk).revoke(options.reason[:300])
        told.append(_told(_found(prefix)))
        if not options.json:
            print(f"{key.prefix} ({key.name}) {'is revoked' if done else 'was revoked before'}.")
    return rows.print_json(told) if options.json else 0


def _name_accountable(options: argparse.Namespace) -> int:
    key, people = _found(options.prefix), [_person(name) for name in options.people]
    key.accountable = [person.get_username() for person in people if person is not None]
    key.change_reason = options.reason[:300]
    key.save()
    if options.json:
        return rows.print_json(_told(key))
    print(f"{key.prefix} ({key.name}): {', '.join(key.accountable)} answers for it.")
    return 0


def _found(prefix: str) -> ApiKey:
    # A prefix that is not there was status 2 in 1.0, and exit statuses stay within a major version.
    key: ApiKey = rows.named(KIND, [_prefix(prefix)], status=2)[0]
    return key


def _prefix(text: str) -> str:
    """Return a key's prefix; a whole key is accepted, and its secret appears in no message."""
    return "_".join(text.split("_")[:2])[:16]


def _create(options: argparse.Namespace) -> int:
    from datetime import timedelta

    from django.utils import timezone

    from sessions_app import accountable
    from sessions_app.keys import making
    from sessions_app.models import ApiKey

    scopes = list(dict.fromkeys(options.scope or _DEFAULT))
    with migrated_database():
        until = making.default_end()
        if options.expires is not None:
            until = timezone.now() + timedelta(days=options.expires) if options.expires else None
        owner, groups = _person(options.owner), _groups(options.group)
        people = [_person(name) for name in options.accountable]
        making.refuse(None, owner=owner, scopes=scopes, groups=groups)
        key, token = ApiKey.issue(
            options.name.strip(),
            scopes=scopes,
            groups=groups,
            owner=owner,
            service=options.service.strip(),
            workspace=_workspace(options.workspace),
            expires_at=until,
        )
        if people:
            accountable.name(key.credential, {person.pk for person in (owner, *people) if person is not None})
    if options.json:
        return rows.print_json({**_told(key), "text": token})
    print(f"{key.name}: {', '.join(key.scopes)}, {_until(until)}. It is shown only now:", file=sys.stderr)
    print(token)
    return 0


def _person(name: str | None) -> User | None:
    from mcphub.commands.person import KIND

    return None if name is None else rows.named(KIND, [name], status=2, by="token create")[0]


def _workspace(name: str) -> McpWorkspace | None:
    from mcphub.commands.workspace import KIND

    return rows.named(KIND, [name], status=2)[0] if name else None


def _groups(names: list[str]) -> list[Group]:
    from django.contrib.auth.models import Group

    found = list(Group.objects.filter(name__in=names))
    if missing := sorted(set(names) - {group.name for group in found}):
        raise Stop(f"mcphub token create: there is no group {', '.join(missing)}.", status=2)
    return found


def _until(moment: object) -> str:
    return f"until {moment:%Y-%m-%d %H:%M} UTC" if moment else "without an expiry date"


def _scope(text: str) -> str:
    if text not in _SCOPES:
        raise argparse.ArgumentTypeError(f"there is no scope {text!r}; the scopes are {', '.join(_SCOPES)}")
    return text


def _hours(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,4}", text) or int(text) > 168:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours, 0 to 168")
    return int(text)


def _days(text: str) -> int:
    if text == "never":
        return 0
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of days, 1 or more, nor `never`")
    return int(text)


KIND = RowKind(
    command="token",
    noun="key",
    nouns="keys",
    key="prefix",
    rows=_keys,
    told=_told,
    line=_line,
    none="There is no key. `mcphub token create NAME` makes one.",
    metavar="PREFIX",
)
