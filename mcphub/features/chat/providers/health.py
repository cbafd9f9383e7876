"""Failing providers, shared between workers: a finding of one spares the others the same.

A row for each provider is written where its state turns: it is left alone, its quota or key is refused, it answers
again. Each worker follows the rows, so a provider that one leaves alone is left alone by all; operators read them, too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from channels.db import database_sync_to_async
from django.utils import timezone

from invocations.redaction.records import without_secrets
from mcphub.features.chat.errors import ChatError
from mcphub.features.chat.providers.snapshot import Provider
from tools_catalog.upstream.breaker import Breaker

logger = logging.getLogger(__name__)

FOR_OPERATORS = frozenset({"QUOTA_EXCEEDED", "AUTHENTICATION_FAILED"})
"""Failures that end when somebody does something about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderStatus:
    """How a provider did last. `code` is empty where it answers."""

    code: str = ""
    rests_until: datetime | None = None
    openings: int = 0
    """How often in a row its breaker opened."""


class ProviderHealth:
    """One a process."""

    def __init__(self, breakers: Mapping[str, Breaker]) -> None:
        """`breakers`: those of this process, by the provider's name."""
        self._breakers = breakers
        self._known: dict[str, ProviderStatus] = {}
        """Includes findings of this process that may not be written yet."""
        self._read: dict[str, ProviderStatus] = {}
        """The rows as of the last read."""
        self._writing: set[asyncio.Task[None]] = set()

    def record(self, provider: Provider, breaker: Breaker, error: ChatError | None) -> None:
        """Note the end of a request, None for success, and share it if it is news."""
        known = self._known.get(provider.slug, ProviderStatus())
        if error is None:
            if known.code:
                self._announce(provider, ProviderStatus(), "")
        elif error.code in FOR_OPERATORS:
            if known.code != error.code:
                self._announce(provider, ProviderStatus(code=error.code), error.message)
        elif breaker.is_open:
            until = timezone.now() + timedelta(seconds=breaker.left_seconds)
            self._announce(
                provider, ProviderStatus(code=error.code, rests_until=until, openings=breaker.openings), error.message
            )

    def follow(self, states: Mapping[str, ProviderStatus]) -> None:
        """Take over the current rows."""
        now = timezone.now()
        for slug, breaker in self._breakers.items():
            before, state = self._read.get(slug, ProviderStatus()), states.get(slug, ProviderStatus())
            left = (state.rests_until - now).total_seconds() if state.rests_until is not None else 0
            if left > 0 and not breaker.is_open:
                breaker.rest(left, state.openings)
            elif before.rests_until is not None and state.rests_until is None and breaker.is_open:
                breaker.succeeded()
        self._read, self._known = dict(states), dict(states)

    async def stop(self) -> None:
        await asyncio.gather(*self._writing, return_exceptions=True)

    def _announce(self, provider: Provider, state: ProviderStatus, message: str) -> None:
        self._known[provider.slug] = state
        task = asyncio.create_task(self._write(provider.slug, state, message), name="mcphub-provider-state")
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _write(self, slug: str, state: ProviderStatus, message: str) -> None:
        try:
            await database_sync_to_async(_store)(slug, state, message)
        except Exception as error:
            logger.warning("How the provider %s does could not be stored: %s", slug, error)


def load() -> dict[str, ProviderStatus]:
    """Return the rows, by provider name."""
    from mcphub.features.chat.models import ChatProviderState

    rows = ChatProviderState.objects.select_related("provider")
    return {
        row.provider.slug: ProviderStatus(
            code=row.failure_code if row.is_failing else "", rests_until=row.rests_until, openings=row.openings
        )
        for row in rows
    }


def answered(slug: str) -> None:
    """Note that somebody tried a provider and was answered: the workers ask it again at once."""
    if load().get(slug, ProviderStatus()).code:
        _store(slug, ProviderStatus(), "")


def _store(slug: str, state: ProviderStatus, message: str) -> None:
    from mcphub.features.chat.models import ChatProvider, ChatProviderState

    provider = ChatProvider.objects.filter(slug=slug).first()
    if provider is None:
        return
    now = timezone.now()
    values: dict[str, object] = {"rests_until": state.rests_until, "openings": state.openings}
    values |= (
        {"failure_code": state.code, "failure": without_secrets(message), "failed_at": now}
        if state.code
        else {"recovered_at": now}
    )
    ChatProviderState.objects.update_or_create(provider=provider, defaults=values)
