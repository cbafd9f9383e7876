"""Each caller's daily recording quota: a bucket of MiB that commits draw from, debts included.

A call's size is known after it has run. So each process counts its records, draws the sum about once a second from
the shared bucket, and refuses further calls of a caller whose bucket is empty until it fills.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from django.conf import settings

from invocations.ledger.records import CallRecord, Take
from sessions_app.protocol.errors import AuditUnavailable, RateLimited

if TYPE_CHECKING:
    from invocations.configuration import Configuration
    from invocations.ledger.writer import Ledger

logger = logging.getLogger(__name__)

DAY_SECONDS: Final = 86400
_MIB: Final = 1024 * 1024
_TICK_SECONDS: Final = 1.0
_AT_ONCE_BYTES: Final = _MIB
"""Of one caller, after which the bucket is drawn from before the second is over."""
_MOST_DRAWN: Final = 50
"""Buckets that are drawn from in a second, those of the callers with most to draw first: each costs the ledger three
statements, which calls wait for."""
_AGAIN_SECONDS: Final = 1.0
"""Between two looks into an empty bucket: somebody may have filled it, or allowed more."""
_LOW: Final = 0.2
"""Part of the bucket, below which the log warns."""
BUCKET: Final = "recorded MiB"
"""The suffix of such a bucket's name."""


class RecordQuotas:
    """One a process. `start` it on the event loop, after the ledger."""

    def __init__(self, ledger: Ledger, configuration: Callable[[], Configuration]) -> None:
        self._ledger = ledger
        self._configuration = configuration
        self._limit: int = settings.MCPHUB_RECORDED_MIB_PER_DAY
        self._counted: Counter[str] = Counter()
        """Bytes that were not drawn yet."""
        self._empty: dict[str, _Empty] = {}
        """Callers that may make no call now; mostly nobody."""
        self._low: set[str] = set()
        """Callers with a logged warning about little remaining."""
        self._drawing: set[asyncio.Task[None]] = set()
        self._ticker: asyncio.Task[None] | None = None
        ledger.on_append = self.count

    def start(self) -> None:
        self._ticker = asyncio.create_task(self._tick(), name="mcphub-quotas")

    async def stop(self) -> None:
        """Draw the counted bytes, then end."""
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticker
        await self._draw_of_most(None)

    def count(self, record: CallRecord) -> None:
        """Count a record appended to the ledger."""
        principal = record.principal
        self._counted[principal] = counted = self._counted.get(principal, 0) + record.size_bytes
        if counted >= _AT_ONCE_BYTES and self._ticker is not None:
            drawing = asyncio.create_task(self._draw_quietly(principal))
            self._drawing.add(drawing)
            drawing.add_done_callback(self._drawing.discard)

    @property
    def may_refuse(self) -> bool:
        """Whether `admit` could refuse anybody now."""
        return bool(self._empty) or self._ledger.disk.is_short

    async def admit(self, principal: str) -> None:
        """Raise AuditUnavailable while the disk is short, RateLimited while the caller's bucket is empty."""
        if self._ledger.disk.is_short:
            raise AuditUnavailable(
                "The call could not be recorded, so it was not made: "
                f"{self._ledger.disk.words}. Tell the hub's operator."
            )
        if (known := self._empty.get(principal)) is None:
            return
        if (now := time.monotonic()) >= known.look_at:
            known.look_at = now + _AGAIN_SECONDS
            await self._draw(principal)
        if (known := self._empty.get(principal)) is not None:
            limit, wait = self._limit_of(principal), max(1, math.ceil(known.fills_at - time.monotonic()))
            error = RateLimited(
                f"The calls of this caller fill more of the audit than the {limit} MiB a day that they may. "
                f"Try again in {wait} s.",
                retry_after_seconds=wait,
            )
            error.retry_after_seconds = wait
            raise error

    def _limit_of(self, principal: str) -> int:
        """Return MiB a day; 0: no limit."""
        return self._configuration().keys.recorded_mib_per_day.get(principal, self._limit)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            await self._draw_of_most(_MOST_DRAWN)

    async def _draw_of_most(self, most: int | None) -> None:
        await asyncio.gather(*(self._draw_quietly(principal) for principal, _ in self._counted.most_common(most)))

    async def _draw_quietly(self, principal: str) -> None:
        with contextlib.suppress(AuditUnavailable):  # it is drawn later
            await self._draw(principal)

    async def _draw(self, principal: str) -> None:
        """Draw the size of the caller's records, and note whether anything remains."""
        limit, size = self._limit_of(principal), self._counted.pop(principal, 0)
        if not limit:
            self._empty.pop(principal, None)
            return
        try:
            drawn = await self._ledger.append(
                Take(f"{principal} {BUCKET}", limit, limit / DAY_SECONDS, amount=size / _MIB, may_owe=True)
            )
        except AuditUnavailable:
            self._counted[principal] += size
            raise
        now = time.monotonic()
        if drawn.tokens <= 0:
            if principal not in self._empty:
                logger.warning(
                    "%s has filled the %s MiB of the audit that a day allows; its calls are refused for %.0f s",
                    principal,
                    limit,
                    drawn.wait_seconds,
                )
            self._empty[principal] = _Empty(now + _AGAIN_SECONDS, now + drawn.wait_seconds)
            return
        self._empty.pop(principal, None)
        if drawn.tokens > _LOW * limit:
            self._low.discard(principal)
        elif principal not in self._low:
            self._low.add(principal)
            logger.warning(
                "%s has %.0f MiB left of the %s MiB of the audit that a day allows", principal, drawn.tokens, limit
            )


@dataclass(slots=True)
class _Empty:
    """A bucket with nothing in it, in monotonic seconds."""

    look_at: float
    """Somebody may have filled it, or allowed more."""
    fills_at: float
