"""Where an edit comes from: by which way, and in which request. Every event of the history contains it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

ADMIN, REST, CLI, BUNDLE, SYSTEM = "admin", "rest", "cli", "bundle", "system"
DOORS = (ADMIN, REST, CLI)


@dataclass(frozen=True, slots=True)
class EditSource:
    via: str = SYSTEM
    request: HttpRequest | None = None
    stand_in: Any = None
    """The actor in place of the request's anonymous user: an object with an `actor`."""
    door: str = SYSTEM
    """By which of `DOORS` a person or program came; a bundle that is loaded there does not change it."""

    @property
    def user(self) -> Any:
        """The author of the request: a user, a key's principal, a stand-in, or None outside of requests."""
        return self.stand_in or getattr(self.request, "user", None)


_source: ContextVar[EditSource] = ContextVar("edit source", default=EditSource())  # noqa: B039 - frozen


def current() -> EditSource:
    return _source.get()


@contextmanager
def edits_via(via: str, request: HttpRequest | None = None) -> Iterator[None]:
    """Mark the edits inside with this source; without `request` the outer one stays."""
    outer = _source.get()
    door = via if via in DOORS else outer.door
    token = _source.set(replace(outer, via=via, request=request or outer.request, door=door))
    try:
        yield
    finally:
        _source.reset(token)


@contextmanager
def edits_by(stand_in: Any) -> Iterator[None]:
    """Attribute the edits inside to `stand_in`, named by its `actor`, instead of the page's visitor."""
    token = _source.set(replace(_source.get(), stand_in=stand_in))
    try:
        yield
    finally:
        _source.reset(token)


@sync_and_async_middleware
def edit_source(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Middleware: attributes a request's edits to the admin or to REST, and its user."""
    if iscoroutinefunction(get_response):

        async def serve_async(request: HttpRequest) -> HttpResponseBase:
            with edits_via(_via(request), request):
                answered: Awaitable[HttpResponseBase] = get_response(request)
                return await answered

        return serve_async

    def serve(request: HttpRequest) -> HttpResponseBase:
        with edits_via(_via(request), request):
            response: HttpResponseBase = get_response(request)
            return response

    return serve


def _via(request: HttpRequest) -> str:
    return REST if request.path_info.startswith(("/api/", "/scim/")) else ADMIN
