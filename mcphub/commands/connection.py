"""`mcphub connection`: connections from a client's configuration, the list of known servers, or a registry."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcphub.commands import connection_trial, rows
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import Stop, migrated_database

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from tools_catalog.models import LaunchProfile, McpConnection


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(
        metavar="list|show|test|enable|disable|remove", required=True, title="verbs", dest="verb"
    )
    listed = verbs.add_parser("list", help="name the connections, with what each serves and how it stands")
    listed.add_argument("--json", action="store_true", help="as JSON")
    rows.declare_show(verbs, KIND)
    test = verbs.add_parser("test", help="connect, list what it offers, disconnect; status 1 if a step fails")
    rows.completes(test.add_argument("name", metavar="NAME", nargs="+", help="name of the connection"), KIND)
    test.add_argument("--approve", action="store_true", help="serve what it offers now and what waits for a decision")
    test.add_argument("--json", action="store_true", help="as JSON")
    for verb, does in (("enable", "serve its approved tools again"), ("disable", "serve nothing of it")):
        rows.declare_deed(verbs, KIND, verb, does)
    gone = "remove it, and the launch profile of its name; refused if anything of it was ever approved"
    rows.declare_deed(verbs, KIND, "remove", gone)


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        if options.verb == "list":
            return _list(options.json)
        if options.verb == "show":
            return rows.show_row(KIND, options)
        if options.verb == "test":
            return connection_trial.try_out(_named(options.name), approve=options.approve, as_json=options.json)
        if options.verb == "remove":
            return _remove(options)
        return _switch(options)


def _list(as_json: bool) -> int:
    from django.db.models import Count, Q

    from tools_catalog.models import McpConnection

    count = {
        state: Count("tools", filter=Q(tools__state=state), distinct=True) for state in ("approved", "new", "changed")
    }
    found: Any = McpConnection.objects.with_status().select_related("profile").annotate(**count).order_by("slug")
    told = [
        {
            "name": row.slug,
            "transport": row.transport,
            "reaches": row.url or f"profile {row.profile}",
            "enabled": row.enabled,
            "status": row.status,
            "reconnects": row.reconnects,
            "reconnected_at": row.reconnected_at.isoformat() if row.reconnected_at else None,
            "served": row.approved,
            "waiting": row.new + row.changed,
        }
        for row in found
    ]
    if as_json:
        print(json.dumps(told, indent=2, ensure_ascii=False))
        return 0
    for each in told:
        state = each["status"] if each["enabled"] else "disabled"
        if state == "connected" and each["reconnects"]:
            last = f", last at {each['reconnected_at'][:19]}Z" if each["reconnected_at"] else ""
            state += f", reconnected {each['reconnects']}×{last}"
        print(f"{each['name']}\t{state}\t{each['served']} served, {each['waiting']} waiting\t{each['reaches']}")
    if not told:
        print("There is no connection. `mcphub connection import FILE` brings what a client has configured.")
    return 0


def _switch(options: argparse.Namespace) -> int:
    found = _named(options.name)
    changed = []
    for row in found:
        changed.append(row.enabled != (options.verb == "enable"))
        row.enabled = options.verb == "enable"
        row.change_reason = options.reason[:300]
        row.full_clean()
        row.save(update_fields=["enabled", "updated_at"])
    word = f"is {options.verb}d"
    return rows.tell(KIND, found, changed, options, done=word, before=word)


def _remove(options: argparse.Namespace) -> int:
    from django.db import transaction

    from tools_catalog.models import Secret

    found = _named(options.name)
    for row in found:
        if row.tools.exclude(approved_digest="").exists():
            raise Stop(
                f"mcphub connection remove: {row.slug} has tools that were approved, and the audit names them. "
                f"Disable it: mcphub connection disable {row.slug}"
            )
        rows.keep_used(f"connection remove: {row.slug}", row)
    for row in found:
        row.change_reason = options.reason[:300]
        with transaction.atomic():
            row.delete()
            profile = _unused_profile(row)
            if profile is not None:
                profile.change_reason = options.reason[:300]
                profile.delete()
        print(f"{row.slug} is removed{', and its launch profile' if profile else ''}.")
        if kept := list(Secret.objects.filter(name__startswith=f"{row.slug}.").values_list("name", flat=True)):
            print(f"Its secrets are kept: {', '.join(kept)}. `mcphub secrets remove NAME` removes one.")
    return 0


def _unused_profile(row: McpConnection) -> LaunchProfile | None:
    """Return the launch profile that was made with a connection, if no other connection runs it."""
    profile = row.profile
    if profile is None or profile.name != row.slug or profile.connections.exists():
        return None
    return profile


def _named(names: list[str]) -> list[McpConnection]:
    # A name that is not there was status 2 in 1.0, and exit statuses stay within a major version.
    return rows.named(KIND, names, status=2)


def _connections() -> QuerySet[Any]:
    from tools_catalog.models import McpConnection

    found = McpConnection.objects.select_related("profile", "identity").prefetch_related("groups", "links", "tools")
    return found.order_by("slug")


def _told(row: Any) -> Mapping[str, Any]:
    from tools_catalog.rest.connections import ConnectionSerializer

    return dict(ConnectionSerializer(row).data)


KIND = RowKind(
    command="connection",
    noun="connection",
    nouns="connections",
    key="slug",
    rows=_connections,
    told=_told,
    line=lambda told: [told["slug"]],
    none="There is no connection.",
)
"""Of `show` and the switches; `list` has lines and JSON of its own."""
