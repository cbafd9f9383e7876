"""The hub beside a host's ASGI application: by path, and through one lifespan."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from mcphub.embedding import Application, checks
from mcphub.embedding.own_tools import register_own_tools
from mcphub.embedding.serving import RestHandler
from mcphub.process import runtime
from mcphub.routing import SERVED, Router
from tools_catalog.upstream.confinement import kernel

logger = logging.getLogger(__name__)


def prefix() -> str:
    """Return the path of the hub in the host, without a slash at its end; raise ImproperlyConfigured for none."""
    path = urlsplit(settings.MCPHUB_PUBLIC_URL).path.rstrip("/")
    if not path:
        raise ImproperlyConfigured(
            f"MCPHUB's PUBLIC_URL is {settings.MCPHUB_PUBLIC_URL!r}, without a path for the hub. Write a path that no "
            "page of yours has, such as https://shop.example/hub."
        )
    return path


class Mounted:
    """The ASGI application of both. The hub starts with the server, or with its first request where there is no
    lifespan.
    """

    def __init__(self, host: Application) -> None:
        self._host = host
        self._hub = Router(RestHandler())
        self._prefix = prefix()
        self._starting = asyncio.Lock()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif scope["type"] == "http" and (own := self._own_path(scope)):
            await self._start()
            root = scope.get("root_path", "") + self._prefix
            await self._hub({**scope, "path": own, "root_path": root}, receive, send)
        else:
            await self._host(scope, receive, send)

    def _own_path(self, scope: Any) -> str:
        """Return the path within the hub; empty for one of the host's."""
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        return path.removeprefix(self._prefix) if path.startswith(self._prefix + "/") else ""

    async def _start(self) -> None:
        if runtime.current() is not None:
            return
        async with self._starting:
            if runtime.current() is not None:
                return
            if sys.platform == "linux":  # before there are child processes, which would read secrets from /proc
                kernel.be_undumpable()
            checks.refuse_errors()
            await database_sync_to_async(register_own_tools)()
            hub = await runtime.ensure()
            await hub.transports.open(SERVED)

    async def _lifespan(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        theirs = _HostLifespan(self._host, scope)
        try:
            await theirs.start()
            await self._start()
        except Exception as error:
            logger.exception("The server did not start")
            await send({"type": "lifespan.startup.failed", "message": f"The server did not start: {error}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await runtime.stop()
        await theirs.stop()
        await send({"type": "lifespan.shutdown.complete"})


class _HostLifespan:
    """The host's own part of the lifespan. Django's application has none and raises, which counts as a start."""

    def __init__(self, host: Application, scope: Any) -> None:
        self._requests: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self._answers: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self._host, self._scope = host, scope
        self._task: asyncio.Future[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.ensure_future(self._host(self._scope, self._requests.get, self._answers.put))
        answer = await self._ask("lifespan.startup")
        if answer.get("type") == "lifespan.startup.failed":
            raise RuntimeError(answer.get("message", ""))

    async def stop(self) -> None:
        await self._ask("lifespan.shutdown")

    async def _ask(self, kind: str) -> dict[str, str]:
        """Return the host's answer; empty once its application has ended."""
        assert self._task is not None
        await self._requests.put({"type": kind})
        answer = asyncio.ensure_future(self._answers.get())
        either: set[asyncio.Future[Any]] = {answer, self._task}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            self._task.exception()  # read, so that asyncio does not report it
        if answer.done():
            return answer.result()
        answer.cancel()
        return {}
