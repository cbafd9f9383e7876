"""`mcphub event`: types of events that upstreams offer, listed, shown, approved and stopped."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import Stop, database_or_stop, start_django

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from sessions_app.protocol.json import Json


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="list|show|approve|stop", required=True, title="verbs", dest="verb")
    rows.declare_list(verbs, KIND)
    rows.declare_show(verbs, KIND)
    approve = rows.declare_deed(verbs, KIND, "approve", "receive and serve events by their definition of now")
    approve.add_argument(
        "--arguments",
        metavar="JSON",
        help='that the events need, such as \'{"city": "Berlin"}\' (default: those of the approval before)',
    )
    rows.declare_deed(verbs, KIND, "stop", "receive events no more; subscriptions to them end")


def run(options: argparse.Namespace) -> int:
    start_django()
    if options.verb in rows.VERBS:
        return rows.do(KIND, options)
    from mcphub.process import first_run

    with database_or_stop():
        first_run.migrate()
        return _decide(options)


def _decide(options: argparse.Namespace) -> int:
    from django.db import transaction

    from mcphub.features.events import offers
    from sessions_app.history.events import on_the_machine
    from sessions_app.protocol.errors import HubError

    found, who = rows.named(KIND, options.name), on_the_machine()
    if options.verb == "stop":
        changed = [offers.stop(row, who, options.reason) for row in found]
    else:
        try:
            given = None if options.arguments is None else _object(options.arguments)
            with transaction.atomic():  # all of them or none
                changed = [offers.approve(row, who, options.reason, given) for row in found]
        except HubError as error:
            raise Stop(f"mcphub event approve: {error.message}") from None
    done = {"approve": "is received from now on", "stop": "is stopped"}[options.verb]
    return rows.tell(KIND, found, changed, options, done=done, before="was so before")


def _object(text: str) -> dict[str, Json]:
    from sessions_app.protocol import json
    from sessions_app.protocol.errors import HubError, InvalidParams

    try:
        found = json.loads(text.encode("utf-8", "surrogatepass"))
    except HubError as error:
        raise InvalidParams(f"--arguments cannot be read. {error.message}") from error
    if not isinstance(found, dict):
        raise InvalidParams("--arguments must be a JSON object.")
    return found


def _rows() -> QuerySet[Any]:
    from mcphub.features.events.models import UpstreamEvent

    return UpstreamEvent.objects.select_related("connection").order_by("name")


def _told(row: Any) -> Mapping[str, Any]:
    from mcphub.features.events.rest import UpstreamEventSerializer

    return dict(UpstreamEventSerializer(row).data)


def _line(told: Mapping[str, Any]) -> list[object]:
    return [
        told["name"],
        told["state"],
        f"received: {told['received']}",
        f"refused: {told['refused']}",
        told["problem"],
    ]


KIND = RowKind(
    command="event",
    noun="upstream event",
    nouns="upstream events",
    key="name",
    rows=_rows,
    told=_told,
    line=_line,
    none="No upstream offers events. Those that do are listed once the hub has connected to them.",
    metavar="EVENT",
)
