"""The seam between the client of an upstream and the ways to one: messages out, messages in, an end that says why.

A transport sends a request and gives the response to it. What comes before that, and what comes unasked, it hands to
the `MessageHandler`. Nothing here knows an era but the transports of Streamable HTTP, which have one for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from sessions_app.kit import decoding
from sessions_app.protocol import errors, json
from sessions_app.protocol.envelope import ParamHeader
from sessions_app.protocol.json import Json
from tools_catalog.call.context import ToolContext

Message = dict[str, Json]
"""A JSON-RPC message as it came, or as it is sent."""

DEEPEST: Final = 250
_KEPT_ALIVE: Final = frozenset({"initialize", "server/discover"})


class SessionLost(Exception):
    """The session ended before the request was taken: nothing ran."""


@dataclass(slots=True)
class OutgoingRequest:
    """A request of the hub. `context` is the call that it is made for."""

    id: int
    method: str
    params: Mapping[str, Json]
    context: ToolContext | None = None
    param_headers: tuple[ParamHeader, ...] = ()
    """Arguments of the call that headers repeat."""

    def encode(self) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": self.id, "method": self.method, "params": self.params})

    @property
    def is_call(self) -> bool:
        """Whether what names no request may be about it; what is about a task names the task."""
        return self.context is not None and not self.method.startswith("tasks/")

    @property
    def cancellation(self) -> bytes | None:
        """The notification that takes it back; None for a request that cannot be taken back (MCP, Cancellation)."""
        if self.method in _KEPT_ALIVE:
            return None
        return notification("notifications/cancelled", {"requestId": self.id})


class MessageHandler(Protocol):
    """Takes what the upstream sends besides responses."""

    async def take(self, message: Message, request: OutgoingRequest | None) -> None:
        """Take a request or notification. `request` is the one on whose stream it came, if it has a stream."""
        ...

    def call_at_address(self, elicitation_id: Json) -> ToolContext | None:
        """Give the call whose client was sent to the address of this id."""
        ...

    def lost(self, why: str) -> None:
        """The transport can carry no more."""
        ...


class Transport(Protocol):
    """A way to one upstream. `open` it, use it from any task, `close` it."""

    is_one_stream: bool
    """One stream carries everything: what ends it ends all."""

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
        """Give the transport for revisions that begin with `initialize`; this one is of no more use then."""
        ...

    async def begin_session(self, version: str) -> None:
        """Note what `initialize` agreed on, and listen to what the upstream says unasked."""
        ...

    def abort(self) -> None:
        """Carry nothing more, at once: what waits for a response gets TransportError."""
        ...

    async def close(self) -> None:
        """End the session and everything that belongs to it."""
        ...


async def decoded(raw: bytes) -> Message:
    """Read one message, a large one in a thread. Raises ResultInvalid for what is none of JSON-RPC."""
    return await decoding.answers.decoded(raw, decode)


def decode(raw: bytes) -> Message:
    """Read one message. Raises ResultInvalid for what is none of JSON-RPC."""
    try:
        json.refuse_many(raw)
        message = json.loads(raw, max_depth=DEEPEST)
    except errors.ParseError as error:
        raise errors.ResultInvalid(f"The upstream's answer cannot be read: {error}") from error
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise errors.ResultInvalid("The upstream's answer is no JSON-RPC.")
    return message


def notification(method: str, params: Mapping[str, Json]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params})
