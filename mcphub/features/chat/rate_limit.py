"""How often one caller may ask: the token bucket of every chat endpoint."""

from __future__ import annotations

from django.conf import settings

from invocations.ledger import limits
from invocations.ledger.limits import Drawn, Quota
from invocations.ledger.writer import Ledger
from mcphub.features.chat.errors import ChatError
from sessions_app.caller import Caller


async def draw(ledger: Ledger, caller: Caller, address: str) -> Drawn | None:
    """Draw for one question; return the rest, None without a limit. `check` returns whether it may be asked."""
    if not settings.MCPHUB_CHAT_BURST:
        return None
    quota = Quota("chat", settings.MCPHUB_CHAT_BURST, 1 / settings.MCPHUB_CHAT_REFILL_SECONDS)
    return await limits.draw(ledger, limits.client_of(caller, address), quota)


def check(drawn: Drawn | None) -> None:
    """Raise ChatError where the bucket gave nothing."""
    if drawn is not None and drawn.wait_seconds > 0:
        raise ChatError(
            "RATE_LIMITED",
            f"{drawn.quota.capacity} questions may be asked at once, and one more every "
            f"{settings.MCPHUB_CHAT_REFILL_SECONDS:g} s. Try again in {drawn.retry_after_seconds} s.",
            retry_after=drawn.retry_after_seconds,
        )
