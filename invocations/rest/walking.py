"""Pages of calls that are found in bounded time, whatever is asked for.

Few filters have an index: each costs every call. The others are answered by reading the sequence from one end,
stretch by stretch, until the page is full or its time is over. Then the page ends early, perhaps without a row, and
`next` goes on from where reading stopped.
"""

from __future__ import annotations

import time
from typing import Any, TypeVar

from django.db.models import Max, QuerySet

from invocations.models import McpToolInvocation
from invocations.rest.filters import Span
from sessions_app.database import TookTooLong, at_most
from sessions_app.rest.lists import KeysetPagination

FIRST_STRETCH = 2_000
"""Ids that are looked at first, before it is known how fast that goes: in about 2 ms from memory, but a cold disk that
others use may take a second for ten thousand."""
FIRST_STRETCH_OF_BODIES = 500
"""The same, where each body is looked into, however long it is."""
SECONDS = 0.12
"""For one page. Its first stretch is read to the end; another that takes as long as that is given up."""

_MOST = 2**63 - 1
_Row = TypeVar("_Row")


def walk(
    rows: QuerySet[McpToolInvocation, _Row], begin: int, end: int, wanted: int,
    *, upwards: bool = False, stretch: int, seconds: float,
) -> tuple[list[_Row], int | None]:  # fmt: skip
    """Read `rows`, which are ordered by id, from id `begin` to id `end`, both included.

    Gives `wanted` rows at most, and the first id that was not looked at, or not to the end, where time ran out
    before that.
    """
    step = 1 if upwards else -1
    found: list[_Row] = []
    shortest = stretch
    first: float | None = None
    began = moment = time.monotonic()
    while (end - begin) * step >= 0:
        last = begin + (stretch - 1) * step
        last = min(last, end) if upwards else max(last, end)
        low, high = (begin, last) if upwards else (last, begin)
        part = rows.filter(id__gte=low, id__lte=high)[: wanted - len(found)]
        if first is None:
            found += part
        else:
            # What was in memory tells nothing about the next rows: from disk each may take a hundred times as long.
            try:
                with at_most(seconds):
                    found += part
            except TookTooLong:
                return found, begin
        if len(found) >= wanted:
            return found, None
        begin = last + step
        before, moment = moment, time.monotonic()
        left = seconds - (moment - began)
        if left <= 0:
            return found, begin if (end - begin) * step >= 0 else None
        # As much as fits into the time that is left, by how long this one took. Where rows are read one by one it stays
        # short: the newest are in memory, and older ones may not be. Where an index answers, ids cost ever less.
        rate = max(moment - before, 1e-6) / stretch
        first = rate if first is None else first
        grown = stretch * 4 if stretch <= shortest or rate < first / 2 else stretch
        stretch = max(1, min(grown, int(0.8 * left / rate)))
    return found, None


class WalkingPagination(KeysetPagination):
    """For the ordering `-id`. The view's filter set knows the `span` of what it found."""

    stretch = FIRST_STRETCH
    seconds = SECONDS

    def _read(
        self, queryset: Any, wanted: int, backwards: bool, key: list[Any] | None, view: Any
    ) -> tuple[list[Any], list[Any] | None]:
        span: Span | None = view.filterset.span
        if span is None:
            return [], None
        # Below the first row there is nothing, and nothing is soon read.
        bottom = span.least or 1
        top = McpToolInvocation.objects.order_by().aggregate(most=Max("id"))["most"] or 0
        if span.most is not None:
            top = min(top, span.most)
        if backwards:
            begin, end = bottom if key is None else max(bottom, key[0] + 1), top
        else:
            begin, end = top if key is None else min(top, key[0] - 1), bottom
        stretch = FIRST_STRETCH_OF_BODIES if view.filterset.reads_bodies else self.stretch
        found, reached = walk(
            queryset, begin, end, wanted, upwards=backwards, stretch=stretch, seconds=self.seconds
        )  # fmt: skip
        # A page begins beyond its key.
        return found, None if reached is None else [reached - 1 if backwards else reached + 1]

    def _over(self, key: list[Any], backwards: bool) -> list[Any] | None:
        return [min(key[0] + 1, _MOST)] if backwards else [max(key[0] - 1, 0)]
