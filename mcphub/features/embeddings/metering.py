"""Requests for vectors within the quotas of tokens and money: refused before the provider is asked, else counted."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime

from channels.db import database_sync_to_async
from django.db import DatabaseError

from invocations.ledger.writer import Ledger
from mcphub.features.chat.engine.metering import Metering, RoundUse
from mcphub.features.chat.errors import ChatError
from mcphub.features.chat.providers.snapshot import load_prices
from mcphub.features.embeddings import spend
from mcphub.features.embeddings.endpoint import EmbeddingFailed, EmbeddingModel, EmbeddingUsage, embed
from mcphub.features.embeddings.spend import MadeRequest
from mcphub.features.embeddings.vectors import Vector
from mcphub.features.quotas.load import load_quotas
from mcphub.features.quotas.quota import Quotas
from mcphub.features.quotas.spending import Spending
from tools_catalog.catalog.listing import Audience
from tools_catalog.catalog.snapshot import Catalog


class EmbeddingRefused(EmbeddingFailed):
    """A quota is used up, so the provider was not asked."""


class EmbeddingMeter:
    """Asks for vectors, and keeps their usage until `write`. One a process."""

    def __init__(self, ledger: Ledger, spending: Spending, quotas: Callable[[], Quotas]) -> None:
        self._ledger = ledger
        self._spending = spending
        self._quotas = quotas
        self._made: list[MadeRequest] = []

    async def embed(
        self, model: EmbeddingModel, texts: Sequence[str], seconds: float, caller: Audience | None
    ) -> list[Vector]:
        """Return the vectors of texts, in their order. Raises EmbeddingFailed; EmbeddingRefused where a quota is full.

        `seconds`: until the vectors are there. `caller`: of the search; None: the hub's own request.
        """
        until = time.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds):
                prices = await database_sync_to_async(load_prices)()
                metering = Metering(caller, self._ledger, self._spending, self._quotas, lambda: prices)
                await metering.admit(model)
        except ChatError as error:
            raise EmbeddingRefused(error.message) from error
        except TimeoutError as error:
            raise EmbeddingFailed(f"No answer within {seconds:g} s.") from error
        try:
            found = await embed(model, texts, max(0.01, until - time.monotonic()))
        except EmbeddingFailed as error:
            if error.usage is not None:
                await self._count(metering, model, caller, error.usage)
            raise
        except asyncio.CancelledError:
            metering.count_unheard(model, self._noted(metering, model, caller, EmbeddingUsage.unheard(texts)))
            raise
        await self._count(metering, model, caller, found.usage)
        return found.vectors

    async def write(self) -> None:
        """Write the usage since the last time. What a database error keeps from being written is written next time."""
        made, self._made = self._made, []
        try:
            if made:
                await database_sync_to_async(spend.record)(made)
        except DatabaseError:
            self._made = made + self._made
            raise

    async def _count(
        self, metering: Metering, model: EmbeddingModel, caller: Audience | None, usage: EmbeddingUsage
    ) -> None:
        use = self._noted(metering, model, caller, usage)
        try:
            await metering.count(model, use)
        except ChatError as error:
            raise EmbeddingFailed(error.message) from error

    def _noted(
        self, metering: Metering, model: EmbeddingModel, caller: Audience | None, usage: EmbeddingUsage
    ) -> RoundUse:
        use = metering.priced(model, usage.tokens, is_estimated=usage.is_estimated)
        principal = "" if caller is None else caller.principal
        self._made.append(MadeRequest(model, principal, datetime.now(UTC), use))
        return use


@contextlib.asynccontextmanager
async def own_meter() -> AsyncIterator[EmbeddingMeter]:
    """Yield a meter for a command, which runs in a process without a hub."""
    quotas = await database_sync_to_async(lambda: load_quotas(Catalog()))()
    ledger = Ledger()
    ledger.start()
    meter = EmbeddingMeter(ledger, Spending(), lambda: quotas)
    try:
        yield meter
    finally:
        await meter.write()
        await ledger.stop()
