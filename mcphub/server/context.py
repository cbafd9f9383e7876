"""The one value that every MCP method sees, built from a session or from a self-describing request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from invocations.origin import Origin, Voice
from invocations.running import Watch
from sessions_app.protocol.envelope import RoutingHeaders
from sessions_app.protocol.revisions import Revision
from tools_catalog.selection import Selection

if TYPE_CHECKING:
    from mcphub.runtime import Hub


@dataclass(slots=True, kw_only=True)
class RequestContext:
    """Who asks, in which words, and how to answer before the answer."""

    hub: Hub
    origin: Origin
    revision: Revision
    request_id: str | int
    voice: Voice | None = None
    progress_token: str | int | None = None
    log_level: str | None = None
    watch: Watch | None = None
    gone: Watch | None = None
    """The same for who keeps the connection alive himself, where that costs less."""
    idempotency_key: str | None = None
    """What the door's own means say of it, as HTTP's header does."""
    headers: RoutingHeaders | None = None
    """Of a self-describing request, whose headers must agree with its body."""
    toolset: str = ""
    """The name of the toolset whose address the request came to; empty: the whole catalogue."""

    def catalog(self) -> Selection:
        """Give the tools that there are at this address; raise ToolsetNotFound."""
        catalog = self.hub.catalog()
        return catalog.toolset(self.toolset, self.origin.caller) if self.toolset else catalog


Result = dict[str, Any] | bytes
"""A result, or its JSON where it was encoded before."""

Handler = Callable[[RequestContext, dict[str, Any]], Any]
