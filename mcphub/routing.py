"""Which consumer serves which path, with or without a trailing slash; the rest is Django's."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from django.conf import settings

from mcphub.parts import Endpoints, TransportEndpoints
from mcphub.process import runtime
from mcphub.process.django_places import Application, DjangoPlaces
from mcphub.transports import health, own_port, refused, sse, streamable_http, wellknown
from sessions_app import endpoints, transports
from sessions_app.kit.features import declared, loaded
from sessions_app.transports import ClientTransport

logger = logging.getLogger(__name__)

SERVED: dict[ClientTransport, dict[str, Application]] = {
    transports.STREAMABLE_HTTP: {transports.STREAMABLE_HTTP.path: streamable_http.StreamableHttpEndpoint.as_asgi()},
    transports.SSE: {
        transports.SSE.path: sse.SseStream.as_asgi(),
        transports.SSE.messages_path: sse.SseMessages.as_asgi(),
    },
    **{loaded(each.transport): loaded(each.served) for each in declared(TransportEndpoints)},
}
"""Transports of MCP over HTTP, with the consumers of their paths."""

_ROUTES: list[Any] = [import_module(each.routes) for each in declared(Endpoints)]

CONSUMERS: dict[str, Application] = {
    **{path: consumer for served in SERVED.values() for path, consumer in served.items()},
    "/.well-known/mcp": wellknown.Description.as_asgi(),
    "/live": health.Live.as_asgi(),
    "/ready": health.Ready.as_asgi(),
    "/metrics": health.Metrics.as_asgi(),
    **{path: consumer for routes in _ROUTES for path, consumer in routes.CONSUMERS.items()},
}
PREFIXES: tuple[tuple[str, Application], ...] = tuple(pair for routes in _ROUTES for pair in routes.PREFIXES)
"""Looked at in order, where no path above fits."""
_ROOTS: tuple[str, ...] = tuple(root for routes in _ROUTES for root in routes.ROOTS)
"""Common beginnings of all prefixes, so that other paths are not compared with each of them."""

TOOLSETS = "/mcp/s/"
"""Prefix of toolset addresses; the name follows, and then a suffix of `AT_TOOLSET`."""
AT_TOOLSET: dict[str, Application] = {
    **{
        path.removeprefix(transports.STREAMABLE_HTTP.path): consumer
        for transport, served in SERVED.items()
        if transport.is_announced
        for path, consumer in served.items()
    },
    **{suffix: each for routes in _ROUTES for suffix, each in getattr(routes, "AT_TOOLSET", {}).items()},
}


class Router:
    """The ASGI application: lifespan, MCP endpoints, Django."""

    def __init__(self, django_application: Application) -> None:
        self._django = DjangoPlaces(django_application)
        self._own_port: int = settings.MCPHUB_METRICS_PORT
        served = {path: consumer for path, consumer in CONSUMERS.items() if not (self._own_port and path == "/metrics")}
        self._consumers = {spelling: consumer for path, consumer in served.items() for spelling in (path, path + "/")}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            if self._own_port and scope["server"][1] == self._own_port:
                await own_port.application(scope, receive, send)
                return
            consumer = self._consumers.get(path)
            if consumer is None and path.startswith(_ROOTS):
                consumer = next((each for prefix, each in PREFIXES if path.startswith(prefix)), None)
            if consumer is not None:
                await consumer(scope, receive, send)
            elif scope["path"].startswith(TOOLSETS):
                await self._toolset(scope, receive, send)
            elif workspace := endpoints.workspace_of(path):
                main = SERVED[transports.STREAMABLE_HTTP][transports.STREAMABLE_HTTP.path]
                await main({**scope, "mcphub.workspace": workspace}, receive, send)
            else:
                await self._django(scope, receive, refused.watched(scope, send))
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
            hub = await runtime.ensure()
            await hub.transports.open(SERVED)
        except Exception as error:
            logger.exception("The hub did not start")
            await send({"type": "lifespan.startup.failed", "message": f"The hub did not start: {error}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await runtime.stop()
        await send({"type": "lifespan.shutdown.complete"})
