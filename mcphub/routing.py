"""Which consumer serves which path, with or without a trailing slash; the rest is Django's."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from mcphub import runtime
from mcphub.chat import routes as chat
from mcphub.transports import doors, health, remote, sse, streamable_http, wellknown

logger = logging.getLogger(__name__)

Application = Callable[[Any, Any, Any], Awaitable[None]]

CONSUMERS: dict[str, Application] = {
    "/mcp": streamable_http.StreamableHttp.as_asgi(),
    "/sse": sse.EventStream.as_asgi(),
    "/messages": sse.Messages.as_asgi(),
    "/mcp/events": remote.Events.as_asgi(),
    "/mcp/messages": remote.Messages.as_asgi(),
    "/.well-known/mcp": wellknown.Description.as_asgi(),
    "/live": health.Live.as_asgi(),
    "/ready": health.Ready.as_asgi(),
    "/metrics": health.Metrics.as_asgi(),
    **chat.CONSUMERS,
}

TOOLSETS = "/mcp/s/"
"""What the addresses of toolsets begin with; the name follows, and then what `AT_TOOLSET` has."""
AT_TOOLSET: dict[str, Application] = {
    "": CONSUMERS["/mcp"],
    "/sse": CONSUMERS["/sse"],
    "/messages": CONSUMERS["/messages"],
}


class Router:
    """The ASGI application: lifespan, MCP endpoints, Django."""

    def __init__(self, django_application: Application) -> None:
        self._django = django_application
        self._consumers = {
            spelling: consumer for path, consumer in CONSUMERS.items() for spelling in (path, path + "/")
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            consumer = self._consumers.get(path)
            if consumer is None and path.startswith(chat.ROOTS):
                consumer = next((each for prefix, each in chat.PREFIXES if path.startswith(prefix)), None)
            if consumer is not None:
                await consumer(scope, receive, send)
            elif scope["path"].startswith(TOOLSETS):
                await self._toolset(scope, receive, send)
            else:
                await self._django(scope, receive, doors.watched(scope, send))
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})

    async def _toolset(self, scope: Any, receive: Any, send: Any) -> None:
        name, slash, rest = scope["path"].removeprefix(TOOLSETS).removesuffix("/").partition("/")
        consumer = AT_TOOLSET.get(slash + rest)
        if consumer is None or not name:
            await self._django(scope, receive, send)
        else:
            await consumer({**scope, "mcphub.toolset": name}, receive, send)

    async def _lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        try:
            await runtime.ensure()
        except Exception as error:
            logger.exception("The hub did not start")
            await send({"type": "lifespan.startup.failed", "message": f"The hub did not start: {error}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await runtime.stop()
        await send({"type": "lifespan.shutdown.complete"})
