"""Deletes events that are old, or more than are kept, and subscriptions that have expired."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from mcphub.features.events.models import EventChallenge, EventLog, EventSubscription, Occurrence
from mcphub.features.events.subscribing import CHALLENGES_KEPT
from sessions_app.kit.database import delete_in_slices

KEPT_FOR = timedelta(days=7)
MOST_KEPT = 50_000


def purge_subscriptions() -> None:
    """Delete subscriptions that have expired, and challenges that count no more."""
    now = timezone.now()
    delete_in_slices(EventSubscription.objects.filter(expires_at__lt=now))
    delete_in_slices(EventChallenge.objects.filter(at__lt=now - CHALLENGES_KEPT))


def purge(most: int = MOST_KEPT) -> int:
    """Delete old events; return the number. A cursor before the last of them is truncated from now on.

    Events of upstreams do not count among the `most`: none pushes those of the hub out (`taking.purge`).
    """
    aged = Occurrence.objects.filter(happened_at__lt=timezone.now() - KEPT_FOR).order_by("-position")
    last_aged = aged.values_list("position", flat=True).first() or 0
    last = last_aged
    log = EventLog.now()
    if log.newest - log.removed_upto > most:
        own = Occurrence.objects.filter(id_there="").order_by("-position").values_list("position", flat=True)
        last = max(last_aged, own[most : most + 1].first() or 0)
    if not Occurrence.objects.filter(position__lte=last).exists():
        return 0
    with transaction.atomic():
        # A callback that waits for other events than those that go has missed nothing.
        unread = Occurrence.objects.filter(name=OuterRef("name"), position__gt=OuterRef("read_upto"))
        behind = EventSubscription.objects.filter(read_upto__lt=last)
        behind.exclude(Exists(unread.filter(position__lte=last))).update(read_upto=last)
        # Before the rows go: a reader in between is told of a gap that is about to be one.
        EventLog.objects.filter(key="events", removed_upto__lt=last).update(removed_upto=last)
    return delete_in_slices(Occurrence.objects.filter(position__lte=last))
