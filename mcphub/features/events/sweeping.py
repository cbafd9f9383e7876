"""Deletes events that are old, or more than are kept."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from mcphub.features.events.models import EventLog, Occurrence
from sessions_app.kit.database import delete_in_slices

KEPT_FOR = timedelta(days=7)
MOST_KEPT = 50_000


def purge(most: int = MOST_KEPT) -> int:
    """Delete them; return the number. A cursor before the last of them is truncated from now on."""
    aged = Occurrence.objects.filter(happened_at__lt=timezone.now() - KEPT_FOR).order_by("-position")
    last_aged = aged.values_list("position", flat=True).first() or 0
    last = max(last_aged, EventLog.now().newest - most)
    if not Occurrence.objects.filter(position__lte=last).exists():
        return 0
    with transaction.atomic():
        # Before the rows go: a reader in between is told of a gap that is about to be one.
        EventLog.objects.filter(key="events", removed_upto__lt=last).update(removed_upto=last)
    return delete_in_slices(Occurrence.objects.filter(position__lte=last))
