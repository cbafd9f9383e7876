"""Sends events to callbacks. One worker at a time sends for a subscription: it holds the row's lease.

The lease is longer than a turn may take, and free at once where its worker has ended. Each event that arrived is noted
at once; one that was not noted is sent once more under the same `webhook-id`, by which its receiver knows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from channels.db import database_sync_to_async
from django.db import transaction
from django.db.models import Exists, F, Min, OuterRef, Q
from django.utils import timezone

from mcphub.features.events import callbacks, reading, subscribing
from mcphub.features.events.access import ending_of
from mcphub.features.events.callbacks import CallbackFailed, MakeClient
from mcphub.features.events.errors import EventError, EventForbidden
from mcphub.features.events.models import EventDelivery, EventSubscription, Occurrence
from mcphub.features.events.reading import EventFilter
from mcphub.features.events.subscriber import EventSubscriber
from mcphub.features.notifications.sending import pause
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.catalog.snapshot import Catalog
from tools_catalog.secrets import SecretError

logger = logging.getLogger(__name__)

TURN_SECONDS = 40.0
LEASE_SECONDS = 90
AT_ONCE = 8
MOST_IN_TURN = 50
MOST_WAITING = 500
"""Deliveries of one subscription; further events wait in the log."""
MOST_TRIES = 6
"""Over about three quarters of an hour."""


@dataclass(frozen=True, slots=True)
class EventLetter:
    """One event on its way."""

    delivery_id: int
    position: int
    wire: dict[str, Json]


@dataclass(frozen=True, slots=True)
class EventPost:
    """One turn of a subscription that this process holds the lease of."""

    subscription_id: int
    mark: str
    url: str
    secrets: tuple[str, ...]
    letters: tuple[EventLetter, ...] = ()
    gap: str = ""
    """The cursor to notify the callback of, where events were skipped."""
    ending: EventError | None = None
    """Why the subscription is over."""


class Deliverer:
    """One a process. `send_due` is called when something may be due."""

    def __init__(
        self,
        process_id: str,
        catalog: Callable[[], Catalog],
        is_gone: Callable[[str], bool],
        make: MakeClient = callbacks.client,
    ) -> None:
        self._process_id = process_id
        self._is_gone = is_gone
        self._catalog = catalog
        self._make = make

    async def send_due(self) -> int:
        """Take turns of subscriptions with something due; return the number of events that arrived."""
        taken = await database_sync_to_async(claim)(self._process_id, AT_ONCE, self._is_gone)
        return sum(await asyncio.gather(*(self._turn(each) for each in taken)))

    async def stop(self) -> None:
        """Release every lease, also of a turn that was taken and not begun. Nothing is sent any more."""
        with contextlib.suppress(Exception):
            await database_sync_to_async(release_all)(self._process_id)

    async def _turn(self, subscription_id: int) -> int:
        arrived = 0
        try:
            post = await database_sync_to_async(collect)(subscription_id, self._catalog())
            if post is not None:
                async with asyncio.timeout(TURN_SECONDS):
                    arrived = await self._send(post)
        except TimeoutError:
            logger.info("A turn of the event subscription %d took too long; it goes on later", subscription_id)
        except SecretError as error:
            logger.warning("Events of the subscription %d cannot be sent: %s", subscription_id, error)
        finally:
            await asyncio.shield(database_sync_to_async(release)(subscription_id, self._process_id))
        return arrived

    async def _send(self, post: EventPost) -> int:
        if post.ending is not None:
            envelope: dict[str, Json] = {"type": "terminated", "error": post.ending.wire()}
            try:
                await callbacks.control(self._make, post.url, post.secrets, post.mark, envelope)
            except CallbackFailed as failed:
                logger.info("A callback was not notified of its end: %s", failed.reason)
            await database_sync_to_async(subscribing.end)(post.mark, str(post.ending))
            return 0
        if post.gap:
            await self._notify_of_gap(post)
        arrived = 0
        for at, letter in enumerate(post.letters):
            try:
                await self._deliver(post, letter)
            except CallbackFailed as failed:
                # Where nobody answers, the others would not arrive, either.
                failing = post.letters[at:] if failed.is_unreachable else (letter,)
                await database_sync_to_async(note_failure)(post.subscription_id, failing, failed)
                if failed.is_unreachable:
                    break
            else:
                arrived += 1
                await asyncio.shield(database_sync_to_async(note_arrival)(post.subscription_id, letter.delivery_id))
        return arrived

    async def _deliver(self, post: EventPost, letter: EventLetter) -> None:
        upto = await database_sync_to_async(safe_position)(post.subscription_id, letter.position)
        body = json.dumps({**letter.wire, "cursor": reading.cursor_of(upto)})
        headers = callbacks.headers_of(str(letter.wire["eventId"]), body, post.secrets, post.mark)
        await callbacks.post(self._make, post.url, headers, body)

    async def _notify_of_gap(self, post: EventPost) -> None:
        envelope: dict[str, Json] = {"type": "gap", "cursor": post.gap}
        try:
            await callbacks.control(self._make, post.url, post.secrets, post.mark, envelope)
        except CallbackFailed as failed:
            if failed.is_unreachable:
                return
        rows = EventSubscription.objects.filter(pk=post.subscription_id)
        await database_sync_to_async(rows.update)(has_gap=False)


def claim(process_id: str, most: int, is_gone: Callable[[str], bool] = lambda process_id: False) -> list[int]:
    """Take the lease of subscriptions for which something is due; return their keys.

    The lease of a process that `is_gone` is free at once.
    """
    now = timezone.now()
    others = EventSubscription.objects.filter(leased_until__gte=now).exclude(leased_by__in=["", process_id])
    gone = [each for each in set(others.values_list("leased_by", flat=True)) if is_gone(each)]
    is_free = Q(leased_until=None) | Q(leased_until__lt=now) | Q(leased_by__in=gone)
    due = EventDelivery.objects.filter(subscription=OuterRef("pk"), due_at__lte=now)
    unread = Occurrence.objects.filter(name=OuterRef("name"), position__gt=OuterRef("read_upto"))
    has_work = Exists(due) | Exists(unread) | Q(is_ending=True)
    rows = EventSubscription.objects.filter(is_free, has_work, expires_at__gt=now)
    until = now + timedelta(seconds=LEASE_SECONDS)
    taken = []
    for pk in list(rows.order_by("turned_at", "pk").values_list("pk", flat=True)[:most]):
        free = EventSubscription.objects.filter(is_free, pk=pk)
        if free.update(leased_by=process_id, leased_until=until, turned_at=now):
            taken.append(pk)
    return taken


def release(subscription_id: int, process_id: str) -> None:
    held = EventSubscription.objects.filter(pk=subscription_id, leased_by=process_id)
    held.update(leased_by="", leased_until=None)


def release_all(process_id: str) -> None:
    EventSubscription.objects.filter(leased_by=process_id).update(leased_by="", leased_until=None)


def collect(subscription_id: int, catalog: Catalog) -> EventPost | None:
    """Read what is due for a subscription, with the rights that its caller has now. Raises SecretError."""
    now = timezone.now()
    row = EventSubscription.objects.filter(pk=subscription_id).first()
    if row is None:
        return None
    url, keys = row.unseal("url"), row.keys(now)
    wanted = EventFilter.load(row.name, row.arguments)
    receiver = EventSubscriber.load(row.subscriber).receiver(catalog)
    ending = ending_of(receiver, row.name)
    if row.is_ending:
        ending = EventForbidden("An operator of the hub ended the subscription.", reason="ended by an operator")
    if receiver is None or ending is not None:
        return EventPost(row.pk, row.mark, url, keys, ending=ending)
    with transaction.atomic():
        room = MOST_WAITING - row.deliveries.count()
        if room > 0:
            page = reading.page(receiver, wanted, row.read_upto, min(room, reading.MOST_EVENTS))
            EventDelivery.objects.bulk_create(
                (EventDelivery(subscription=row, occurrence_id=each.position, due_at=now) for each in page.found),
                ignore_conflicts=True,
            )
            row.read_upto, row.has_gap = page.position, row.has_gap or page.is_truncated
            row.save(update_fields=["read_upto", "has_gap"])
    letters = []
    due = row.deliveries.filter(due_at__lte=now).select_related("occurrence").order_by("occurrence_id")
    for delivery in due[:MOST_IN_TURN]:
        wire = reading.shown(receiver, wanted, delivery.occurrence)
        if wire is None:
            delivery.delete()
        else:
            letters.append(EventLetter(delivery.pk, delivery.occurrence_id, wire))
    gap = reading.cursor_of(safe_position(row.pk, row.read_upto)) if row.has_gap else ""
    return EventPost(row.pk, row.mark, url, keys, tuple(letters), gap)


def safe_position(subscription_id: int, position: int) -> int:
    """Return the position, or the last one before an earlier event that is still on its way."""
    waiting = EventDelivery.objects.filter(subscription=subscription_id, occurrence__lt=position)
    first = waiting.aggregate(first=Min("occurrence_id"))["first"]
    return position if first is None else int(first) - 1


@transaction.atomic
def note_arrival(subscription_id: int, delivery_id: int) -> None:
    if EventDelivery.objects.filter(pk=delivery_id).delete()[0]:
        EventSubscription.objects.filter(pk=subscription_id).update(
            sent=F("sent") + 1, last_sent_at=timezone.now(), last_error="", failing_since=None
        )


@transaction.atomic
def note_failure(subscription_id: int, letters: tuple[EventLetter, ...], failed: CallbackFailed) -> None:
    """Set the next attempt of these events, or abandon them."""
    now, abandoned = timezone.now(), 0
    for delivery in EventDelivery.objects.filter(pk__in=[each.delivery_id for each in letters]):
        delivery.tries += 1
        if failed.is_final or delivery.tries >= MOST_TRIES:
            delivery.delete()
            abandoned += 1
            continue
        delivery.due_at = now + timedelta(seconds=pause(delivery.tries))
        delivery.save(update_fields=["tries", "due_at"])
    rows = EventSubscription.objects.filter(pk=subscription_id)
    rows.update(last_error=failed.reason, abandoned=F("abandoned") + abandoned)
    rows.filter(failing_since=None).update(failing_since=now)
