"""REST in a host: the host's middleware and login, the hub's URLconf, with the prefix as Django's script name.

So addresses are those of the hub's own project to every view, `reverse()` and `build_absolute_uri()` write the prefix,
and names such as `schema` do not meet the host's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.http.response import HttpResponseBase
from django.urls import get_resolver

from mcphub.rest.correlation import correlated
from sessions_app.history.source import edit_source
from sessions_app.workspaces.acting import in_workspace

_URLS: Final = "mcphub.embedding.urls"
_REST: Final = "/api/"


class PrefixedRequest(ASGIRequest):
    urlconf = _URLS


class RestHandler(ASGIHandler):
    """Django's application for addresses of the hub. It runs within the process of the host's."""

    request_class = PrefixedRequest

    def __init__(self) -> None:
        super().__init__()
        get_resolver(_URLS).url_patterns  # noqa: B018 - imports the views now, not in the first request
        self._within: Any = correlated(edit_source(in_workspace(super()._get_response_async)))  # type: ignore[misc]  # the stubs leave it out

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if not scope["path"].startswith(_REST):
            await _nowhere(send)
            return
        await super().__call__({**scope, "path": scope["root_path"] + scope["path"]}, receive, send)

    async def _get_response_async(self, request: Any) -> HttpResponseBase:
        """Answer within the host's middleware, which has found the person."""
        answer: HttpResponseBase = await self._within(request)
        return answer

    def make_view_atomic(self, view: Callable[..., Any]) -> Callable[..., Any]:
        """Return the view as it is, whatever ATOMIC_REQUESTS says: the hub's views have transactions of their own."""
        return view


async def _nowhere(send: Any) -> None:
    body = b"There is no such address of the MCP hub here. MCP clients use the address that ends in /mcp.\n"
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": body})
