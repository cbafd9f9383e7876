"""The ways in which requests reach the hub, each declared once.

Routing, `/.well-known/mcp`, the columns that name a transport, their filters and the console's words follow. The
database holds a transport's name and does not know which there are, so a further one needs no migration: it is a
declaration here and the consumer that `mcphub/routing.py` serves at its paths.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTransport:
    name: str
    """Stored with every session and call."""
    label: str | Promise
    path: str = ""
    """Where clients connect; empty where no HTTP path is its own."""
    messages_path: str = ""
    """Where clients send their messages, if not to `path`."""
    is_announced: bool = False
    """`/.well-known/mcp` names it, and every toolset has it at an address of its own."""
    session_end: str = ""
    """The ordinary end reason of its sessions in their rows; empty: it has no sessions."""


STREAMABLE_HTTP = ClientTransport(
    name="streamable-http",
    label=_("Streamable HTTP"),
    path="/mcp",
    is_announced=True,
    session_end="closed by the client",
)
SSE = ClientTransport(
    name="sse",
    label=_("HTTP+SSE"),
    path="/sse",
    messages_path="/messages",
    is_announced=True,
    session_end="the stream ended",
)
STDIO = ClientTransport(name="stdio", label=_("stdio"), session_end="the client closed its end")
REMOTE = ClientTransport(
    name="remote",
    label=_("Remote profile"),
    path="/mcp/events",
    messages_path="/mcp/messages",
    session_end="the stream ended",
)
REST = ClientTransport(name="rest", label=_("REST"))
CHAT = ClientTransport(name="chat", label=_("Chat"))
ADMIN = ClientTransport(name="admin", label=_("Admin"))

TRANSPORTS = {each.name: each for each in (STREAMABLE_HTTP, SSE, STDIO, REMOTE, REST, CHAT, ADMIN)}


def choices() -> list[tuple[str, str | Promise]]:
    """Return the values of a column that names a transport."""
    return [(each.name, each.label) for each in TRANSPORTS.values()]


def label_of(name: str) -> str:
    """Return the words for a stored name; the name itself where no transport has it any more."""
    return str(TRANSPORTS[name].label) if name in TRANSPORTS else name
