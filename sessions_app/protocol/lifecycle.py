"""The life of a handshake session, as one table. Permissions and storage are elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from types import MappingProxyType


class SessionState(StrEnum):
    CREATED = "created"
    INITIALIZED = "initialized"
    CLOSED = "closed"
    EXPIRED = "expired"


class SessionEvent(Enum):
    INITIALIZE = "initialize"
    CLOSE = "close"
    EXPIRE = "expire"


TRANSITIONS: Mapping[tuple[SessionState, SessionEvent], SessionState] = MappingProxyType(
    {
        (SessionState.CREATED, SessionEvent.INITIALIZE): SessionState.INITIALIZED,
        (SessionState.CREATED, SessionEvent.CLOSE): SessionState.CLOSED,
        (SessionState.CREATED, SessionEvent.EXPIRE): SessionState.EXPIRED,
        (SessionState.INITIALIZED, SessionEvent.CLOSE): SessionState.CLOSED,
        (SessionState.INITIALIZED, SessionEvent.EXPIRE): SessionState.EXPIRED,
    }
)

TERMINAL = frozenset(SessionState) - {state for state, _ in TRANSITIONS}
"""States that nothing leaves."""


class LifecycleError(ValueError):
    """The session is in no state for this event."""

    def __init__(self, state: SessionState, event: SessionEvent) -> None:
        super().__init__(f"A session that is {state.value} cannot {event.value}.")
        self.state = state
        self.event = event


def advance(state: SessionState, event: SessionEvent) -> SessionState:
    """The state after the event; raises `LifecycleError` where the table has no entry."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise LifecycleError(state, event) from None
