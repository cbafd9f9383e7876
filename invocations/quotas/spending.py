"""Refuses calls, and turns of the chat, whose quotas are used up. The commit of an intent decides; what it said is
remembered for a second.

So a caller who goes on costs no commit, and nobody is asked for a yes to a call that would be refused afterwards.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

from channels.db import database_sync_to_async
from django.db import DatabaseError

from invocations.models import QuotaCount
from invocations.quotas import amounts
from invocations.quotas.amounts import MONEY
from invocations.quotas.quota import Charge, QuotaRule, Spent
from sessions_app.protocol.errors import AuditUnavailable, QuotaReached

_AGAIN_SECONDS: Final = 1.0
"""Between two looks at a sum that was full: an operator may have emptied it."""
_MOST_KEPT: Final = 10_000


class Spending:
    """What one process knows of sums that are full. Used on its event loop."""

    def __init__(self) -> None:
        self.refusals: Counter[str] = Counter()
        """Of this process since its start, by the quota's name."""
        self._full: dict[str, tuple[int, float]] = {}
        """Key of a sum -> the sum, and until when (monotonic seconds) it is taken for that."""

    async def check(self, charges: Sequence[Charge], *, looks: bool) -> None:
        """Raise QuotaReached where a sum is known to be full; AuditUnavailable where nobody can say.

        `looks`: ask the database in any case. Else it is asked about sums that were full a while ago.
        """
        now, clock = time.time(), time.monotonic()
        keys = {charge.key(charge.window(now)): charge for charge in charges if charge.quota.hard is not None}
        known = {key: self._full[key] for key in keys if key in self._full}
        if not known and not looks:
            return
        stale = [key for key in keys if looks or (key in known and known[key][1] <= clock)]
        used = {key: amount for key, (amount, _until) in known.items()}
        if stale:
            used |= dict.fromkeys(stale, 0) | await _read(stale)
        full: list[Spent] = []
        for key, amount in used.items():
            spent = Spent(keys[key], keys[key].window(now), amount)
            if not spent.is_full:
                self._full.pop(key, None)
                continue
            full.append(spent)
            if key in stale:
                self._keep(key, amount)
        if full:
            raise self.refusal(max(full, key=lambda spent: spent.window.ends), is_known=True)

    def refusal(self, spent: Spent, *, is_known: bool = False) -> QuotaReached:
        """Give the error of a call that a full sum refuses, and count it."""
        quota = spent.charge.quota
        if not is_known:
            self._keep(spent.charge.key(spent.window), spent.used)
        self.refusals[quota.name] += 1
        seconds = max(1, math.ceil(spent.window.ends - time.time()))
        error = QuotaReached(
            f"{_words(quota)} It is released at {spent.window.resets_at}, in {seconds} s.",
            quota=quota.name,
            unit=quota.unit,
            limit=quota.hard,
            used=spent.used,
            resetsAt=spent.window.resets_at,
            retryAfterSeconds=seconds,
            **({"currency": amounts.currency()} if quota.unit == MONEY else {}),
        )
        error.retry_after_seconds = seconds
        return error

    def _keep(self, key: str, used: int) -> None:
        if len(self._full) >= _MOST_KEPT:
            self._full.clear()
        self._full[key] = used, time.monotonic() + _AGAIN_SECONDS


def _words(quota: QuotaRule) -> str:
    words = f"The quota {quota.name} of {amounts.said(quota.hard or 0, quota.unit)} a {quota.period} is used up."
    return f"{words} {quota.words}" if quota.words else words


async def _read(keys: Sequence[str]) -> dict[str, int]:
    try:
        return await _sums(keys)
    except DatabaseError as error:
        raise AuditUnavailable from error


@database_sync_to_async
def _sums(keys: Sequence[str]) -> dict[str, int]:
    return dict(QuotaCount.objects.filter(pk__in=keys).values_list("key", "used"))
