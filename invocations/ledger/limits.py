"""Limits of how often: token buckets that every process draws from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import F
from django.utils import timezone

from invocations.ledger.records import Take
from invocations.ledger.writer import Ledger
from sessions_app.caller import Caller
from sessions_app.kit.addresses import network_of
from sessions_app.models import RateLimitBucket
from sessions_app.protocol.errors import RateLimited
from tools_catalog.catalog.snapshot import Tool


@dataclass(frozen=True, slots=True)
class Quota:
    """How much a bucket holds, and how fast it fills. `name` identifies the limit to clients."""

    name: str
    capacity: int
    refill_per_second: float

    @classmethod
    def per_minute(cls, name: str, limit: int) -> Quota:
        return cls(name, limit, limit / 60)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The answer of a bucket to one request."""

    quota: Quota
    tokens: float
    wait_seconds: float
    """Until it gives again; 0: it gave."""

    @property
    def remaining(self) -> int:
        """Requests that would be let in now."""
        return int(self.tokens + 1e-9)

    @property
    def retry_after_seconds(self) -> int:
        return max(1, math.ceil(self.wait_seconds))

    @property
    def full_after_seconds(self) -> int:
        return math.ceil((self.quota.capacity - self.tokens) / self.quota.refill_per_second)

    def headers(self) -> dict[str, str]:
        """Return the rate limit headers of a response: draft-ietf-httpapi-ratelimit-headers-11, and older
        conventions.

        Reset headers hold the time until the bucket is full; Retry-After alone holds the time until the next request.
        """
        quota, full = self.quota, self.full_after_seconds
        window = math.ceil(quota.capacity / quota.refill_per_second)
        headers = {
            "RateLimit-Policy": f'"{quota.name}";q={quota.capacity};w={window}',
            "RateLimit": f'"{quota.name}";r={self.remaining};t={full}',
            "X-RateLimit-Limit": f"{quota.capacity}",
            "X-RateLimit-Remaining": f"{self.remaining}",
            "X-RateLimit-Reset": f"{full}",
            "x-ratelimit-limit-requests": f"{quota.capacity}",
            "x-ratelimit-remaining-requests": f"{self.remaining}",
            "x-ratelimit-reset-requests": f"{full}s",
        }
        if self.wait_seconds > 0:
            headers["Retry-After"] = f"{self.retry_after_seconds}"
        return headers


async def draw(ledger: Ledger, client: str, quota: Quota) -> Drawn:
    """Draw one token of `client`, in this process or any other; raise AuditUnavailable where no database answers."""
    verdict = await ledger.append(Take(f"{client} {quota.name}", quota.capacity, quota.refill_per_second))
    return Drawn(quota, verdict.tokens, verdict.wait_seconds)


async def take_token(ledger: Ledger, bucket: str, limit: int) -> None:
    """Draw one of `limit` tokens a minute; raise RateLimited where none is left."""
    verdict = await ledger.append(Take(bucket, limit, limit / 60))
    if verdict.wait_seconds > 0:
        wait = max(1, math.ceil(verdict.wait_seconds))
        error = RateLimited(
            f"The limit of {limit} calls a minute is reached. Try again in {wait} s.", retry_after_seconds=wait
        )
        error.retry_after_seconds = wait
        raise error


async def take_tokens_of_call(ledger: Ledger, caller: Caller, tool: Tool) -> None:
    """Draw a token of the caller and one of the tool, where they have limits; raise RateLimited."""
    for bucket, limit in (
        (f"{caller.credential} tools/call", caller.calls_per_minute),
        (f"tool:{tool.name}", tool.calls_per_minute),
    ):
        if limit:
            await take_token(ledger, bucket, limit)


def client_of(caller: Caller, address: str) -> str:
    """Return the owner of a request's bucket: the key, or the client's network without a key."""
    return caller.principal if caller.principal != "anonymous" else f"address:{network_of(address)}"


def purge(limit: int = 1000) -> int:
    """Delete full buckets unused for a day: a new one would be equal."""
    old = RateLimitBucket.objects.filter(
        last_refill__lt=timezone.now() - timedelta(days=1), capacity__lte=F("refill_per_second") * 86400
    )
    count, _ = RateLimitBucket.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:limit])).delete()
    return count
