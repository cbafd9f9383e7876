"""The cost of model requests, as the rounds of answered questions have it, for alerts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from mcphub.features.chat.models.conversations import Query
from mcphub.features.chat.models.providers import ChatProvider
from mcphub.parts import SpendQuery
from sessions_app.kit.database import TookTooLong

MOST_QUESTIONS = 200_000
"""Whose rounds one query reads."""
_LONGEST_TURN = timedelta(hours=1)
"""A question is listed by when it was asked, and its money was spent until it was answered."""


def spent(query: SpendQuery) -> Iterator[tuple[datetime, int]]:
    """Yield when a question was answered and what it cost. Raises `TookTooLong` where there are too many."""
    rows = Query.objects.filter(
        timestamp__gte=query.after - _LONGEST_TURN,
        timestamp__lt=query.before,
        response__timestamp__gte=query.after,
        response__timestamp__lt=query.before,
    )
    if query.principals is not None and len(query.principals) == 1:
        rows = rows.filter(principal__in=query.principals)
    found = rows.order_by("-timestamp").values_list("principal", "response__timestamp", "response__rounds")
    for number, (principal, moment, rounds) in enumerate(found.iterator(chunk_size=2000)):
        if number >= MOST_QUESTIONS:
            raise TookTooLong
        if query.principals is not None and principal not in query.principals:
            continue
        cost = sum(
            each.get("cost_millionths", 0)
            for each in rounds
            if not query.provider or each.get("provider") == query.provider
        )
        if cost:
            yield moment, cost


def providers() -> list[str]:
    """Return the names of all providers."""
    return list(ChatProvider.objects.order_by("slug").values_list("slug", flat=True))
