"""Rows by their sequence `id`, found in bounded time, whatever is asked for.

Few filters have an index: each costs every call. The others are answered by reading the sequence from one end,
stretch by stretch, until the page is full or its time is over. Then the page ends early, perhaps without a row, and
the next one goes on from where reading stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, TypeVar

from django.db.models import Lookup, Max, Model, QuerySet
from django.db.models.lookups import GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual
from django.db.models.sql.where import AND, WhereNode

from sessions_app.kit.database import TookTooLong, at_most
from sessions_app.kit.lists.keyset import Key, Keyset, Order, between

FIRST_STRETCH = 2_000
"""Ids that are looked at first, before it is known how fast that goes: in about 2 ms from memory, but a cold disk that
others use may take a second for ten thousand."""
FIRST_STRETCH_OF_BODIES = 500
"""Ids that are looked at first where each body is looked into, however long it is."""
SECONDS = 0.12
"""For one page. Its first stretch is read to the end; another that takes as long as that is given up."""
_MOST = 2**63 - 1
_Found = TypeVar("_Found")
_Row = TypeVar("_Row", bound=Model)


def walk(
    rows: QuerySet[Model, _Found],
    begin: int,
    end: int,
    wanted: int,
    *,
    upwards: bool = False,
    stretch: int,
    seconds: float,
) -> tuple[list[_Found], int | None]:
    """Read `rows`, which are ordered by id, from id `begin` to id `end`, both included.

    Gives `wanted` rows at most, and the first id that was not looked at, or not to the end, where time ran out
    before that.
    """
    step = 1 if upwards else -1
    found: list[_Found] = []
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


def newest(rows: QuerySet[Model, _Found], wanted: int, *, seconds: float = SECONDS) -> tuple[list[_Found], int | None]:
    """Return the newest of `rows`, and the first id that was not looked at where time ran out before all were found."""
    least, most = bounds(rows)
    begin = min(newest_id(rows), most)
    return walk(rows.order_by("-id"), begin, least, wanted, stretch=first_stretch(rows), seconds=seconds)


def newest_id(rows: QuerySet[Model, object]) -> int:
    """Return the end of the sequence: the highest id of all rows of the table, found or not; 0 for an empty one."""
    return rows.model._default_manager.order_by().aggregate(newest=Max("id"))["newest"] or 0


def bounds(rows: QuerySet[Model, object]) -> tuple[int, int]:
    """Return the ids between which the conditions of the rows leave anything: an empty range where there is nothing.

    Without them no page would get further.
    """
    if rows.query.is_empty():
        return 1, 0
    least, most = 1, _MOST
    for condition in _conditions(rows.query.where):
        if getattr(getattr(condition.lhs, "target", None), "name", "") != "id":
            continue
        if isinstance(condition, GreaterThan | GreaterThanOrEqual):
            least = max(least, int(condition.rhs) + isinstance(condition, GreaterThan))
        elif isinstance(condition, LessThan | LessThanOrEqual):
            most = min(most, int(condition.rhs) - isinstance(condition, LessThan))
    return least, most


def first_stretch(rows: QuerySet[Model, object]) -> int:
    """Return how many ids are looked at first: few, where a condition looks into each body (`looks_into_bodies`)."""
    looks = any(getattr(condition.lhs, "looks_into_bodies", False) for condition in _conditions(rows.query.where))
    return FIRST_STRETCH_OF_BODIES if looks else FIRST_STRETCH


def _conditions(where: WhereNode) -> Iterator[Lookup[Any]]:
    """Return the conditions all of which each row fulfils."""
    if where.connector != AND or where.negated:
        return
    for child in where.children:
        if isinstance(child, WhereNode):
            yield from _conditions(child)
        elif isinstance(child, Lookup):
            yield child


class WalkedKeyset(Keyset[_Row]):
    """Pages along `id`; with filters, a page holds the matches found within its time."""

    stretch: int | None = None
    seconds = SECONDS
    looked_at: int | None = None
    """Rows examined for the page, and the time; None if every row read is shown."""
    took_ms = 0

    def _read(self, order: Order[_Row], begin: Key | None, end: Key | None) -> tuple[list[_Row], Key | None]:
        if not self.rows.query.where:  # each page is a stretch of the sequence
            return super()._read(order, begin, end)
        rows, upwards = between(self.rows, order, begin, end), not order.columns[0].startswith("-")
        least, most = bounds(rows)
        most = min(most, newest_id(rows))
        first, last = (least, most) if upwards else (most, least)
        began, stretch = time.monotonic(), self.stretch or first_stretch(rows)
        found, reached = walk(rows, first, last, self.size + 1, upwards=upwards, stretch=stretch, seconds=self.seconds)
        self.took_ms = round((time.monotonic() - began) * 1000)
        if reached is not None:
            last = reached
        elif len(found) > self.size:
            last = found[-1].pk
        self.looked_at = max(0, (last - first if upwards else first - last) + 1)
        # A page begins beyond its key.
        return found, None if reached is None else (reached - 1 if upwards else reached + 1,)
