"""`mcphub group`: groups of people, which are roles in the console and decide about who sees which tools."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.person import KIND as PEOPLE
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import Stop, migrated_database

if TYPE_CHECKING:
    from django.contrib.auth.models import Group, Permission, User
    from django.db.models import QuerySet


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(
        metavar="list|show|create|add-person|remove-person|remove", required=True, title="verbs", dest="verb"
    )
    rows.declare_list(verbs, KIND)
    rows.declare_show(verbs, KIND)
    create = verbs.add_parser("create", help="create a group, without people")
    create.add_argument("name", metavar="NAME", help="name of the group")
    create.add_argument(
        "--permission",
        action="append",
        default=[],
        metavar="CODE",
        help="a permission of its people, such as invocations.view_mcptoolinvocation; repeated for more",
    )
    for verb, words in (("add-person", "put people into a group"), ("remove-person", "take people out of a group")):
        each = verbs.add_parser(verb, help=words)
        rows.completes(each.add_argument("name", metavar="GROUP", help="which group"), KIND)
        people = each.add_argument("people", metavar="PERSON", nargs="+", help="user names")
        rows.completes(people, PEOPLE)
        each.add_argument("--json", action="store_true", help="as JSON")
        each.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")
    create.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")
    create.add_argument("--json", action="store_true", help="as JSON")
    rows.declare_deed(
        verbs, KIND, "remove", "delete groups; refused while something is reserved to one, which would be open to all"
    )


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        if options.verb == "list":
            return rows.list_rows(KIND, options)
        if options.verb == "show":
            return rows.show_row(replace(KIND, told=_whole), options)
        if options.verb == "create":
            return _create(options)
        return rows.remove(KIND, options, _delete) if options.verb == "remove" else _move(options)


def _create(options: argparse.Namespace) -> int:
    from django.contrib.auth.models import Group
    from django.db import transaction

    row: Any = Group(name=options.name.strip())
    permissions = [_permission(code) for code in options.permission]
    row.change_reason = options.reason[:300]
    row.full_clean()
    with transaction.atomic():
        row.save()
        row.permissions.set(permissions)
    return rows.tell(KIND, [row], [True], options, done="is created", before="")


def _move(options: argparse.Namespace) -> int:
    """Put people into a group, or take them out: all of them or none."""
    from django.db import transaction

    from mcphub.console_access import keep_console

    group = rows.named(KIND, [options.name])[0]
    people = rows.named(PEOPLE, options.people, by="group")
    is_added = options.verb == "add-person"
    changed = []
    with transaction.atomic():
        for person in people:
            is_in = group in person.groups.all()
            changed.append(is_in != is_added)
            if is_in == is_added:
                continue
            person.change_reason = options.reason[:300]
            if is_added:
                person.groups.add(group)
            else:
                person.groups.remove(group)
            keep_console(person, given=[group] if is_added else [], lost=[] if is_added else [group])
    _warn(people)
    if options.json:
        return rows.print_json(_whole(KIND.rows().get(pk=group.pk)))
    name = rows.plain(group.name)
    done, before = (
        (f"is in {name} now", f"was in {name} before") if is_added else (f"has left {name}", f"was not in {name}")
    )
    return rows.tell(PEOPLE, people, changed, options, done=done, before=before)


def _warn(people: list[User]) -> None:
    for person in people:
        if getattr(person, "provisioned", None) is not None:
            name = rows.plain(person.get_username())
            print(f"A directory keeps the account {name}, and writes over what is changed here.", file=sys.stderr)


def _delete(row: Group) -> None:
    from django.db.models import ProtectedError

    from mcphub.rest.groups import reserved_to

    try:
        row.delete()
    except ProtectedError as error:
        raise Stop(f"mcphub group remove: {rows.plain(row.name)} stays. {reserved_to(error)}") from None


def _permission(code: str) -> Permission:
    from django.contrib.auth.models import Permission

    app, _, codename = code.partition(".")
    found = Permission.objects.filter(content_type__app_label=app, codename=codename).first()
    if found is None:
        known = Permission.objects.values_list("content_type__app_label", "codename")
        near = rows.nearest(code, (f"{label}.{name}" for label, name in known))
        hint = f" The nearest: {', '.join(near)}." if near else ""
        raise Stop(
            f"mcphub group create: there is no permission {rows.plain(code)!r}.{hint} `mcphub group show Operator` "
            "prints those of a role that ships."
        )
    return found


def _rows() -> QuerySet[Any]:
    from mcphub.rest.groups import GroupViewSet

    return GroupViewSet.queryset.order_by("name")


def _told(row: Group) -> Mapping[str, Any]:
    from mcphub.rest.groups import PeopleGroupSerializer

    return dict(PeopleGroupSerializer(row).data)


def _whole(row: Group) -> Mapping[str, Any]:
    """Return a group with the names of its people: for one only, as they may be many."""
    return {**_told(row), "members": sorted(row.user_set.values_list(row.user_set.model.USERNAME_FIELD, flat=True))}


def _line(told: Mapping[str, Any]) -> list[object]:
    what = f"{len(told['permissions'])} permissions" if told["permissions"] else "no permissions"
    return [told["name"], f"people: {told['people']}", what]


KIND = RowKind(
    command="group",
    noun="group",
    nouns="groups",
    key="name",
    rows=_rows,
    told=_told,
    line=_line,
    none="There is no group. `mcphub group create NAME` creates one.",
)
