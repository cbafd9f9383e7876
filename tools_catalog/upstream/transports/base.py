"""The seam between the client of an upstream and the ways to one: messages out, messages in, an end with a reason.

A transport sends a request and gives the response to it. Earlier messages, and unsolicited ones, go to the
`MessageHandler`. Nothing here knows an era but the transports of Streamable HTTP, which have one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from sessions_app.protocol import errors, json
from sessions_app.protocol.envelope import ParamHeader
from sessions_app.protocol.json import Json
from tools_catalog.call.context import ToolContext
from tools_catalog.upstream.transports.reading import Message

_KEPT_ALIVE: Final = frozenset({"initialize", "server/discover"})


Follow: TypeAlias = Callable[[str, dict[str, Json]], None]
"""Takes a notification of an extension, by its method and parameters. It must not wait."""


ENDED: Final = "The upstream ended the session."


class SessionLost(Exception):
    """The session ended before the request was taken: nothing ran. `refusal` is what was said instead of an answer."""

    def __init__(self, why: str, refusal: errors.HubError | None = None) -> None:
        super().__init__(why)
        self.refusal = refusal


@dataclass(slots=True)
class OutgoingRequest:
    """A request of the hub. `context` is the call that it is made for."""

    id: int
    method: str
    params: Mapping[str, Json]
    context: ToolContext | None = None
    param_headers: tuple[ParamHeader, ...] = ()
    """Arguments of the call that headers repeat."""
    follow: Follow | None = None
    """Takes the notifications of this request that the core does not know."""

    def encode(self) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": self.id, "method": self.method, "params": self.params})

    @property
    def is_call(self) -> bool:
        """Whether a message without a request may concern it; a message about a task names the task."""
        return self.context is not None and not self.method.startswith("tasks/")

    @property
    def cancellation(self) -> bytes | None:
        """The notification that takes it back; None for a request that cannot be taken back (MCP, Cancellation)."""
        if self.method in _KEPT_ALIVE:
            return None
        return notification("notifications/cancelled", {"requestId": self.id})


class MessageHandler(Protocol):
    """Handles the upstream's messages besides responses."""

    async def take(self, message: Message, request: OutgoingRequest | None) -> None:
        """Take a request or notification. `request` is the one on whose stream it came, if it has a stream."""
        ...

    def call_at_address(self, elicitation_id: Json) -> ToolContext | None:
        """Return the call whose client was sent to the address of this ID."""
        ...

    def lost(self, why: str) -> None:
        """The transport can carry no more."""
        ...


class Transport(Protocol):
    """A way to one upstream. `open` it, use it from any task, `close` it."""

    is_one_stream: bool
    """One stream carries everything: its end ends all."""

    async def open(self) -> None:
        """Raise ConnectionFailed, TransportError."""
        ...

    async def exchange(self, request: OutgoingRequest) -> Message:
        """Send a request; give the response, an error too. Cancelled, it takes the request back.

        Raises ConnectionFailed where nothing was sent; SessionLost, TransportError, UpstreamError, ResultInvalid.
        """
        ...

    async def send(self, message: bytes) -> None:
        """Send a notification, or a response of the hub's. Raises TransportError where that is known to have failed."""
        ...

    def with_sessions(self) -> Transport:
        """Return the transport for revisions that begin with `initialize`; this one is of no more use then."""
        ...

    async def begin_session(self, version: str) -> None:
        """Note the agreement of `initialize`, and listen to the upstream's unsolicited messages."""
        ...

    def abort(self) -> None:
        """Stop at once: waiting requests get TransportError."""
        ...

    async def close(self) -> None:
        """End the session and everything that belongs to it."""
        ...


def notification(method: str, params: Mapping[str, Json]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params})
