"""Which consumer serves which path of the chat doors. Read by routing.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcphub.chat import approving, completions, contract, listing, query_door
from mcphub.chat.responses import door as responses

Application = Callable[[Any, Any, Any], Awaitable[None]]

CONSUMERS: dict[str, Application] = {
    "/v1/chat/completions": completions.Completions.as_asgi(),
    "/v1/responses": responses.Responses.as_asgi(),
    "/v1/models": listing.Models.as_asgi(),
    "/api/query": query_door.AskQuery.as_asgi(),
    "/v1/query": query_door.AskQuery.as_asgi(),
    "/api/session": contract.NewSession.as_asgi(),
    "/v1/sessions": contract.NewSession.as_asgi(),
    "/api/tools": contract.Tools.as_asgi(),
    "/api/health": contract.Health.as_asgi(),
}
PREFIXES: tuple[tuple[str, Application], ...] = (
    ("/v1/models/", listing.Models.as_asgi()),
    ("/v1/responses/", responses.Stored.as_asgi()),
    ("/v1/approvals/", approving.Approval.as_asgi()),
    ("/v1/sessions/", contract.Session.as_asgi()),
    ("/api/session/", contract.Session.as_asgi()),
    ("/v1/", listing.Nowhere.as_asgi()),
)
"""Looked at in order, where no path above fits."""
ROOTS = ("/v1/", "/api/session/")
"""What every prefix begins with, so that other paths are not compared with each of them."""
