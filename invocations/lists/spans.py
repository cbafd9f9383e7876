"""The sequence range of the calls of a time range, so that an index need not read older or newer ones."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Max, Min, Q

from invocations.chain.marks import STRETCH
from invocations.chain.models import SequenceMark
from invocations.models import McpToolInvocation

MOST_UNMARKED = 200_000
"""IDs that are read for one list: more lie behind the marks only where sealing is far behind."""


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Bounds of the sequence, both included; None is no bound."""

    least: int | None = None
    most: int | None = None

    @property
    def bounds(self) -> Q:
        least = Q() if self.least is None else Q(id__gte=self.least)
        return least if self.most is None else least & Q(id__lte=self.most)


def span(after: datetime | None, before: datetime | None, *, most_unmarked: int = MOST_UNMARKED) -> TimeSpan | None:
    """Return bounds outside which no call started in a time, which may hold others too; None where none started in it.

    Every index of the audit ends in the sequence, so each can serve a time range without reading older or newer rows.
    Reads the marks of the sequence, and the calls that are not marked yet: where they are more than `most_unmarked`,
    any of them may be in it.
    """
    if after is None and before is None:
        return TimeSpan()
    started, touched = Q(), Q()
    if after is not None:
        started, touched = Q(started_at__gte=after), Q(most_started__gte=after)
    if before is not None:
        started, touched = started & Q(started_at__lt=before), touched & Q(least_started__lt=before)
    marks = SequenceMark.objects.order_by()
    starts = marks.filter(touched).aggregate(least=Min("number"), most=Max("through"))
    marked = marks.aggregate(through=Max("through"))["through"]
    calls = McpToolInvocation.objects.order_by()
    newest = calls.aggregate(newest=Max("id"))["newest"] or 0
    # The first call's ID is far above 1 where retention removed those before it.
    unmarked = (calls.aggregate(oldest=Min("id"))["oldest"] or 0) if marked is None else marked + 1
    if newest - unmarked >= most_unmarked:
        rest = {"least": unmarked, "most": newest}
    elif marked is None:
        # The sums keep PostgreSQL from looking for the ends along the key, through all that lies outside the time.
        rest = calls.filter(started).aggregate(least=Min(F("id") + 0), most=Max(F("id") + 0))
    else:
        newer = calls.filter(id__gt=marked)
        rest = newer.aggregate(least=Min("id", filter=started), most=Max("id", filter=started))
    least = [end for end in (starts["least"] and starts["least"] * STRETCH, rest["least"]) if end is not None]
    most = [end for end in (starts["most"], rest["most"]) if end is not None]
    if not most:
        return None
    return TimeSpan(min(least) if after is not None else None, max(most) if before is not None else None)
