"""`mcphub notice`: tests delivery of notices, lists abandoned ones, and sends them again."""

from __future__ import annotations

import argparse

from mcphub.commands.stop import Stop, migrated_database

_MOST = 200
_PATIENCE_SECONDS = 60


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="VERB", required=True, title="verbs", dest="verb")
    test = verbs.add_parser("test", help="send a test now, from this command, and say whether it arrived")
    test.add_argument("person", metavar="PERSON", help="whose subscriptions")
    test.add_argument("--name", default="", metavar="NAME", help="of one subscription (default: all of them)")
    verbs.add_parser("dead", help="list the deliveries that were given up")
    replay = verbs.add_parser("replay", help="have deliveries that were given up sent once more by the hub")
    replay.add_argument("id", nargs="*", type=int, metavar="ID", help="as `mcphub notice dead` lists them")
    replay.add_argument("--all", action="store_true", help="all of them")


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        return {"test": _test, "dead": _dead, "replay": _replay}[options.verb](options)


def _test(options: argparse.Namespace) -> int:
    import asyncio

    from mcphub.features.notifications import noticing
    from mcphub.features.notifications.models import Delivery, Subscription
    from sessions_app.history import events

    rows = Subscription.objects.filter(person__username=options.person, enabled=True)
    if options.name:
        rows = rows.filter(name=options.name)
    if not rows.exists():
        raise Stop(
            f"mcphub notice: {options.person} has no such subscription that is switched on. "
            "Subscriptions are made in the console, under Notices."
        )
    made = [(row, noticing.test(row, events.on_the_machine().label)) for row in rows]
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

    rows = Delivery.objects.filter(state=Delivery.State.DEAD).select_related("notice", "subscription__person")
    for row in rows[:_MOST]:
        print(
            f"{row.pk}\t{row.notice.kind}\t{row.subscription.person.get_username()}/{row.subscription.name}\t"
            f"{row.tries} tries\t{row.error}"
        )
    return 0


def _replay(options: argparse.Namespace) -> int:
    from mcphub.features.notifications import noticing
    from mcphub.features.notifications.models import Delivery

    rows = Delivery.objects.filter(state=Delivery.State.DEAD)
    if not options.all:
        if not options.id:
            raise Stop("mcphub notice replay: name the deliveries, or say --all.", status=2)
        rows = rows.filter(pk__in=options.id)
    count = noticing.replay(rows)
    print(f"{count} sent once more.")
    return 0 if count or options.all else 1
