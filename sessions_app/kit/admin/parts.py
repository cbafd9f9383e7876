"""Parts of a list's page: the page calls each of its parts in order, without knowing their function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

    from sessions_app.kit.admin.base import HubAdmin
    from sessions_app.kit.admin.changelist import HubList

Column = str | Callable[..., Any]
"""Of a list: a name that its page resolves, or a function that renders a row's cell."""


class ListPart:
    """An addition to a list beside its rows; `page` is the admin of the list."""

    def urls(self, page: HubAdmin) -> list[URLPattern]:
        """Return addresses of its own, below that of the list."""
        return []

    def instead(self, page: HubAdmin, request: HttpRequest) -> HttpResponseBase | None:
        """Return an answer in place of the list, before any row is read."""
        return None

    def columns(self, page: HubAdmin, request: HttpRequest, usual: list[Column]) -> list[Column]:
        """Return the columns to show, of those that the parts before it show."""
        return usual

    def context(self, page: HubAdmin, request: HttpRequest) -> dict[str, object]:
        """Return its context for the list's templates."""
        return {}

    def listed(self, page: HubAdmin, request: HttpRequest, shown: HubList) -> HttpResponseBase | None:
        """Process the rows that were read; may change their display, or return another response."""
        return None


def column(
    words: _StrOrPromise, draw: Callable[[Any], object], *, ordering: str | None = None
) -> Callable[[Any, Any], Any]:
    """Return a column, or a read-only field, rendered by `draw`; a method of an admin class."""

    @admin.display(description=words, ordering=ordering)
    def shown(page: object, row: object) -> object:
        return draw(row)

    return shown
