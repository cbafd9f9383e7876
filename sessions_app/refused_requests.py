"""Requests refused lately, such as those without a key, to a wrong address or from a foreign origin, for operators.

They are no part of the audit, because no known caller made them. Equal requests share a row; a row goes an hour
after its last request. A process writes at most twice a second, in one transaction.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, replace
from datetime import timedelta
from typing import Any

from channels.db import database_sync_to_async
from django.db import models, transaction
from django.db.models import F
from django.utils import timezone

logger = logging.getLogger(__name__)

PLACEHOLDER = "YOUR-KEY"
"""The placeholder for a key in printed configurations. A request with it shows it in place of a prefix."""
_PREFIX = re.compile(r"mcph_[0-9a-f]{8}(?=_)")
_FLUSH_SECONDS = 0.5
_MOST_KINDS = 50
"""Kinds between two writes; of further kinds only status and code are kept."""
_MOST_ROWS = 500
_KEEP = timedelta(hours=1)


class RefusedRequest(models.Model):
    """Equal refused requests, and their number. Of a key it holds the prefix alone, as the list of keys does."""

    fingerprint = models.CharField(max_length=64, unique=True)
    status = models.PositiveSmallIntegerField()
    code = models.CharField(max_length=40)
    path = models.CharField(max_length=200, blank=True)
    address = models.CharField(max_length=64, blank=True)
    agent = models.CharField(max_length=200, blank=True)
    origin = models.CharField(max_length=200, blank=True)
    key_prefix = models.CharField(max_length=16, blank=True)
    reason = models.CharField(max_length=300, blank=True)
    count = models.PositiveIntegerField(default=1)
    last_at = models.DateTimeField(default=timezone.now)

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["-last_at"], name="refused_request_recent")]  # the connect page, and the purge

    def __str__(self) -> str:
        return f"{self.status} {self.path} × {self.count}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The stored part of one rejected request."""

    status: int
    code: str
    path: str = ""
    address: str = ""
    agent: str = ""
    origin: str = ""
    key_prefix: str = ""
    reason: str = ""


_TEXTS = {"path": 200, "agent": 200, "origin": 200, "reason": 300}
"""Strangers' texts, and the length kept of each."""


def refusal_of(
    status: int, code: str, reason: str, path: str, address: str, headers: Iterable[tuple[bytes, bytes]]
) -> Refusal:
    """Read the stored part of a rejection from a request. PostgreSQL stores no NUL, so it is taken out."""
    found = {name: value.decode("latin-1") for name, value in headers}

    def clipped(text: str, length: int) -> str:
        return text.replace("\x00", "")[:length]

    return Refusal(
        status,
        clipped(code, 40),
        clipped(path, 200),
        clipped(address, 64),
        clipped(found.get(b"user-agent", ""), 200),
        clipped(found.get(b"origin", ""), 200),
        _prefix(found.get(b"authorization", "")),
        clipped(reason, 300),
    )


def _prefix(authorization: str) -> str:
    _scheme, _, token = authorization.partition(" ")
    if token.strip() == PLACEHOLDER:
        return PLACEHOLDER
    if token.strip():
        found = _PREFIX.match(token.strip())
        return found[0] if found else "?"
    return ""


class RefusedRequestLog:
    """Collects the refused requests of one process and writes them. Used on the event loop alone."""

    def __init__(self, redacted: Callable[[str], str]) -> None:
        """`redacted` removes parts of a text that must not be stored."""
        self._redacted = redacted
        self._counts: dict[Refusal, int] = {}
        self._writing: asyncio.Task[None] | None = None

    def note(self, seen: Refusal) -> None:
        if seen not in self._counts and len(self._counts) >= _MOST_KINDS:
            seen = Refusal(seen.status, seen.code)
        self._counts[seen] = self._counts.get(seen, 0) + 1
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name="mcphub-refused-requests")

    async def stop(self) -> None:
        if self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        while self._counts:
            await asyncio.sleep(_FLUSH_SECONDS)
            counts, self._counts = self._counts, {}
            try:
                await database_sync_to_async(self._write_redacted)(counts)
            except Exception as error:
                logger.warning("%d refused requests could not be recorded: %s", sum(counts.values()), error)

    def _write_redacted(self, counts: dict[Refusal, int]) -> None:
        shown: Counter[Refusal] = Counter()
        for seen, count in counts.items():
            texts: dict[str, Any] = {
                name: self._redacted(getattr(seen, name))[:length] for name, length in _TEXTS.items()
            }
            shown[replace(seen, **texts)] += count
        write(shown)


def write(counts: dict[Refusal, int]) -> None:
    """Add to the rows of equal requests, and keep the table small."""
    now = timezone.now()
    with transaction.atomic():
        for seen, count in counts.items():
            fingerprint = hashlib.sha256(repr(astuple(seen)).encode("utf-8", "surrogatepass")).hexdigest()
            same = RefusedRequest.objects.filter(fingerprint=fingerprint)
            if not same.update(count=F("count") + count, last_at=now):
                row = RefusedRequest(
                    fingerprint=fingerprint,
                    status=seen.status,
                    code=seen.code,
                    path=seen.path,
                    address=seen.address,
                    agent=seen.agent,
                    origin=seen.origin,
                    key_prefix=seen.key_prefix,
                    reason=seen.reason,
                    count=count,
                    last_at=now,
                )
                # Another process may have come first; its row then stands for both.
                RefusedRequest.objects.bulk_create([row], ignore_conflicts=True)
        oldest = RefusedRequest.objects.order_by("-last_at").values_list("last_at", flat=True)[_MOST_ROWS:][:1]
        if oldest:
            RefusedRequest.objects.filter(last_at__lte=oldest[0]).delete()


def purge() -> int:
    """Delete those older than an hour; return the number."""
    return RefusedRequest.objects.filter(last_at__lt=timezone.now() - _KEEP).delete()[0]
