"""A second opinion for searches: which tools mean what a question means, whatever words they use.

Words stay what a search rests on. A feature that declares a `SearchCloseness` adds its own order, and the two are fused
by reciprocal rank (Cormack et al. 2009): tools that both find come first, and neither order needs the other's scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessions_app.kit.features import declared, loaded

if TYPE_CHECKING:
    from tools_catalog.catalog.listing import Audience
    from tools_catalog.catalog.selection import Tool
    from tools_catalog.catalog.toolsets import Toolset

_SMOOTHING = 5
"""At the usual 60, what both orders find anywhere precedes the best of words alone: of questions for several tools,
which have one vector, a fifth fewer were found (Seal-Tools, MiniLM).
"""


@dataclass(frozen=True, slots=True)
class SearchCloseness:
    """Declares an order: `module:function`, a coroutine function of the question, the toolset, the tools offered to
    the caller by name, and the caller.

    It returns names, the closest first, and none where it has no opinion. It does not raise, and bounds its own time.
    """

    closest: str


async def closest(query: str, toolset: Toolset, offered: Mapping[str, Tool], caller: Audience) -> list[Sequence[str]]:
    """Return the order of each feature that has one."""
    orders = [await loaded(part.closest)(query, toolset, offered, caller) for part in declared(SearchCloseness)]
    return [order for order in orders if order]


def fused(by_words: Sequence[str], orders: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of all orders, the best first; of those that are alike the one that words found before."""
    if not orders:
        return list(by_words)
    scores: dict[str, float] = {}
    for order in (by_words, *orders):
        for rank, name in enumerate(order):
            scores[name] = scores.get(name, 0.0) + 1 / (_SMOOTHING + rank)
    return sorted(scores, key=lambda name: -scores[name])
