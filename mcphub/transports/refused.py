"""Rejected requests that are kept for a while, so that the connect page can explain missing calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcphub.process import runtime
from sessions_app.refused_requests import refusal_of

_NOTED = frozenset({401, 403, 404, 406, 415, 421})
_OWN = ("/admin/", "/api/", "/static/")
"""Django's addresses; people, not MCP clients, meet their refusals."""

Send = Callable[[Any], Awaitable[None]]


def note(scope: Any, status: int, code: str, reason: str) -> None:
    """Keep a refused request. A 405 counts for POST alone: clients ask with GET whether there is a stream."""
    hub = runtime.current()
    if hub is not None and (status in _NOTED or (status == 405 and scope["method"] == "POST")):
        address = (scope.get("client") or ("",))[0]
        hub.refused_requests.note(refusal_of(status, code, reason, scope["path"], address, scope["headers"]))


def watched(scope: Any, send: Send) -> Send:
    """Keep Django's refusal of a client that posts JSON to an address that is no endpoint."""
    path = scope["path"]
    if scope["method"] != "POST" or path.startswith(_OWN):
        return send
    if not any(name == b"content-type" and value.startswith(b"application/json") for name, value in scope["headers"]):
        return send

    async def watching(message: Any) -> None:
        if message["type"] == "http.response.start" and message["status"] in (403, 404, 405):
            note(scope, 404, "not_found", "")
        await send(message)

    return watching
