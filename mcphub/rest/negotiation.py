"""Whether REST answers with JSON or with a page: programs get JSON as ever, a browser gets a page of the console.

A module of its own, without views: DRF imports it while it defines them.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import admin, auth
from django.db import DatabaseError
from django.http import HttpRequest, QueryDict
from django.utils.functional import SimpleLazyObject
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.settings import DEFAULTS, IMPORT_STRINGS, APISettings

_READS = ("GET", "HEAD")


class PagesForPeople(DefaultContentNegotiation):
    """Adds pages to a view's formats, for browsers, where there is a console.

    They come last, so that `*/*` and `application/json` find JSON first. They are no `renderer_classes`: OpenAPI would
    promise them to programs.
    """

    settings: Any = APISettings(settings.HUB_REST, DEFAULTS, IMPORT_STRINGS)
    """As `kit.rest.base` has them, which reads this module."""

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        if not _may_be_a_browser(request._request):
            return super().select_renderer(request, renderers, format_suffix)
        from mcphub.rest.pages import PageRenderer

        chosen = super().select_renderer(request, [*renderers, PageRenderer()], format_suffix)
        if isinstance(chosen[0], PageRenderer):
            _leave_out_empty(request._request)
        return chosen


def _may_be_a_browser(request: HttpRequest) -> bool:
    """Return whether a page can be shown: to users of the console, which a host has not, and to anonymous visitors,
    who may log in.
    """
    if settings.MCPHUB_EMBEDDED:
        return False
    if request.method not in _READS or "Authorization" in request.headers or not request.path.startswith("/api/"):
        return False
    remember_person(request)
    try:
        return not request.user.is_authenticated or admin.site.has_permission(request)
    except DatabaseError:  # then the page says so, without the console around it
        return True


def remember_person(request: HttpRequest) -> None:
    """Restore the logged-in person: DRF clears it on Django's request if a view requires nobody, or rejects the
    request.
    """
    if request.user is None:
        request.user = SimpleLazyObject(lambda: auth.get_user(request))


def _leave_out_empty(request: HttpRequest) -> None:
    """Take out parameters without a value, which the form of a page sends for each field that is left empty."""
    asked = QueryDict(mutable=True)
    for name, values in request.GET.lists():
        if given := [value for value in values if value]:
            asked.setlist(name, given)
    if asked != request.GET:
        request.GET = asked  # type: ignore[assignment]  # Django declares it immutable
        request.META["QUERY_STRING"] = asked.urlencode()  # from which addresses of further pages are made
