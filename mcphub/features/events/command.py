"""`mcphub event-subscription`: callbacks that receive events, listed, added with a key's rights, and ended."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import Stop, database_or_stop, start_django
from mcphub.commands.token import KIND as KEYS

if TYPE_CHECKING:
    from django.db.models import QuerySet


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="list|show|add|end", required=True, title="verbs", dest="verb")
    rows.declare_list(verbs, KIND)
    rows.declare_show(verbs, KIND)
    add = verbs.add_parser("add", help="subscribe a callback to an event, or renew its subscription")
    add.add_argument("event", metavar="EVENT", help="such as connection.down")
    add.add_argument("url", metavar="URL", help="of the callback, which has to return the hub's challenge")
    rows.completes(add.add_argument("--key", required=True, metavar="PREFIX", help="with the rights of this key"), KEYS)
    add.add_argument(
        "--secret-file", metavar="FILE", help="has the secret that signs, whsec_…; without it, it is read from stdin"
    )
    add.add_argument("--minutes", type=int, metavar="N", help="how long (default: as long as may be)")
    add.add_argument("--json", action="store_true", help="as JSON")
    rows.declare_deed(verbs, KIND, "end", "end subscriptions; their callbacks are notified")


def run(options: argparse.Namespace) -> int:
    start_django()
    if options.verb in rows.VERBS:
        return rows.do(KIND, options)
    from mcphub.process import first_run

    with database_or_stop():
        first_run.migrate()
        return {"add": _add, "end": _end}[options.verb](options)


def _add(options: argparse.Namespace) -> int:
    from mcphub.features.events.models import EventSubscription
    from mcphub.features.events.rest import subscribed
    from mcphub.features.events.subscriber import EventSubscriber
    from sessions_app.caller import caller_of_key
    from sessions_app.protocol.errors import HubError

    caller = caller_of_key(rows.named(KEYS, [options.key.rstrip("…")], by="event-subscription add")[0])
    wish = {
        "event": options.event,
        "url": options.url,
        "secret": rows.read_secret("event-subscription add", options.secret_file),
    }
    try:
        answer = subscribed(EventSubscriber(caller), {**wish, "ttl_ms": options.minutes and options.minutes * 60_000})
    except HubError as error:
        raise Stop(f"mcphub event-subscription add: {error.message}") from None
    row = EventSubscription.objects.get(mark=answer["id"])
    done = f"is subscribed until {row.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    return rows.tell(KIND, [row], [True], options, done=done, before="")


def _end(options: argparse.Namespace) -> int:
    from mcphub.features.events import subscribing
    from mcphub.features.events.models import EventSubscription
    from sessions_app.history.events import on_the_machine

    found = rows.named(KIND, options.name)
    changed = []
    for row in found:
        chosen = EventSubscription.objects.filter(pk=row.pk)
        changed.append(bool(subscribing.end_by_operator(chosen, on_the_machine(), options.reason)))
    return rows.tell(KIND, found, changed, options, done="is ending", before="was ending before")


def _rows() -> QuerySet[Any]:
    from mcphub.features.events.models import EventSubscription

    return EventSubscription.objects.order_by("-created_at")


def _told(row: Any) -> Mapping[str, Any]:
    from mcphub.features.events.rest import EventSubscriptionSerializer

    return dict(EventSubscriptionSerializer(row).data)


def _line(told: Mapping[str, Any]) -> list[object]:
    state = "ending" if told["is_ending"] else f"failing: {told['last_error']}" if told["failing_since"] else "on"
    return [told["id"], told["event"], told["caller"], told["callback"], state, f"sent: {told['sent']}"]


KIND = RowKind(
    command="event-subscription",
    noun="event subscription",
    nouns="event subscriptions",
    key="mark",
    rows=_rows,
    told=_told,
    line=_line,
    none="There is no event subscription. Clients make them, and `mcphub event-subscription add`.",
    metavar="ID",
)
