"""Refuses calls, and chat turns, with exhausted quotas. The commit of an intent decides; its decision is remembered
for a second.

So repeated refused calls cost no commit, and nobody is asked to approve a call that would then be refused.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from channels.db import database_sync_to_async
from django.db import DatabaseError

from invocations.call.call import Call
from invocations.configuration import Configuration
from invocations.ledger.parts import LedgerPart
from invocations.stages import CommitPart, Outlook, Place, Proceed, Refuse, Stage, StageAnswer
from mcphub.features.quotas import amounts
from mcphub.features.quotas.amounts import MONEY
from mcphub.features.quotas.counting import QUOTA_SUMS
from mcphub.features.quotas.models import QuotaCount
from mcphub.features.quotas.quota import Charge, QuotaRule, Spent, charges_of_result, quotas_of
from sessions_app.protocol.errors import AuditUnavailable, QuotaReached
from sessions_app.protocol.json import Json
from tools_catalog.catalog.snapshot import Tool

if TYPE_CHECKING:
    from invocations.call_source import CallSource
    from invocations.calling import Calls

_AGAIN_SECONDS: Final = 1.0
"""Between two looks at a sum that was full: an operator may have emptied it."""
_MOST_KEPT: Final = 10_000


class Spending(Stage, CommitPart):
    """Refuses calls at full sums, and charges the others: an intent by its arguments, an outcome by its bytes.

    Has the full sums known to one process. Used on its event loop.
    """

    place = Place.QUOTAS
    ledger = QUOTA_SUMS

    def __init__(self, calls: Calls | None = None) -> None:
        self.refusals: Counter[str] = Counter()
        """Of this process since its start, by the quota's name."""
        self._full: dict[str, tuple[int, float]] = {}
        """Key of a sum -> the sum, and until when (monotonic seconds) it is taken for that."""

    def concerns(self, tool: Tool, configuration: Configuration, before: tuple[Stage, ...]) -> bool:
        return bool(quotas_of(configuration).of_tool(tool))

    async def decide(self, call: Call) -> StageAnswer:
        """Refuse a call whose quotas are known to be exhausted; before an approval request, look them up."""
        if charges := charges_of_call(call):
            try:
                await self.check(charges, looks=call.ask is not None)
            except QuotaReached as error:
                return Refuse(error)
        return Proceed(call)

    async def check(self, charges: Sequence[Charge], *, looks: bool) -> None:
        """Raise QuotaReached if a sum is known to be full; AuditUnavailable if it cannot be determined.

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
            raise self._counted(_last_released(full))

    async def outlooks(
        self, tools: Sequence[Tool], source: CallSource, configuration: Configuration
    ) -> Mapping[Tool, Outlook]:
        if not (quotas := quotas_of(configuration)):
            return {}
        charges = {tool: quotas.charges(tool, source.caller, "{}") for tool in tools}
        full = await full_of(list(dict.fromkeys(each for of_tool in charges.values() for each in of_tool)))
        spent = {tool: [full[each] for each in of_tool if each in full] for tool, of_tool in charges.items()}
        return {tool: Outlook(error_of(_last_released(sums))) for tool, sums in spent.items() if sums}

    def of_intent(self, call: Call) -> list[Charge]:
        return charges_of_call(call)

    def of_outcome(self, brought: list[Charge], result: str | None) -> list[Charge]:
        return charges_of_result(brought, result)

    def told(self, said: Mapping[LedgerPart, Any]) -> Mapping[str, Json]:
        near = [spent.told() for spent in said.get(self.ledger, ()) if spent.is_near]
        return {"mcphub/quota": near} if near else {}

    def refusal(self, reason: Spent) -> QuotaReached:
        """Return the error of a call that a full sum refuses; remember the sum, and count the refusal."""
        self._keep(reason.charge.key(reason.window), reason.used)
        return self._counted(reason)

    def _counted(self, spent: Spent) -> QuotaReached:
        self.refusals[spent.charge.quota.name] += 1
        return error_of(spent)

    def _keep(self, key: str, used: int) -> None:
        if len(self._full) >= _MOST_KEPT:
            self._full.clear()
        self._full[key] = used, time.monotonic() + _AGAIN_SECONDS


def error_of(spent: Spent) -> QuotaReached:
    """Return the error for a caller whose sum is full."""
    quota = spent.charge.quota
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


async def full_of(charges: Sequence[Charge]) -> dict[Charge, Spent]:
    """Read which of these charges' sums are full now, and count nothing. Raises AuditUnavailable."""
    now = time.time()
    keys = {charge: charge.key(charge.window(now)) for charge in charges if charge.quota.hard is not None}
    if not keys:
        return {}
    used = await _read(list(set(keys.values())))
    sums = {charge: Spent(charge, charge.window(now), used.get(key, 0)) for charge, key in keys.items()}
    return {charge: spent for charge, spent in sums.items() if spent.is_full}


def charges_of_call(call: Call) -> list[Charge]:
    exchange = call.exchange
    return quotas_of(exchange.configuration).charges(call.tool, exchange.source.caller, call.text)


def _last_released(full: Iterable[Spent]) -> Spent:
    return max(full, key=lambda spent: spent.window.ends)


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
