"""The cost of model requests, in whole millionths of the hub's currency. Pure: no float, and nothing is lost but the
part of a millionth that is rounded up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mcphub.features.chat.models.prices import ANY
from mcphub.features.chat.providers.completions import TokenUsage

MILLION = 1_000_000
BYTES_OF_A_TOKEN = 4
"""Of UTF-8, if a provider does not report usage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One row: millionths for a million tokens."""

    name: str
    provider: str
    model: str
    read: int
    cached: int
    written: int
    valid_from: float = 0.0
    """Seconds since the epoch."""

    def cost(self, usage: TokenUsage) -> int:
        """Return the cost of a request, a part of a millionth rounded up."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        whole = (
            (usage.prompt_tokens - cached) * self.read + cached * self.cached + usage.completion_tokens * self.written
        )
        return -(-whole // MILLION)


class Prices:
    """All prices at one moment. Immutable."""

    def __init__(self, prices: Iterable[Price] = ()) -> None:
        self._of: dict[tuple[str, str], list[Price]] = {}
        for price in sorted(prices, key=lambda price: price.valid_from, reverse=True):
            self._of.setdefault((price.provider, price.model), []).append(price)

    def of(self, provider: str, model: str, moment: float) -> Price | None:
        """Return the price that holds at a moment, a model's own before that of all models; None where there is
        none.
        """
        for name in (model, ANY):
            for price in self._of.get((provider, name), ()):
                if price.valid_from <= moment:
                    return price
        return None


def estimated(sent_bytes: int, written_bytes: int) -> TokenUsage:
    """Return an estimate of an unreported request's usage."""
    return TokenUsage(-(-sent_bytes // BYTES_OF_A_TOKEN), -(-written_bytes // BYTES_OF_A_TOKEN))
