"""Places for Django's work: pages, REST, audit queries, exports. Calls have none of them, and go first.

Each request that Django answers has a thread, and threads take the interpreter from the event loop, which carries the
calls. Few are at work at once, callers take turns, and a long wait is answered with a retry time.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from django.http import HttpResponse

from mcphub import content_security, error_pages
from mcphub.process import runtime
from sessions_app.kit.addresses import network_of
from sessions_app.kit.places import NoPlace, Places
from sessions_app.protocol.errors import HubError

Application = Callable[[Any, Any, Any], Awaitable[None]]

PATIENCE_SECONDS: Final = 10.0
"""For a place; then the request is refused."""
_AGAIN_SECONDS: Final = 5
_EXPORT = re.compile(r"/api/audit/export/?|/admin/.+/export/")
_QUESTION = re.compile(r"/api/(invocations|audit)(/.*)?|/admin/(invocations/.*)?|/admin/.+/calls/")
"""Counting and searching in the audit, by GET."""


class DjangoPlaces:
    """Django's application, with so many requests of each kind at once, and so many that wait."""

    def __init__(
        self,
        application: Application,
        *,
        pages: tuple[int, int] = (24, 256),
        questions: tuple[int, int] = (4, 64),
        exports: tuple[int, int] = (4, 16),
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._application = application
        self._pages, self._questions, self._exports = Places(*pages), Places(*questions), Places(*exports)
        self._patience_seconds = patience_seconds

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        places, caller = self._places_for(scope["path"], scope["method"]), _caller(scope)
        try:
            async with asyncio.timeout(self._patience_seconds):
                await places.take(caller)
        except (NoPlace, TimeoutError):
            refusal = error_pages.too_busy(scope["path"], retry_after_seconds=_AGAIN_SECONDS)
            refusal["X-Request-Id"] = uuid.uuid4().hex  # what Django's middleware gives to the others
            refusal["Content-Security-Policy"] = content_security.ADMIN
            await _answer(refusal, send)
            return
        is_held = True

        async def watching(message: Any) -> None:
            nonlocal is_held
            # A live stream takes no thread while it waits, and has bounds of its own.
            if is_held and message["type"] == "http.response.start" and _is_stream(message):
                is_held = False
                places.give_back(caller)
            await send(message)

        try:
            await self._application(scope, receive, watching)
        finally:
            if is_held:
                places.give_back(caller)

    def _places_for(self, path: str, method: str) -> Places:
        if _EXPORT.fullmatch(path):
            return self._exports
        return self._questions if method in ("GET", "HEAD") and _QUESTION.fullmatch(path) else self._pages


def _caller(scope: Any) -> str:
    """Return the caller whose turn it is: that of a valid key, else of an address, as a cookie can be invented."""
    hub = runtime.current()
    if hub is not None:
        for name, value in scope["headers"]:
            if name == b"authorization":
                with suppress(HubError):
                    return hub.configuration.keys.caller(value.decode("latin-1")).principal
    return f"address:{network_of((scope.get('client') or ('',))[0])}"


def _is_stream(message: Any) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )


async def _answer(response: HttpResponse, send: Any) -> None:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.items()]
    headers.append((b"content-length", str(len(response.content)).encode()))
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})
