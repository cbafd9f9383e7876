"""`mcphub writes`: stops all writes, allows them again, and shows what is stopped."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mcphub.commands import rows
from mcphub.commands.stop import Stop, migrated_database
from mcphub.commands.workspace import KIND as WORKSPACES

if TYPE_CHECKING:
    from mcphub.features.writes.models import WriteStop
    from sessions_app.models import McpWorkspace


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="stop|allow|show", required=True, title="verbs", dest="verb")
    stop = verbs.add_parser("stop", help="refuse all calls of tools that are not read-only, from now on")
    stop.add_argument("--reason", required=True, metavar="WORDS", help="callers and operators read it")
    allow = verbs.add_parser("allow", help="end a stop")
    allow.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")
    shown = verbs.add_parser("show", help="list the stops in force")
    for each in (stop, allow):
        rows.completes(
            each.add_argument("--workspace", metavar="NAME", help="of this workspace only; without it, of everybody"),
            WORKSPACES,
        )
    for each in (stop, allow, shown):
        each.add_argument("--json", action="store_true", help="as JSON")


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        return {"stop": _stop, "allow": _allow, "show": _show}[options.verb](options)


def _stop(options: argparse.Namespace) -> int:
    from mcphub.features.writes.models import WriteStop

    row, is_new = WriteStop.objects.stop(_workspace(options), options.reason)
    if options.json:
        return _print([row])
    if not is_new:
        print("They were stopped before; nothing changed.")
    rows.print_line([_words(row)])
    return 0


def _allow(options: argparse.Namespace) -> int:
    from mcphub.features.writes.models import WriteStop

    workspace = _workspace(options)
    row = WriteStop.objects.in_force().filter(workspace=workspace).first()
    if row is None:
        raise Stop(
            f"mcphub writes allow: writes are not stopped {_for(workspace)}. `mcphub writes show` lists the stops in "
            "force."
        )
    row.allow(options.reason)
    if options.json:
        return _print([row])
    still = WriteStop.objects.in_force().filter(workspace=None).first() if workspace is not None else None
    print("This stop is over." if still is None else "This stop is over, but writes are still stopped for everybody.")
    return 0


def _show(options: argparse.Namespace) -> int:
    from mcphub.features.writes.models import WriteStop

    found = list(WriteStop.objects.in_force())
    if options.json:
        return _print(found)
    for row in found:
        rows.print_line([_words(row)])
    if not found:
        print("Writes are allowed.")
    return 0


def _words(row: WriteStop) -> str:
    return f"{row.where} Since {row.stopped_at:%Y-%m-%d %H:%M:%S} UTC, by {row.stopped_by}: {row.reason}"


def _for(workspace: McpWorkspace | None) -> str:
    return "for everybody" if workspace is None else f"in {workspace.slug} alone"


def _print(found: list[WriteStop]) -> int:
    from mcphub.features.writes.rest import WriteStopSerializer

    return rows.print_json([dict(WriteStopSerializer(row).data) for row in found])


def _workspace(options: argparse.Namespace) -> McpWorkspace | None:
    if options.workspace is None:
        return None
    found: McpWorkspace = rows.named(WORKSPACES, [options.workspace])[0]
    return found
