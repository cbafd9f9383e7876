"""Embeds the tools that can be searched, beside calls, and the question of each search, within a bound.

What is sent: of a tool its name, title, description and arguments; of a search its words. Tools of workspaces, and
searches of their toolsets, are not sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async

from mcphub.features.embeddings import cache, spend
from mcphub.features.embeddings.endpoint import EmbeddingFailed, EmbeddingModel
from mcphub.features.embeddings.metering import EmbeddingMeter, EmbeddingRefused
from mcphub.features.embeddings.sent import digest_of, sent_tools, text_of
from mcphub.features.embeddings.vectors import Vector
from mcphub.features.embeddings.vectors import closest as closest_vectors
from mcphub.features.quotas.quota import quotas_of
from mcphub.features.quotas.spending import Spending
from mcphub.process.runtime import Hub
from mcphub.process.services import BackgroundService
from tools_catalog.catalog.listing import Audience
from tools_catalog.catalog.selection import Tool
from tools_catalog.catalog.toolsets import Toolset
from tools_catalog.upstream.breaker import Breaker

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 5.0
_BATCH = 64
_BATCH_SECONDS = 60.0
_PAUSE_SECONDS = 60.0
"""After tools could not be embedded."""
_FAILURES = 3
"""Searches in a row without an answer; then they go by words for a while."""
_LONGEST_QUESTION = 2000
MOST_QUESTIONS = 1000
"""In memory."""


class EmbeddingService(BackgroundService):
    """The vectors of one process."""

    running: EmbeddingService | None = None
    """A process runs one hub at a time."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self._model: EmbeddingModel | None = None
        self._vectors: dict[str, Vector] = {}
        """Of tools, by the digest of their text."""
        self._digests: WeakKeyDictionary[Tool, str] = WeakKeyDictionary()
        self._questions: dict[str, Vector] = {}
        self._unsaved: dict[str, Vector] = {}
        self._meter = EmbeddingMeter(hub.ledger, hub.calls.stages.one(Spending), lambda: quotas_of(hub.configuration))
        self._failure = ""
        self._breaker = Breaker(time.monotonic, limit=_FAILURES)
        self._rests_until = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        EmbeddingService.running = self
        self._task = asyncio.create_task(self._go_on(), name="mcphub-embeddings")

    async def stop(self) -> None:
        if EmbeddingService.running is self:
            EmbeddingService.running = None
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._meter.write()

    # Tools ---------------------------------------------------------------------------------------

    async def _go_on(self) -> None:
        while True:
            try:
                await self.refresh()
            except Exception as error:
                logger.warning("Embeddings could not be brought up to date: %s", error)
            await asyncio.sleep(_EVERY_SECONDS)

    async def refresh(self) -> None:
        """Follow the settings and the catalogue: load vectors, and ask for those that are nowhere."""
        model = await database_sync_to_async(cache.enabled_model)()
        if model is None or self._model is None or model.key != self._model.key:
            self._vectors, self._questions, self._rests_until = {}, {}, 0.0
            self._digests.clear()
            self._breaker.succeeded()
        self._model = model
        await self._write(model)
        if model is None:
            return
        tools = sent_tools(self.hub.configuration.catalog)
        texts = {self._digest(tool, model): text_of(tool) for tool in tools}
        missing = texts.keys() - self._vectors.keys()
        found = await database_sync_to_async(cache.load)(missing) if missing else {}
        self._vectors = {digest: vector for digest, vector in (self._vectors | found).items() if digest in texts}
        left = sorted(missing - found.keys())
        if not left or time.monotonic() < self._rests_until:
            return
        try:
            async for fresh in embedded(model, {digest: texts[digest] for digest in left}, self._meter):
                self._vectors |= fresh
        except EmbeddingFailed as error:
            logger.warning("%s embeds no tools: %s", model.provider.slug, error)
            self._rests_until = time.monotonic() + _PAUSE_SECONDS

    async def _write(self, model: EmbeddingModel | None) -> None:
        """Write what searches left behind."""
        unsaved, self._unsaved = self._unsaved, {}
        failure, self._failure = self._failure, ""
        if unsaved:
            await database_sync_to_async(cache.save)(unsaved)
        await self._meter.write()
        if failure and model is not None:
            await database_sync_to_async(spend.note_failure)(model, failure)

    def _digest(self, tool: Tool, model: EmbeddingModel) -> str:
        found = self._digests.get(tool)
        if found is None:
            found = self._digests[tool] = digest_of(model, text_of(tool))
        return found

    # Searches ------------------------------------------------------------------------------------

    async def closest(
        self, query: str, toolset: Toolset, offered: Mapping[str, Tool], caller: Audience
    ) -> Sequence[str]:
        """Return the tools closest to a question; none where the model is off, down or late, or a quota is full."""
        model = self._model
        if model is None or not self._vectors or toolset.workspace is not None:
            return ()
        vector = await self._question(model, query[:_LONGEST_QUESTION], caller)
        if vector is None:
            return ()
        digests = {name: self._digests.get(tool) for name, tool in offered.items() if tool.workspace is None}
        known = {name: self._vectors[each] for name, each in digests.items() if each in self._vectors}
        return closest_vectors(vector, known)

    async def _question(self, model: EmbeddingModel, query: str, caller: Audience) -> Vector | None:
        digest = digest_of(model, f"?{' '.join(query.split())}")
        found = self._questions.get(digest)
        if found is not None or self._breaker.wait_seconds() > 0:
            return found
        until = time.monotonic() + model.timeout_seconds
        try:
            async with asyncio.timeout(model.timeout_seconds):
                kept = await database_sync_to_async(cache.load)([digest])
            found = kept.get(digest)
            if found is None:
                [found] = await self._meter.embed(model, [query], max(0.01, until - time.monotonic()), caller)
                self._unsaved[digest] = found
        except EmbeddingRefused as error:  # that of this caller alone: the model may be well
            logger.info("A search of %s goes by words: %s", caller.principal, error)
            self._breaker.left()
            return None
        except (EmbeddingFailed, TimeoutError) as error:
            self._breaker.failed()
            self._failure = str(error) or f"No answer within {model.timeout_seconds:g} s."
            return None
        except BaseException:
            self._breaker.left()
            raise
        self._breaker.succeeded()
        if len(self._questions) >= MOST_QUESTIONS:
            self._questions.clear()
        self._questions[digest] = found
        return found


async def embedded(
    model: EmbeddingModel, texts: Mapping[str, str], meter: EmbeddingMeter
) -> AsyncIterator[dict[str, Vector]]:
    """Yield the vectors of tools by digest, in batches that are kept. Ends early once the model is off, or another.

    Raises EmbeddingFailed, which is noted.
    """
    digests = sorted(texts)
    for at in range(0, len(digests), _BATCH):
        batch = digests[at : at + _BATCH]
        try:
            vectors = await meter.embed(model, [texts[digest] for digest in batch], _BATCH_SECONDS, None)
        except EmbeddingFailed as error:
            await database_sync_to_async(spend.note_failure)(model, str(error))
            raise
        finally:
            await meter.write()
        fresh = dict(zip(batch, vectors, strict=True))
        await database_sync_to_async(cache.save)(fresh)
        yield fresh
        if await database_sync_to_async(cache.enabled_model)() != model:
            return


async def closest(query: str, toolset: Toolset, offered: Mapping[str, Tool], caller: Audience) -> Sequence[str]:
    """Return the opinion of this process's vectors."""
    service = EmbeddingService.running
    return () if service is None else await service.closest(query, toolset, offered, caller)
