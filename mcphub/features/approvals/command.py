"""`mcphub approval`: calls that wait for a yes, decided by whoever runs this machine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import Stop, migrated_database

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from mcphub.features.approvals.models import McpApproval


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="list|show|approve|deny", required=True, title="verbs", dest="verb")
    listed = verbs.add_parser("list", help="name the calls that wait for a decision")
    listed.add_argument("--all", action="store_true", help="the last 100, also those that are decided")
    rows.declare_show(verbs, KIND)
    approve = verbs.add_parser("approve", help="let a call be made once; status 1 where that is refused")
    approve.add_argument("--arguments", metavar="JSON", help="call with these arguments in place of those asked for")
    approve.add_argument(
        "--grant", choices=["hour", "session"], help="and ask no more of this caller and tool for so long"
    )
    deny = verbs.add_parser("deny", help="refuse a call; the caller is told the reason")
    for verb in (approve, deny):
        rows.completes(verb.add_argument("id", metavar="ID", nargs="+", help="id of the approval"), KIND)
        verb.add_argument("--reason", default="", metavar="WORDS", help="kept on record")
    for verb in (listed, approve, deny):
        verb.add_argument("--json", action="store_true", help="as JSON")


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        if options.verb == "show":
            return rows.show_row(KIND, options)
        return _list(options) if options.verb == "list" else _decide(options)


def _list(options: argparse.Namespace) -> int:
    from django.utils import timezone

    from mcphub.features.approvals import asking
    from mcphub.features.approvals.models import McpApproval

    asked = McpApproval.objects.order_by("-created_at")
    found = list(asked[:100] if options.all else asking.still_open(asked, timezone.now())[:100])
    _print(found, as_json=options.json)
    if not found and not options.json:
        print("No call waits for an approval.")
    return 0


def _decide(options: argparse.Namespace) -> int:
    from invocations.redaction import load
    from invocations.redaction.records import RecordRedaction
    from mcphub.features.approvals import deciding
    from mcphub.features.approvals.models import McpApproval
    from sessions_app.caller import local_caller
    from sessions_app.history import events

    is_yes = options.verb == "approve"
    who = deciding.Decider(*events.on_the_machine(), credential=local_caller().principal, is_superuser=True)
    decision = deciding.Decision(
        approve=is_yes,
        reason=options.reason,
        arguments=_arguments(options.arguments) if is_yes and options.arguments else None,
        grant=(options.grant or "") if is_yes else "",
    )
    record, done, failed = RecordRedaction(load.load()), [], 0
    for id_ in options.id:
        row = McpApproval.objects.filter(pk=id_).first()
        if row is None:
            raise rows.missing(KIND, id_)
        try:
            done.append(deciding.decide(row, decision, who, record))
        except deciding.DecisionRefused as error:
            failed = 1
            if not options.json:
                print(error)
            else:
                done.append(row)
    _print(done, as_json=options.json)
    return failed


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Stop(f"--arguments is no JSON: {error}.") from error
    if not isinstance(value, dict):
        raise Stop("--arguments must be a JSON object of arguments by name.")
    return value


def _told(row: McpApproval) -> Mapping[str, Any]:
    return {
        "id": row.pk,
        "status": row.status,
        "tool": row.tool_name,
        "caller": row.caller_label,
        "principal": row.principal,
        "transport": row.transport,
        "arguments": row.arguments,
        "edited": row.edited,
        "effects": row.effects,
        "rule": row.rule,
        "given": row.given,
        "needed": row.needed,
        "reason": row.reason,
        "decided_by": row.decided_by,
        "expires_at": row.expires_at.isoformat(timespec="seconds"),
    }


def _print(found: list[McpApproval], *, as_json: bool) -> None:
    shown = [_told(row) for row in found]
    if as_json:
        print(json.dumps(shown, indent=2))
        return
    for each in shown:
        print(f"{each['id']}  {each['status']:<8}  {each['tool']}  {each['caller']}  until {each['expires_at']}")
        print(f"    {json.dumps(each['arguments'])[:300]}")


def _approvals() -> QuerySet[Any]:
    from mcphub.features.approvals.models import McpApproval

    return McpApproval.objects.order_by("-created_at")


KIND = RowKind(
    command="approval",
    noun="approval",
    nouns="approvals",
    key="pk",
    rows=_approvals,
    told=_told,
    line=lambda told: [told["id"]],
    none="No call waits for an approval.",
    metavar="ID",
)
"""Of `show`; `list` has lines of its own."""
