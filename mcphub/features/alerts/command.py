"""`mcphub alert`: thresholds on calls and money, listed, added with a trial on the last week, switched and removed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.connection import KIND as CONNECTIONS
from mcphub.commands.person import KIND as PEOPLE
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import Stop, fills, migrated_database
from mcphub.commands.token import KIND as KEYS
from mcphub.commands.tool import KIND as TOOLS
from mcphub.commands.workspace import KIND as WORKSPACES

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from mcphub.features.alerts.models import Alert

_SCOPES = {"tool": TOOLS, "connection": CONNECTIONS, "workspace": WORKSPACES, "person": PEOPLE, "key": KEYS}
_MEASURES = ("errors", "slow", "quiet", "spend")


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(
        metavar="list|show|add|preview|enable|disable|remove", required=True, title="verbs", dest="verb"
    )
    rows.declare_list(verbs, KIND)
    rows.declare_show(verbs, KIND)
    add = verbs.add_parser("add", help="add an alert, and print how often it would have fired in the last week")
    add.add_argument("name", metavar="NAME", help="what people call it")
    add.add_argument("measure", choices=_MEASURES, help="error rate, latency (p95), no calls, or money")
    add.add_argument("--limit", type=int, metavar="N", help="percent, milliseconds, or units of the currency")
    within = "within this time: 5, 15, 30, 60, 360 or 1440 (15)"
    fills(add.add_argument("--minutes", type=int, metavar="N", help=within), "window_minutes")
    add.add_argument("--least-calls", type=int, metavar="N", help="fewer calls within the time do not fire (20)")
    for scope, kind in _SCOPES.items():
        what = f"of this {scope} only{', for money' if scope in ('person', 'key') else ''}"
        rows.completes(add.add_argument(f"--{scope}", metavar=kind.metavar, help=what), kind)
    add.add_argument("--provider", default="", metavar="NAME", help="of models of this provider only, for money")
    add.add_argument("--disabled", action="store_true", help="it does not fire before it is enabled")
    add.add_argument("--dry-run", action="store_true", help="check and try it, and save nothing")
    add.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")
    preview = verbs.add_parser("preview", help="print how often an alert would have fired in the last week")
    rows.completes(preview.add_argument("name", metavar="NAME", help="which alert"), KIND)
    for verb in (add, preview):
        verb.add_argument("--json", action="store_true", help="as JSON")
    rows.declare_deed(verbs, KIND, "enable", "let alerts fire again")
    rows.declare_deed(verbs, KIND, "disable", "let alerts fire no more; notices of them that hold end")
    rows.declare_deed(verbs, KIND, "remove", "delete alerts; notices of them that hold end")


def run(options: argparse.Namespace) -> int:
    if options.verb in rows.VERBS:
        return rows.do(KIND, options)
    with migrated_database():
        if options.verb == "remove":
            return rows.remove(KIND, options)
        if options.verb == "add":
            return _add(options)
        return _print_week(rows.named(KIND, [options.name])[0], options)


def _add(options: argparse.Namespace) -> int:
    from mcphub.features.alerts.models import Alert

    row = Alert(name=options.name, measure=options.measure, limit=options.limit, provider=options.provider)
    row.enabled = not options.disabled
    if options.minutes is not None:
        row.window_minutes = options.minutes
    if options.least_calls is not None:
        row.least_calls = options.least_calls
    for scope, kind in _SCOPES.items():
        if (name := getattr(options, scope)) is not None:
            setattr(row, scope, rows.named(kind, [name], by="alert add")[0])
    row.change_reason = options.reason[:300]
    row.full_clean()
    if options.dry_run:
        return _print_week(row, options)
    row.save()
    if options.json:
        return rows.print_json(_told(row))
    print(f"{rows.plain(row.name)} is added: {row.condition}, of {row.scope or 'everything'}.")
    return _print_week(row, options)


def _print_week(row: Alert, options: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from mcphub.features.alerts.counting import last_week
    from sessions_app.kit.database import TookTooLong

    try:
        found = last_week(row, datetime.now(UTC))
    except TookTooLong:
        raise Stop(
            f"mcphub alert {options.verb}: counting a week took too long. Choose a tool or a longer time."
        ) from None
    share = found.slots_fired / max(1, found.slots)
    if options.json:
        return rows.print_json({"fired": found.fired, "share": round(share, 4)})
    times = "once" if found.fired == 1 else f"{found.fired} times"
    print(f"In the last 7 days it would have fired {times}, for {100 * share:.1f} % of the time.")
    return 0


def _rows() -> QuerySet[Any]:
    from mcphub.features.alerts.models import Alert

    return Alert.objects.select_related(*Alert.WATCHED).order_by("name")


def _told(row: Any) -> Mapping[str, Any]:
    from mcphub.features.alerts.rest import AlertSerializer

    return dict(AlertSerializer(row).data)


def _line(told: Mapping[str, Any]) -> list[object]:
    state = "off" if not told["enabled"] else f"fires since {told['fires_since']}" if told["fires_since"] else "quiet"
    scope = ", ".join(f"{each}: {told[each]}" for each in (*_SCOPES, "provider") if told[each])
    limit = "-" if told["limit"] is None else told["limit"]
    return [told["name"], state, told["measure"], limit, f"{told['window_minutes']} minutes", scope or "everything"]


KIND = RowKind(
    command="alert",
    noun="alert",
    nouns="alerts",
    key="name",
    rows=_rows,
    told=_told,
    line=_line,
    none="There is no alert. `mcphub alert add NAME errors --limit 10` adds one.",
)
