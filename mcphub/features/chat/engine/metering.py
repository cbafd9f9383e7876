"""The use of quotas of tokens and money: checked before each model request, counted after it."""

from __future__ import annotations

import contextlib
import time
from asyncio import Future
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from invocations.ledger.records import Use, Verdict
from invocations.ledger.writer import Ledger
from mcphub.features.chat.engine.provider_request import ProviderRequest
from mcphub.features.chat.errors import ChatError
from mcphub.features.chat.providers.completions import ProviderCompletion, TokenUsage
from mcphub.features.chat.providers.prices import Prices, estimated
from mcphub.features.chat.providers.snapshot import Provider
from mcphub.features.quotas.counting import QUOTA_SUMS
from mcphub.features.quotas.quota import Charge, Quotas, Spent, charges_of_round
from mcphub.features.quotas.spending import Spending
from sessions_app.protocol import json
from sessions_app.protocol.errors import AuditUnavailable, HubError, QuotaReached
from sessions_app.protocol.json import Json
from tools_catalog.catalog.listing import Audience

SOON_SECONDS = 60
"""A release that clients may wait for by themselves, as the official ones do with so long a `Retry-After`."""


class MeteredModel(Protocol):
    """A model of the chat, or of embeddings."""

    @property
    def provider(self) -> Provider: ...
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class RoundUse:
    """The outcome of one model request."""

    usage: TokenUsage
    is_estimated: bool
    """The provider did not report it."""
    cost: int | None
    """Millionths of the hub's currency; None where the model has no price."""
    price: str = ""

    def wire(self) -> dict[str, Json]:
        """Return its part of the round's entry."""
        found: dict[str, Json] = {"estimated_usage": self.usage.wire()} if self.is_estimated else {}
        return found if self.cost is None else {**found, "cost_millionths": self.cost, "price": self.price}


class Metering:
    """The quotas of one turn, or of one request for embeddings. `caller`: None for the hub's own requests."""

    def __init__(
        self,
        caller: Audience | None,
        ledger: Ledger,
        spending: Spending,
        quotas: Callable[[], Quotas],
        prices: Callable[[], Prices],
    ) -> None:
        self._caller = caller
        self._ledger = ledger
        self._spending = spending
        self._quotas = quotas
        self._prices = prices
        self._near: dict[str, Spent] = {}
        self._full: Spent | None = None
        """The quota that the last count found exhausted: no further request may be made."""

    @property
    def warnings(self) -> list[dict[str, object]]:
        """Return the caller's warnings, as of the last counts."""
        return [spent.told() for spent in self._near.values()]

    def refusal(self) -> ChatError | None:
        """Count a refusal, and return its error; None where no quota is exhausted."""
        return None if self._full is None else refusal(self._spending.refusal(self._full))

    async def admit(self, model: MeteredModel) -> None:
        """Raise ChatError if a quota of the model is exhausted, or cannot be determined."""
        charges = charges_of_round(self._quotas().of_provider(model.provider.slug), self._caller)
        if not charges:
            return
        try:
            await self._spending.check(charges, looks=True)
        except QuotaReached as error:
            raise refusal(error) from error
        except HubError as error:
            raise ChatError.of(error) from error

    def measure(self, model: MeteredModel, request: ProviderRequest, answer: ProviderCompletion) -> RoundUse:
        """Return a request's usage: the provider's report, or else an estimate by size."""
        return self.priced(model, answer.usage or _estimate(request, answer), is_estimated=answer.usage is None)

    def priced(self, model: MeteredModel, usage: TokenUsage, *, is_estimated: bool) -> RoundUse:
        """Return a usage with its cost at the price of the moment."""
        price = self._prices().of(model.provider.slug, model.name, time.time())
        cost = None if price is None else price.cost(usage)
        return RoundUse(usage, is_estimated, cost, "" if price is None else price.name)

    async def count(self, model: MeteredModel, use: RoundUse) -> None:
        """Add a request's usage to the sums, in one commit; raise ChatError if that fails."""
        charges = self._charges(model, use)
        if not charges:
            return
        try:
            verdict = await self._ledger.append(Use({QUOTA_SUMS: charges}))
        except AuditUnavailable as error:
            raise ChatError(
                "AUDIT_UNAVAILABLE", "What the model used could not be counted. Try again.", should_retry=False
            ) from error
        self._heed(verdict)

    def count_unheard(self, model: MeteredModel, use: RoundUse) -> None:
        """Count for a client that has gone. The ledger writes it whoever waits."""
        if charges := self._charges(model, use):
            with contextlib.suppress(AuditUnavailable):  # the ledger owes it
                self._ledger.append(Use({QUOTA_SUMS: charges})).add_done_callback(_passed_over)

    def _charges(self, model: MeteredModel, use: RoundUse) -> Sequence[Charge]:
        return charges_of_round(
            self._quotas().of_provider(model.provider.slug),
            self._caller,
            tokens=use.usage.total_tokens,
            cost=use.cost,
            is_estimated=use.is_estimated,
        )

    def _heed(self, verdict: Verdict) -> None:
        sums: list[Spent] = verdict.said.get(QUOTA_SUMS, [])
        for spent in sums:
            if spent.is_near:
                self._near[spent.charge.key(spent.window)] = spent
        if full := [spent for spent in sums if spent.is_full]:
            self._full = max(full, key=lambda spent: spent.window.ends)


def refusal(error: QuotaReached) -> ChatError:
    """Return the error of a turn that a quota refuses."""
    said = ChatError.of(error)
    said.should_retry = error.retry_after_seconds is not None and error.retry_after_seconds <= SOON_SECONDS
    return said


def _estimate(request: ProviderRequest, answer: ProviderCompletion) -> TokenUsage:
    said = [answer.text, answer.reasoning, answer.refusal]
    written = "".join([*said, *(call.name + call.arguments for call in answer.calls)])
    tools = [tool for tool in request.body.get("tools", ()) if not tool.get("defer_loading")]  # others it has not read
    return estimated(len(json.dumps({**request.body, "tools": tools})), json.size(written))


def _passed_over(future: Future[Verdict]) -> None:
    if not future.cancelled():
        future.exception()
