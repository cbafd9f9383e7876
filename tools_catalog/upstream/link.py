"""What a connection is handed and what it tells: approvals, its state, its surroundings. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

from tools_catalog.upstream import listing
from tools_catalog.upstream.spec import Secrets
from tools_catalog.upstream.states import LinkState


@dataclass(frozen=True, slots=True)
class Approval:
    """What an operator approved of a tool: with the exact definition, or with any words over the same schemas."""

    digest: str
    schema_digest: str
    keeps_serving: bool = False
    trusts: bool = False

    def covers(self, tool: listing.Listed) -> bool:
        if self.trusts or tool.digest == self.digest:
            return True
        return self.keeps_serving and tool.schema_digest == self.schema_digest


@dataclass(frozen=True, slots=True)
class Offer:
    """One of what an upstream offers, as the catalogue serves it."""

    kind: str
    name: str
    """There: of a resource its URI."""
    approval: Approval


@dataclass(slots=True)
class Link:
    """How a connection stands, for those who look at it. Told to `report` whenever `status` changes."""

    connection_id: int
    status: LinkState = LinkState.DISCONNECTED
    error_message: str = ""
    protocol_version: str = ""
    server: str = ""
    latency_ms: float | None = None
    restarts: int = 0
    calls: int = 0
    failures: int = 0
    connected_at: datetime | None = None
    last_used_at: datetime | None = None
    stderr: str = ""
    is_dirty: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a connection is handed by the process: `discovered` gets every listing, `report` every change of state."""

    secret: Secrets
    version: str = ""
    lasts_seconds: float = 60.0
    answer_seconds: float = 900.0
    """So long a call waits for its client to come back."""
    is_alone: Callable[[], bool] = lambda: True
    """Whether a client that comes back reaches this process for certain."""
    report: Callable[[Link], None] = lambda link: None
    discovered: Callable[[int, listing.Offers], Awaitable[None]] | None = None
    updated: Callable[[str], None] = lambda uri: None
    """Told of each resource that was subscribed to and reads differently now."""
    lease: Callable[[int], Awaitable[bool]] | None = None
    """Asked before the one child of a hub is started."""
