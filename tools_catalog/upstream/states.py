"""The life of one process's connection to an upstream, as one table (seed: MCPConnection). Pure.

    connecting -> connected -> disconnected -> connecting
    connecting -> error -> connecting
    connected  -> error

An error is left by trying again, or by a stop; so is a connection under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class LinkState(StrEnum):
    CONNECTING = "connecting"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    ERROR = "error"


NEXT: Mapping[LinkState, frozenset[LinkState]] = MappingProxyType(
    {
        LinkState.CONNECTING: frozenset({LinkState.CONNECTED, LinkState.ERROR, LinkState.DISCONNECTED}),
        LinkState.CONNECTED: frozenset({LinkState.DISCONNECTED, LinkState.ERROR}),
        LinkState.ERROR: frozenset({LinkState.CONNECTING, LinkState.DISCONNECTED}),
        LinkState.DISCONNECTED: frozenset({LinkState.CONNECTING}),
    }
)
"""State -> the states that may follow. The database refuses all others."""


def advance(state: LinkState, to: LinkState) -> LinkState:
    """Return `to`; raise ValueError where the table has no such step."""
    if to not in NEXT[state]:
        raise ValueError(f"A connection does not go from {state.value} to {to.value}.")
    return to


def refused_in_sql() -> str:
    """Return the condition, over OLD and NEW, of an update that the table does not have."""
    steps = " OR ".join(
        f"(OLD.status = '{state.value}' AND NEW.status IN ({', '.join(sorted(repr(n.value) for n in following))}))"
        for state, following in NEXT.items()
    )
    return f"OLD.status <> NEW.status AND NOT ({steps})"
