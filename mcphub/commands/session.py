"""`mcphub session`: sessions of clients, listed, shown and ended. A running hub knows each end within 250 ms."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import migrated_database, start_django

if TYPE_CHECKING:
    from sessions_app.models.sessions import McpSessionQuerySet

_MOST = 100


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="list|show|end", required=True, title="verbs", dest="verb")
    listed = rows.declare_list(verbs, KIND)
    listed.add_argument("--all", action="store_true", help=f"the last {_MOST}, also those that have ended")
    listed.add_argument("--principal", default="", metavar="PRINCIPAL", help="of this caller, such as key:2 or user:1")
    rows.declare_show(verbs, KIND)
    rows.declare_deed(verbs, KIND, "end", "end sessions, with what runs in them; their clients must initialize again")


def run(options: argparse.Namespace) -> int:
    start_django()
    from sessions_app import store

    with migrated_database():
        store.expire_due()
        if options.verb == "show":
            return rows.show_row(KIND, options)
        return _list(options) if options.verb == "list" else _end(options)


def _list(options: argparse.Namespace) -> int:
    found = _sessions()
    if not options.all:
        found = found.live()
    if options.principal:
        found = found.filter(principal=options.principal)
    return rows.list_rows(KIND, options, found[:_MOST])


def _end(options: argparse.Namespace) -> int:
    from sessions_app.models import McpSession

    found = rows.named(KIND, options.name)
    reason = (options.reason or "ended on the command line")[:100]
    ended = [bool(McpSession.objects.filter(pk=row.pk).close(reason)) for row in found]
    return rows.tell(KIND, found, ended, options, done="is ended", before="had ended before")


def _sessions() -> McpSessionQuerySet:
    from sessions_app.models import McpSession

    return McpSession.objects.defer("implicit_key").order_by("-created_at", "-session_id")


def _told(row: Any) -> Mapping[str, Any]:
    from sessions_app.rest.sessions import SessionSerializer

    return dict(SessionSerializer(row).data)


def _line(told: Mapping[str, Any]) -> list[object]:
    client = f"{told['client_name']} {told['client_version']}".strip() or "-"
    return [told["session_id"], told["state"], told["transport"], client, told["principal"], told["last_activity_at"]]


KIND = RowKind(
    command="session",
    noun="session",
    nouns="sessions",
    key="session_id",
    rows=_sessions,
    told=_told,
    line=_line,
    none="There is no such session. `mcphub session list --all` names those that have ended, too.",
    metavar="ID",
)
