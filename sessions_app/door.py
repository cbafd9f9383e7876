"""What the doors refused lately: who comes with no key, the wrong address or a foreign origin is told to operators.

Not part of the audit: nobody who is known did anything. Rows are few, bounded, and gone an hour after the last request
of their kind. A process writes them at most twice a second, all that gathered in one transaction.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from datetime import timedelta

from channels.db import database_sync_to_async
from django.db import models, transaction
from django.db.models import F
from django.utils import timezone

logger = logging.getLogger(__name__)

PLACEHOLDER = "YOUR-KEY"
"""What stands in configurations where a key goes; kept instead of a prefix when it comes as the key."""
_PREFIX = re.compile(r"mcph_[0-9a-f]{8}(?=_)")
_FLUSH_SECONDS = 0.5
_MOST_GATHERED = 50
"""Kinds of refusals between two writes; of more only the code is kept."""
_MOST_ROWS = 500
_KEEP = timedelta(hours=1)


class DoorRefusal(models.Model):
    """Equal refusals and how many there were. Holds nothing of a key but the prefix that lists show, too."""

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
        indexes = [models.Index(fields=["-last_at"], name="door_refusal_recent")]  # the connect page, and the purge

    def __str__(self) -> str:
        return f"{self.status} {self.path} × {self.count}"


@dataclass(frozen=True, slots=True)
class Turned:
    """One refusal, as far as it is kept."""

    status: int
    code: str
    path: str = ""
    address: str = ""
    agent: str = ""
    origin: str = ""
    key_prefix: str = ""
    reason: str = ""


def turned(
    status: int, code: str, reason: str, path: str, address: str, headers: Iterable[tuple[bytes, bytes]]
) -> Turned:
    """Read off a request what is kept of its refusal. Lists show it, so NUL and the like are taken out."""
    found = {name: value.decode("latin-1") for name, value in headers}

    def kept(text: str, length: int) -> str:
        return text.replace("\x00", "")[:length]

    return Turned(
        status, kept(code, 40), kept(path, 200), kept(address, 64), kept(found.get(b"user-agent", ""), 200),
        kept(found.get(b"origin", ""), 200), _prefix(found.get(b"authorization", "")), kept(reason, 300),
    )  # fmt: skip


def _prefix(authorization: str) -> str:
    _scheme, _, token = authorization.partition(" ")
    if token.strip() == PLACEHOLDER:
        return PLACEHOLDER
    if token.strip():
        found = _PREFIX.match(token.strip())
        return found[0] if found else "?"
    return ""


class DoorLog:
    """Gathers the refusals of one process and writes them. Used on the event loop alone."""

    def __init__(self) -> None:
        self._gathered: dict[Turned, int] = {}
        self._writing: asyncio.Task[None] | None = None

    def note(self, seen: Turned) -> None:
        if seen not in self._gathered and len(self._gathered) >= _MOST_GATHERED:
            seen = Turned(seen.status, seen.code)
        self._gathered[seen] = self._gathered.get(seen, 0) + 1
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name="mcphub-door-log")

    async def stop(self) -> None:
        if self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        while self._gathered:
            await asyncio.sleep(_FLUSH_SECONDS)
            gathered, self._gathered = self._gathered, {}
            try:
                await database_sync_to_async(write)(gathered)
            except Exception as error:
                logger.warning("%d refusals at the doors could not be noted: %s", sum(gathered.values()), error)


def write(gathered: dict[Turned, int]) -> None:
    """Add refusals to the rows of their kinds, and keep the table small."""
    now = timezone.now()
    with transaction.atomic():
        for seen, count in gathered.items():
            fingerprint = hashlib.sha256(repr(astuple(seen)).encode("utf-8", "surrogatepass")).hexdigest()
            same = DoorRefusal.objects.filter(fingerprint=fingerprint)
            if not same.update(count=F("count") + count, last_at=now):
                row = DoorRefusal(
                    fingerprint=fingerprint, status=seen.status, code=seen.code, path=seen.path, address=seen.address,
                    agent=seen.agent, origin=seen.origin, key_prefix=seen.key_prefix, reason=seen.reason, count=count,
                    last_at=now,
                )  # fmt: skip
                # Another process may have come first; its row then stands for both.
                DoorRefusal.objects.bulk_create([row], ignore_conflicts=True)
        oldest = DoorRefusal.objects.order_by("-last_at").values_list("last_at", flat=True)[_MOST_ROWS:][:1]
        if oldest:
            DoorRefusal.objects.filter(last_at__lte=oldest[0]).delete()


def purge() -> int:
    """Remove what is older than an hour; give the count."""
    return DoorRefusal.objects.filter(last_at__lt=timezone.now() - _KEEP).delete()[0]
