"""Which refusals of the doors are kept for a while, so that the connect page can say why nothing arrives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcphub import runtime
from sessions_app.door import turned

_NOTED = frozenset({401, 403, 404, 406, 415, 421})
_OWN = ("/admin/", "/api/", "/static/")
"""What Django serves; its refusals are people's."""

Send = Callable[[Any], Awaitable[None]]


def note(scope: Any, status: int, code: str, reason: str) -> None:
    """Keep a refusal. A 405 counts for POST alone: clients ask with GET whether there is a stream."""
    hub = runtime.current()
    if hub is not None and (status in _NOTED or (status == 405 and scope["method"] == "POST")):
        address = (scope.get("client") or ("",))[0]
        hub.door.note(turned(status, code, reason, scope["path"], address, scope["headers"]))


def watched(scope: Any, send: Send) -> Send:
    """Note an answer of Django to a client that took some other address for an endpoint: it posts JSON there."""
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
