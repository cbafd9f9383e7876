"""`mcphub error`: groups of errors, listed and decided by whoever runs this machine."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from mcphub.commands.stop import Stop, migrated_database

if TYPE_CHECKING:
    from mcphub.features.error_groups.models import ErrorGroup

_LARGEST = 2**63 - 1


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="list|mute|resolve|reopen", required=True, title="verbs", dest="verb")
    listed = verbs.add_parser("list", help="name the open groups of errors, last seen first")
    listed.add_argument("--all", action="store_true", help="also those that are muted or resolved")
    listed.add_argument("--tool", metavar="NAME", default="", help="of this tool only")
    mute = verbs.add_parser("mute", help="count errors of a group without listing it as open")
    resolve = verbs.add_parser("resolve", help="say that a group is over; the next error opens it again")
    reopen = verbs.add_parser("reopen", help="open a group again")
    for verb in (mute, resolve, reopen):
        verb.add_argument("number", metavar="NUMBER", type=int, nargs="+", help="number of the group")
        verb.add_argument("--reason", default="", metavar="WORDS", help="kept on record")
    for verb in (listed, mute, resolve, reopen):
        verb.add_argument("--json", action="store_true", help="as JSON")


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        return _list(options) if options.verb == "list" else _judge(options)


def _list(options: argparse.Namespace) -> int:
    from mcphub.features.error_groups.models import ErrorGroup

    rows = ErrorGroup.objects.order_by("-last_at", "-id")
    rows = rows if options.all else rows.filter(state=ErrorGroup.State.OPEN)
    found = list((rows.filter(tool_name=options.tool) if options.tool else rows)[:100])
    _print(found, as_json=options.json)
    if not found and not options.json:
        print("There is no such group of errors.")
    return 0


def _judge(options: argparse.Namespace) -> int:
    from mcphub.features.error_groups.judging import judge
    from mcphub.features.error_groups.models import ErrorGroup
    from sessions_app.history import events

    numbers = [number for number in options.number if 0 < number <= _LARGEST]
    groups = list(ErrorGroup.objects.filter(pk__in=numbers))
    missing = sorted(set(options.number) - {group.pk for group in groups})
    if missing:
        words = ", ".join(map(str, missing))
        raise Stop(f"There is no group {words}. `mcphub error list --all` names them.")
    for group in groups:
        judge(group, options.verb, events.on_the_machine(), options.reason)
    _print(groups, as_json=options.json)
    return 0


def _print(groups: list[ErrorGroup], *, as_json: bool) -> None:
    shown = [
        {
            "id": group.pk,
            "state": group.state,
            "tool": group.tool_name,
            "code": group.error_code,
            "message": group.message,
            "calls": group.calls,
            "callers": len(group.callers),
            "first_at": group.first_at.isoformat(timespec="seconds"),
            "last_at": group.last_at.isoformat(timespec="seconds"),
        }
        for group in groups
    ]
    if as_json:
        print(json.dumps(shown, indent=2))
        return
    for each in shown:
        head = f"{each['id']:>6}  {each['state']:<8}  {each['calls']:>8}"
        print(f"{head}  {each['tool'] or '-'}  {each['code']}  {each['last_at']}")
        print(f"        {each['message']}")
