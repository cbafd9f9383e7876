"""Which consumer serves which path of the chat. Read by routing.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcphub.features.chat.endpoints import approvals, completions, model_list, own_api, query, responses

Application = Callable[[Any, Any, Any], Awaitable[None]]

CONSUMERS: dict[str, Application] = {
    "/v1/chat/completions": completions.CompletionsEndpoint.as_asgi(),
    "/v1/responses": responses.ResponsesEndpoint.as_asgi(),
    "/v1/models": model_list.ModelsEndpoint.as_asgi(),
    "/api/query": query.QueryEndpoint.as_asgi(),
    "/v1/query": query.QueryEndpoint.as_asgi(),
    "/api/session": own_api.SessionsEndpoint.as_asgi(),
    "/v1/sessions": own_api.SessionsEndpoint.as_asgi(),
    "/api/tools": own_api.ToolsEndpoint.as_asgi(),
    "/api/health": own_api.HealthEndpoint.as_asgi(),
}
PREFIXES: tuple[tuple[str, Application], ...] = (
    ("/v1/models/", model_list.ModelsEndpoint.as_asgi()),
    ("/v1/responses/", responses.StoredResponseEndpoint.as_asgi()),
    ("/v1/approvals/", approvals.ApprovalEndpoint.as_asgi()),
    ("/v1/sessions/", own_api.SessionEndpoint.as_asgi()),
    ("/api/session/", own_api.SessionEndpoint.as_asgi()),
    ("/v1/", model_list.UnknownEndpoint.as_asgi()),
)
"""Looked at in order, where no path above fits."""
ROOTS = ("/v1/", "/api/session/")
"""Common beginnings of all prefixes, so that other paths are not compared with each of them."""
