"""Lists by sequence, newest first: pages begin beside a sequence, `before` or `after` it, and nothing is counted.

Each page is found in bounded time, whatever the filters ask for (`rest.walking`); one may end early, and then leads on.
"""

from __future__ import annotations

import time
from typing import Any

from django.db.models import Max
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual
from django.db.models.sql.where import AND, WhereNode

from invocations.rest.walking import FIRST_STRETCH, SECONDS, walk
from sessions_app.admin_base import UncountedAdmin
from sessions_app.admin_keyset import KeysetPaginator, Place


class WalkingPaginator(KeysetPaginator):
    """By `id`; where there are filters, what the time of a page is enough for."""

    stretch = FIRST_STRETCH
    seconds = SECONDS
    looked_at: int | None = None
    """Rows that were looked through for the page, and in how much time; None where the page took what it shows."""
    took_ms = 0

    def _found(self) -> tuple[list[Any], bool]:
        asked: Any = self.object_list
        if not asked.query.where:  # each page is a stretch of the sequence
            return super()._found()
        keys = self._walk(asked.order_by("id" if self.upwards else "-id").values_list("pk", flat=True))
        shown = asked.filter(pk__in=keys[: self.per_page])  # with what its columns reckon
        return list(shown.order_by("id" if self.upwards else "-id")), len(keys) > self.per_page

    def _walk(self, keys: Any) -> list[int]:
        """Give the keys of the page and one more, if there is one."""
        newest = keys.model.objects.order_by().aggregate(newest=Max("id"))["newest"] or 0
        least, most = bounds(keys.query.where)
        least = max(least, 1 if self.after is None else self.after.value + 1)
        most = min(newest, most, newest if self.before is None else self.before.value - 1)
        begin, end = (least, most) if self.upwards else (most, least)
        began = time.monotonic()
        found, reached = walk(
            keys, begin, end, self.per_page + 1, upwards=self.upwards, stretch=self.stretch, seconds=self.seconds
        )
        self.took_ms = round((time.monotonic() - began) * 1000)
        last = found[-1] if len(found) > self.per_page else end if reached is None else reached
        self.looked_at = max(0, (last - begin if self.upwards else begin - last) + 1)
        if reached is not None:
            self.reached = Place(reached).but_one(-1 if self.upwards else 1)
        return found


class WalkedAdmin(UncountedAdmin):
    """A list of rows with a sequence, found in bounded time."""

    paginator = WalkingPaginator


def bounds(where: WhereNode) -> tuple[int, int]:
    """Give the sequences between which the conditions leave anything. Without it no page would get further."""
    least, most = 1, 2**63 - 1
    if where.connector != AND or where.negated:
        return least, most
    for condition in where.children:
        if isinstance(condition, WhereNode):
            low, high = bounds(condition)
        elif getattr(getattr(getattr(condition, "lhs", None), "target", None), "name", "") != "id":
            continue
        else:
            low = int(condition.rhs) if isinstance(condition, GreaterThanOrEqual) else least
            high = int(condition.rhs) if isinstance(condition, LessThanOrEqual) else most
        least, most = max(least, low), min(most, high)
    return least, most
