"""Limits of how often: buckets that every process draws from."""

from __future__ import annotations

from invocations.ledger import Ledger
from invocations.records import Take
from sessions_app.protocol.errors import RateLimited


async def take_token(ledger: Ledger, bucket: str, limit: int) -> None:
    """Draw one of `limit` tokens a minute; raise RateLimited where none is left."""
    verdict = await ledger.append(Take(bucket, limit))
    if verdict.wait_seconds > 0:
        wait = max(1, round(verdict.wait_seconds + 0.5))
        error = RateLimited(
            f"The limit of {limit} calls a minute is reached. Try again in {wait} s.", retry_after_seconds=wait
        )
        error.retry_after_seconds = wait
        raise error
