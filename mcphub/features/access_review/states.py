"""Notices of reviews before and after their due date, and the rows of an evidence archive."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import QuerySet
from django.utils import timezone

from mcphub.features.access_review.models import AccessReview, ReviewedGrant
from sessions_app.protocol.json import Json

REMINDED_BEFORE: Final = timedelta(days=7)
_MOST: Final = 200
_ROWS: Final = 2000


def due() -> dict[str, dict[str, Json]]:
    """Return the facts of a notice for each review with undecided rows that is due within a week."""
    now = timezone.now()
    return _facts(AccessReview.objects.filter(due_at__gt=now, due_at__lte=now + REMINDED_BEFORE))


def overdue() -> dict[str, dict[str, Json]]:
    """Return the facts of a notice for each open review with undecided rows after its due date."""
    return _facts(AccessReview.objects.filter(due_at__lte=timezone.now()))


def _facts(reviews: QuerySet[AccessReview]) -> dict[str, dict[str, Json]]:
    found = reviews.filter(closed_at=None, rows__decision="").distinct().order_by("due_at")
    left: list[Any] = list(AccessReview.objects.filter(pk__in=[each.pk for each in found[:_MOST]]).counted())
    return {
        str(row.pk): {
            "review": row.name,
            "count": row.undecided_count,
            "due": f"{row.due_at:%Y-%m-%d %H:%M} UTC",
            "reviewers": ", ".join(sorted(row.reviewers.values_list("username", flat=True))[:10]),
        }
        for row in left
    }


def evidence(since: datetime, until: datetime) -> Iterator[dict[str, Any]]:
    """Return each row of the reviews that were under way in a period, with its decision."""
    reviews = AccessReview.objects.filter(started_at__lt=until).exclude(closed_at__lt=since)
    rows = ReviewedGrant.objects.filter(review__in=reviews.filter(due_at__gte=since).values("pk"))
    for row in rows.select_related("review").order_by("review_id", "pk").iterator(_ROWS):
        yield {
            "review": row.review.name,
            "started": row.review.started_at,
            "due": row.review.due_at,
            "closed": row.review.closed_at,
            "who": row.label,
            "principal": row.principal,
            "kind": row.kind,
            "by": row.grant,
            "tools": row.tool_count,
            "last_used": row.last_used_at,
            "unused": row.is_unused,
            "decision": row.state,
            "reason": row.reason,
            "decided_by": row.decided_by,
            "decided_at": row.decided_at,
        }
