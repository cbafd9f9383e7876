"""The hub's side of notifications, one per process: it finds new notices, and sends due ones.

State shared between workers is in rows: the finder (`Position`), the notice (`Notice`), the sender
(`Subscription.leased_until`). A process that dies leaves leases that end by themselves.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import timedelta

from channels.db import database_sync_to_async
from django.db.models import Q
from django.utils import timezone

from mcphub.features.notifications import live, noticing, sources
from mcphub.features.notifications.models import Position
from mcphub.features.notifications.sending import Sender
from sessions_app import bus

logger = logging.getLogger(__name__)

_TURN_SECONDS = 3.0
_LEASE_SECONDS = 30
_FIGURES_SECONDS = 60.0
_LOOKING = "history"

Conditions = Callable[[], dict[tuple[str, str], dict[str, str]]]
"""Returns the problems of this process, by kind and subject of their notice. Costs no statement."""


class Telling:
    def __init__(self, process_id: str, conditions: Conditions) -> None:
        self._process_id = process_id
        self._conditions = conditions
        self._sender = Sender(process_id)
        self._wake = asyncio.Event()
        self._figures_at = 0.0
        self._found_figures: sources.Found = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._missed: dict[tuple[str, str], dict[str, str]] = {}
        """Conditions that could not be written while the database was away; they are reported once it is back."""

    def follow(self, follower: bus.BusFollower) -> None:
        follower.on([noticing.NOTICED], self._noticed)

    def start(self) -> None:
        live.begin()
        self._tasks = [
            asyncio.create_task(self._look_on(), name="mcphub-notices"),
            asyncio.create_task(self._send_on(), name="mcphub-sending-notices"),
        ]

    def drain(self) -> None:
        """End the live streams: their pages come back to another process."""
        live.end_all()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _noticed(self, event: bus.BusMessage) -> None:
        live.tell(event.payload)
        self._wake.set()

    async def _look_on(self) -> None:
        while True:
            try:
                await database_sync_to_async(self._look)()
            except Exception as error:
                logger.warning("Nobody could look for notices: %s", error)
            await asyncio.sleep(_TURN_SECONDS)

    async def _send_on(self) -> None:
        while True:
            try:
                await self._sender.send_due()
            except Exception as error:
                logger.warning("Notices could not be sent: %s", error)
            self._wake.clear()
            try:
                async with asyncio.timeout(_TURN_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _look(self) -> None:
        self._missed.update(self._conditions())
        for (kind, subject), facts in list(self._missed.items()):
            noticing.note(kind, subject, dict(facts))
            del self._missed[kind, subject]
        position = leased(_LOOKING, self._process_id)
        if position is None:
            return
        sources.reconcile(sources.states(), sources.STATES)
        sources.end_untouched()
        if time.monotonic() >= self._figures_at:
            self._figures_at = time.monotonic() + _FIGURES_SECONDS
            sources.reconcile(sources.figures(), sources.FIGURES)
        reached = sources.tell_events(position)
        if reached != position:
            Position.objects.filter(name=_LOOKING, leased_by=self._process_id).update(value=reached)


def leased(name: str, process_id: str) -> int | None:
    """Take or keep the lease of a position; give the position, or None where another process has it."""
    now = timezone.now()
    if not Position.objects.filter(name=name).exists():
        # What happened before the first start is no news.
        Position.objects.get_or_create(name=name, defaults={"value": sources.newest_event()})
    is_free = Q(leased_until=None) | Q(leased_until__lt=now) | Q(leased_by=process_id)
    until = now + timedelta(seconds=_LEASE_SECONDS)
    if not Position.objects.filter(is_free, name=name).update(leased_by=process_id, leased_until=until):
        return None
    return Position.objects.values_list("value", flat=True).get(name=name)
