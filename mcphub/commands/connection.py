"""`mcphub connection`: connections of what a client has configured, of the list that ships, or of a registry."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from mcphub.commands import connection_bring
from mcphub.commands.stop import Stop, database_or_stop, start_django

if TYPE_CHECKING:
    from tools_catalog.models import McpConnection


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(
        metavar="import|add|known|search|list|test|enable|disable", required=True, title="verbs", dest="verb"
    )
    connection_bring.declare(verbs)
    listed = verbs.add_parser("list", help="name the connections, with what each serves and how it stands")
    listed.add_argument("--json", action="store_true", help="as JSON")
    test = verbs.add_parser("test", help="connect, list what it offers, disconnect; status 1 if a step fails")
    test.add_argument("name", metavar="NAME", nargs="+", help="name of the connection")
    test.add_argument("--approve", action="store_true", help="serve what it offers now and what waits for a decision")
    for verb, does in (("enable", "serve its approved tools again"), ("disable", "serve nothing of it")):
        switch = verbs.add_parser(verb, help=does)
        switch.add_argument("name", metavar="NAME", nargs="+", help="name of the connection")
        switch.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")


def run(options: argparse.Namespace) -> int:
    start_django()
    from mcphub.process import first_run

    with database_or_stop():
        first_run.migrate()
        if options.verb == "list":
            return _list(options.json)
        if options.verb == "test":
            return connection_bring.try_out(_rows(options.name), approve=options.approve)
        if options.verb in ("enable", "disable"):
            return _switch(options)
        return connection_bring.run(options)


def _list(as_json: bool) -> int:
    from django.db.models import Count, Q

    from tools_catalog.models import McpConnection

    count = {
        state: Count("tools", filter=Q(tools__state=state), distinct=True) for state in ("approved", "new", "changed")
    }
    found: Any = McpConnection.objects.with_status().select_related("profile").annotate(**count).order_by("slug")
    rows = [
        {
            "name": row.slug,
            "transport": row.transport,
            "reaches": row.url or f"profile {row.profile}",
            "enabled": row.enabled,
            "status": row.status,
            "served": row.approved,
            "waiting": row.new + row.changed,
        }
        for row in found
    ]
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    for row in rows:
        state = row["status"] if row["enabled"] else "disabled"
        print(f"{row['name']}\t{state}\t{row['served']} served, {row['waiting']} waiting\t{row['reaches']}")
    if not rows:
        print("There is no connection. `mcphub connection import FILE` brings what a client has configured.")
    return 0


def _switch(options: argparse.Namespace) -> int:
    for row in _rows(options.name):
        row.enabled = options.verb == "enable"
        row.change_reason = options.reason[:300]
        row.full_clean()
        row.save(update_fields=["enabled", "updated_at"])
        print(f"{row.slug} is {options.verb}d.")
    return 0


def _rows(names: list[str]) -> list[McpConnection]:
    from tools_catalog.models import McpConnection

    found = {row.slug: row for row in McpConnection.objects.filter(slug__in=names).select_related("profile")}
    if missing := [name for name in names if name not in found]:
        known = ", ".join(McpConnection.objects.values_list("slug", flat=True)[:50]) or "none"
        raise Stop(f"mcphub connection: there is no connection {missing[0]!r}. Connections: {known}.", status=2)
    return [found[name] for name in dict.fromkeys(names)]
