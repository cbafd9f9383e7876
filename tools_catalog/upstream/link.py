"""A connection's inputs and reports: approvals, its state, its surroundings. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from sessions_app.protocol.errors import ConnectionFailed
from tools_catalog.backends.http.template import Secrets
from tools_catalog.call.base import Json
from tools_catalog.call.context import ToolContext
from tools_catalog.upstream import listing
from tools_catalog.upstream.account import AccountNeeded, Accounts
from tools_catalog.upstream.further import ReadOffers
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.upstream.states import LinkState


class Digests(Protocol):
    """A definition, as far as approvals distinguish it."""

    @property
    def digest(self) -> str: ...
    @property
    def schema_digest(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Approval:
    """An operator's approval of a tool: with the exact definition, or with any words over the same schemas."""

    digest: str
    schema_digest: str
    keeps_serving: bool = False
    trusts: bool = False

    def covers(self, tool: Digests) -> bool:
        if self.trusts or tool.digest == self.digest:
            return True
        return self.keeps_serving and tool.schema_digest == self.schema_digest


@dataclass(frozen=True, slots=True)
class Offer:
    """One of an upstream's offers, as the catalogue serves it."""

    kind: str
    name: str
    """There: of a resource its URI."""
    approval: Approval


@dataclass(slots=True)
class Link:
    """The state of a connection, for display. Passed to `report` whenever `status` changes."""

    connection_id: int
    status: LinkState = LinkState.DISCONNECTED
    error_message: str = ""
    protocol_version: str = ""
    server: str = ""
    latency_ms: float | None = None
    restarts: int = 0
    calls: int = 0
    failures: int = 0
    failed_in_a_row: int = 0
    paused_until: datetime | None = None
    """After that many failed calls in a row it is left alone; then one call is a trial for all."""
    connected_at: datetime | None = None
    reconnected_at: datetime | None = None
    last_used_at: datetime | None = None
    stderr: str = ""
    is_dirty: bool = field(default=False, compare=False)

    def count_reconnect(self) -> None:
        """Note that the connection, or a session of it, was lost and is made anew."""
        self.restarts += 1
        self.reconnected_at = datetime.now(UTC)
        self.is_dirty = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionEnvironment:
    """A connection's dependencies from the process: `discovered` gets every listing, `report` every change of state."""

    secret: Secrets
    version: str = ""
    lasts_seconds: float = 60.0
    answer_seconds: float = 900.0
    """So long a call waits for its client to come back."""
    process_id: str = ""
    """Of this process: the holder of a call that waits for its client is named in the client's next request."""
    is_found: Callable[[], bool] = lambda: True
    """Whether a client that comes back reaches this process for certain, be it through another one."""
    report: Callable[[Link], None] = lambda link: None
    discovered: Callable[[int, listing.Offers], Awaitable[None]] | None = None
    discovered_by: Callable[[int, str, listing.Offers], Awaitable[None]] | None = None
    """Called with the listing of a person's account, where lists depend on the user."""
    was_listed_to: Callable[[int, str, float], Awaitable[bool]] | None = None
    """Returns whether any process listed the offers for a person within so many seconds."""
    further: Mapping[str, ReadOffers] = field(default_factory=dict)
    """Readers of the offers of further kinds, by kind."""
    shown: Mapping[str, ReadOffers] = field(default_factory=dict)
    """The same for accounts of persons, where lists depend on the user."""
    updated: Callable[[str], None] = lambda uri: None
    """Called for each subscribed resource that has changed."""
    person_done: Callable[[str], None] = lambda elicitation_id: None
    """Called when the person is done at the address that some client knows by this ID."""
    updated_for_all: Callable[[str], None] = lambda uri: None
    """The same for a connection held by this process alone: the others are notified through it."""
    unprobed: Callable[[ConnectionSpec, str], Awaitable[None]] | None = None
    """Called with the server, by its own name and version, that did not answer a probe at an address; empty: none
    there.
    """
    declares: Callable[[ConnectionSpec, dict[str, dict[str, Json]]], Awaitable[None]] | None = None
    """Called with the vendors' extensions that an upstream declares now, of those that its connection passes."""
    lease: Callable[[int], Awaitable[bool]] | None = None
    """Asked before the one child of a hub is started: whether this process may."""
    holder: Callable[[int], Awaitable[str]] | None = None
    """Gives the process that runs the one child of a connection; empty where none does."""
    account: Accounts | None = None
    """Returns a session's authentication at an upstream that demands it."""
    connect: Callable[[AccountNeeded, ToolContext], Awaitable[None]] | None = None
    """Leads the person of a call to where the account is connected, if the client can. Raises as `input.require`."""
    address: Callable[[str], Awaitable[str]] | None = None
    """Gives where a process takes calls that are passed on; empty where it does not, or is gone."""


class HeldElsewhere(ConnectionFailed):
    """Another process of the hub runs the one child. Nothing was sent."""


class SuspendedElsewhere(Exception):
    """The call waits for its client in another process of the hub."""

    def __init__(self, process_id: str) -> None:
        super().__init__(process_id)
        self.process_id = process_id
