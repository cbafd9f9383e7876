"""`mcphub notice`: subscriptions to notices, listed, added, tried, switched and removed; abandoned deliveries."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.group import KIND as GROUPS
from mcphub.commands.person import KIND as PEOPLE
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import Stop, fills, migrated_database

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from mcphub.features.notifications.models import Subscription

_MOST = 200
_PATIENCE_SECONDS = 60


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="VERB", required=True, title="verbs", dest="verb")
    listed = verbs.add_parser("subscriptions", help="list who is notified of what, and where")
    _declare_owner(listed, "only theirs", nargs="?")
    listed.add_argument("--json", action="store_true", help="as JSON")
    _declare_subscribe(verbs)
    for verb, words in (
        ("enable", "send to subscriptions again"),
        ("disable", "send nothing to subscriptions"),
        ("unsubscribe", "delete subscriptions; what waits for them is not sent"),
    ):
        each = verbs.add_parser(verb, help=words)
        _declare_owner(each, "whose subscriptions")
        each.add_argument("name", metavar="NAME", nargs="+", help="names of subscriptions")
        each.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")
        each.add_argument("--json", action="store_true", help="as JSON")
    test = verbs.add_parser("test", help="send a test now, from this command, and say whether it arrived")
    _declare_owner(test, "whose subscriptions")
    test.add_argument("--name", default="", metavar="NAME", help="of one subscription (default: all of them)")
    verbs.add_parser("dead", help="list the deliveries that were given up")
    replay = verbs.add_parser("replay", help="have deliveries that were given up sent once more by the hub")
    replay.add_argument("id", nargs="*", type=int, metavar="ID", help="as `mcphub notice dead` lists them")
    replay.add_argument("--all", action="store_true", help="all of them")


def _declare_subscribe(verbs: Any) -> None:
    words = "subscribe a person or a group; the secret of a webhook is printed on the last line"
    add = verbs.add_parser("subscribe", help=words)
    _declare_owner(add, "who is notified of what they may read")
    add.add_argument("name", metavar="NAME", help="name of the subscription")
    add.add_argument("way", choices=("console", "email", "webhook", "slack", "teams"), help="how")
    add.add_argument("--email", metavar="ADDRESS", help="the e-mail address")
    add.add_argument(
        "--address-file", metavar="FILE", help="has a webhook's URL; without it, it is read from standard input"
    )
    kinds = "such as alert.errors; repeated (all)"
    fills(add.add_argument("--kind", action="append", default=[], metavar="KIND", help=kinds), "kinds")
    quiet = add.add_argument(
        "--quiet", nargs=2, metavar=("FROM", "TO"), help="nothing between these times, such as 22:00 07:00"
    )
    fills(quiet, "quiet_from", "quiet_to")
    add.add_argument("--zone", metavar="ZONE", help="time zone of the quiet hours, such as Europe/Berlin (UTC)")
    add.add_argument("--hold-alarms", action="store_true", help="send alarms after the quiet hours, too")
    add.add_argument("--group-seconds", type=int, metavar="N", help="how long notices are gathered (30)")
    add.add_argument("--language", metavar="CODE", help="en or ru (en)")
    add.add_argument("--disabled", action="store_true", help="nothing is sent before it is enabled")
    add.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")
    add.add_argument("--json", action="store_true", help="as JSON; the secret is its member `secret`")


def _declare_owner(parser: argparse.ArgumentParser, words: str, **more: Any) -> None:
    argument = parser.add_argument("owner", metavar="OWNER", help=f"a person, or group:NAME; {words}", **more)
    rows.completes(argument, PEOPLE)


def _owner(options: argparse.Namespace) -> dict[str, Any]:
    """Return the owner as a field and its row; stop at an unknown name."""
    kind, _, group = options.owner.partition(":")
    field, owners, name = ("group", GROUPS, group) if kind == "group" and group else ("person", PEOPLE, options.owner)
    return {field: rows.named(owners, [name], by=f"notice {options.verb}")[0]}


def run(options: argparse.Namespace) -> int:
    verbs = {
        "subscriptions": _list,
        "subscribe": _subscribe,
        "enable": _change,
        "disable": _change,
        "unsubscribe": _change,
        "test": _test,
        "dead": _dead,
        "replay": _replay,
    }
    with migrated_database():
        return verbs[options.verb](options)


def _list(options: argparse.Namespace) -> int:
    found = KIND.rows()
    if options.owner:
        found = found.filter(**_owner(options))
    return rows.list_rows(KIND, options, found)


def _subscribe(options: argparse.Namespace) -> int:
    from django.core.exceptions import ValidationError

    from mcphub.features.notifications.models import Subscription, new_secret

    row = Subscription(
        **_owner(options),
        name=options.name,
        way=options.way,
        kinds=list(dict.fromkeys(options.kind)),
        alarms_at_once=not options.hold_alarms,
        enabled=not options.disabled,
    )
    for name in ("zone", "group_seconds", "language"):
        if (value := getattr(options, name)) is not None:
            setattr(row, name, value)
    if options.quiet:
        row.quiet_from, row.quiet_to = options.quiet
    row.change_reason = options.reason[:300]
    row.full_clean()
    try:
        row.set_address(_address(options))
    except ValidationError as error:
        raise ValidationError({"email" if options.way == "email" else "address_file": error.messages}) from None
    secret = new_secret() if row.way == Subscription.Way.WEBHOOK else ""
    if secret:
        row.set_secret(secret)
    row.save()
    if options.json:
        return rows.print_json({**_told(row), **({"secret": secret} if secret else {})})
    print(f"{_label(row)} is subscribed: {row.shown_address or 'in the console'}.", file=sys.stderr if secret else None)
    if secret:
        print("The secret that signs its webhooks is shown only now:", file=sys.stderr)
        print(secret)
    return 0


def _address(options: argparse.Namespace) -> str:
    if options.way == "console":
        return ""
    if options.way != "email":
        if options.email:
            raise Stop("mcphub notice subscribe: --email is for the way `email`.", status=2)
        return rows.read_secret("notice subscribe", options.address_file)
    if not options.email:
        raise Stop("mcphub notice subscribe: name the address with --email.", status=2)
    return str(options.email)


def _change(options: argparse.Namespace) -> int:
    owner = _owner(options)
    of_owner = replace(
        KIND, noun=f"subscription of {rows.plain(options.owner)} named", rows=lambda: KIND.rows().filter(**owner)
    )
    if options.verb == "unsubscribe":
        return rows.remove(of_owner, options)
    return rows.switch(of_owner, options)


def _test(options: argparse.Namespace) -> int:
    import asyncio

    from mcphub.features.notifications import noticing
    from mcphub.features.notifications.models import Delivery, Subscription
    from sessions_app.history import events

    found = Subscription.objects.filter(**_owner(options), enabled=True)
    if options.name:
        found = found.filter(name=options.name)
    if not found.exists():
        raise Stop(
            f"mcphub notice: {options.owner} has no such subscription that is enabled. `mcphub notice subscriptions` "
            "lists them, and `mcphub notice subscribe` adds one."
        )
    made = [(row, noticing.test(row, events.on_the_machine().label)) for row in found]
    ids = [delivery.pk for _row, delivery in made if delivery is not None]
    asyncio.run(_tried(ids))
    failed = 0
    for row, delivery in made:
        if delivery is None:
            print(f"{row.name}: in the console")
            continue
        delivery.refresh_from_db()
        if delivery.state == Delivery.State.SENT:
            print(f"{row.name}: sent to {row.shown_address}")
        else:
            failed += 1
            print(f"{row.name}: {delivery.error or 'not sent yet; the list of deliveries says what becomes of it'}")
    return 1 if failed else 0


async def _tried(ids: list[int]) -> None:
    """Send due deliveries until these were tried; a running hub may be faster, and then holds the lease."""
    import asyncio
    import uuid

    from mcphub.features.notifications.models import Delivery
    from mcphub.features.notifications.sending import Sender

    sender = Sender(f"command {uuid.uuid4().hex}")
    untried = Delivery.objects.filter(pk__in=ids, state=Delivery.State.WAITING, tries=0)
    for _ in range(_PATIENCE_SECONDS):
        await sender.send_due()
        if not await untried.aexists():
            return
        await asyncio.sleep(1)


def _dead(options: argparse.Namespace) -> int:
    from mcphub.features.notifications.models import Delivery

    found = Delivery.objects.filter(state=Delivery.State.DEAD).select_related(
        "notice", "subscription__person", "subscription__group"
    )
    for row in found[:_MOST]:
        print(
            f"{row.pk}\t{row.notice.kind}\t{row.subscription.owner}/{row.subscription.name}\t"
            f"{row.tries} tries\t{row.error}"
        )
    return 0


def _replay(options: argparse.Namespace) -> int:
    from mcphub.features.notifications import noticing
    from mcphub.features.notifications.models import Delivery

    found = Delivery.objects.filter(state=Delivery.State.DEAD)
    if not options.all:
        if not options.id:
            raise Stop("mcphub notice replay: name the deliveries, or say --all.", status=2)
        found = found.filter(pk__in=options.id)
    count = noticing.replay(found)
    print(f"{count} sent once more.")
    return 0 if count or options.all else 1


def _rows() -> QuerySet[Any]:
    from mcphub.features.notifications.models import Subscription

    return Subscription.objects.select_related("person", "group").order_by("person__username", "group__name", "name")


def _told(row: Subscription) -> Mapping[str, Any]:
    return {
        "person": row.person.get_username() if row.person else None,
        "group": row.group.name if row.group else None,
        "name": row.name,
        "way": row.way,
        "address": row.shown_address,
        "kinds": row.kinds,
        "enabled": row.enabled,
        "quiet_from": row.quiet_from and str(row.quiet_from),
        "quiet_to": row.quiet_to and str(row.quiet_to),
        "zone": row.zone,
        "alarms_at_once": row.alarms_at_once,
        "group_seconds": row.group_seconds,
        "language": row.language,
        "last_error": row.last_error,
        "failing_since": row.failing_since.isoformat() if row.failing_since else None,
    }


def _line(told: Mapping[str, Any]) -> list[object]:
    state = "off" if not told["enabled"] else f"failing: {told['last_error']}" if told["failing_since"] else "on"
    owner = told["person"] or f"group:{told['group']}"
    return [owner, told["name"], state, told["way"], told["address"], ", ".join(told["kinds"]) or "all kinds"]


def _label(row: Subscription) -> str:
    return f"{rows.plain(row.owner)}/{rows.plain(row.name)}"


KIND = RowKind(
    command="notice",
    noun="subscription",
    nouns="subscriptions",
    key="name",
    rows=_rows,
    told=_told,
    line=_line,
    listing="notice subscriptions",
    none="There is no subscription. `mcphub notice subscribe OWNER NAME WAY` adds one.",
)
"""A name is of one owner's: verbs that name subscriptions take the owner, too."""
