"""`mcphub workspace`: teams of the hub, listed, shown, created, and their groups."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import Stop, fills, migrated_database
from sessions_app.workspaces.belonging import ROLES

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from sessions_app.models import McpWorkspace


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="list|show|make|set", required=True, title="verbs", dest="verb")
    rows.declare_list(verbs, KIND)
    rows.declare_show(verbs, KIND)
    make = verbs.add_parser("make", help="make a workspace")
    fills(make.add_argument("name", metavar="NAME", help="a part of its address, /w/NAME/mcp; it stays"), "slug")
    setting = verbs.add_parser("set", help="say whose groups belong to a workspace in which role")
    rows.completes(setting.add_argument("name", metavar="NAME", help="which workspace"), KIND)
    for each in (make, setting):
        each.add_argument("--title", metavar="WORDS", help="what people call it")
        for role in ROLES:
            each.add_argument(
                f"--{role}", action="append", metavar="GROUP", help=f"a group of its {role}; may be given several times"
            )
        each.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")
        each.add_argument("--json", action="store_true", help="as JSON")


def run(options: argparse.Namespace) -> int:
    if options.verb in ("list", "show"):
        return rows.do(KIND, options)
    with migrated_database():
        return _write(options)


def _write(options: argparse.Namespace) -> int:
    from django.db import transaction

    from sessions_app.models import McpWorkspace

    groups = {role: _groups(names) for role in ROLES if (names := getattr(options, role)) is not None}
    is_new = options.verb == "make"
    row = McpWorkspace(slug=options.name) if is_new else rows.named(KIND, [options.name])[0]
    if options.title is not None:
        row.title = options.title
    row.change_reason = options.reason[:500]
    row.full_clean()
    with transaction.atomic():
        row.save()
        for role, found in groups.items():
            getattr(row, role).set(found)
    return rows.tell(KIND, [row], [True], options, done="is made" if is_new else "is changed", before="")


def _groups(names: list[str]) -> list[Any]:
    from django.contrib.auth.models import Group

    found = {group.name: group for group in Group.objects.filter(name__in=names)}
    for name in names:
        if name and name not in found:
            near = rows.nearest(name, Group.objects.values_list("name", flat=True))
            hint = f" The nearest: {', '.join(map(rows.plain, near))}." if near else ""
            raise Stop(
                f"mcphub workspace: there is no group {rows.plain(name)!r}.{hint} `mcphub group create` "
                "creates one, or a login provider or a directory brings it.",
                status=1,
            )
    return list(found.values())


def _rows() -> QuerySet[Any]:
    from sessions_app.models import McpWorkspace

    return McpWorkspace.objects.prefetch_related(*ROLES)


def _told(row: McpWorkspace) -> Mapping[str, Any]:
    return {
        "slug": row.slug,
        "path": row.path,
        "title": row.title,
        "description": row.description,
        **{role: sorted(group.name for group in getattr(row, role).all()) for role in ROLES},
        "created_at": row.created_at.isoformat(),
        "updated_at": row.updated_at.isoformat(),
    }


def _line(told: Mapping[str, Any]) -> list[object]:
    return [told["slug"], told["path"], *(f"{role}: {', '.join(told[role]) or '-'}" for role in ROLES), told["title"]]


KIND = RowKind(
    command="workspace",
    noun="workspace",
    nouns="workspaces",
    key="slug",
    rows=_rows,
    told=_told,
    line=_line,
    none="There is no workspace. `mcphub workspace make NAME --members GROUP` makes one.",
)
