"""Admin pages with lists searched by keys and values, where `SearchLine` is among their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.views.main import SEARCH_VAR
from django.db.models import QuerySet
from django.http import HttpRequest

from sessions_app.kit.admin.parts import ListPart
from sessions_app.kit.admin.search_line import SearchLine
from sessions_app.kit.lists import searching
from sessions_app.kit.lists.filters import ListFilter
from sessions_app.kit.lists.searching import Search

if TYPE_CHECKING:
    _Base = admin.ModelAdmin[Any]
else:
    from unfold.admin import ModelAdmin as _Base


class SearchedAdmin(_Base):
    filters: tuple[ListFilter, ...] = ()
    """Of the list, declared; REST's list may have the same ones."""
    parts: Sequence[ListPart] = ()
    """The list's parts beside its rows."""

    @property
    def finds_by_keys(self) -> bool:
        return any(isinstance(part, SearchLine) for part in self.parts)

    def search_of(self, request: HttpRequest) -> Search:
        """Return the address's search, read by the filters; for a list without keys, its words alone."""
        kept: Search | None = getattr(request, "_hub_search", None)
        if kept is None:
            text = request.GET.get(SEARCH_VAR, "")
            kept = searching.read(text, self.filters) if self.finds_by_keys else Search(text, words=text)
            self.check_search(request, kept)
            request._hub_search = kept  # type: ignore[attr-defined]  # it lasts as long as the request
        return kept

    def check_search(self, request: HttpRequest, search: Search) -> None:
        """Add this page's refusals to the problems of a search."""

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if self.finds_by_keys and not search_term.strip():
            return queryset, False
        if not self.finds_by_keys or search_term != request.GET.get(SEARCH_VAR):
            return self.search_words(request, queryset, search_term)
        search = self.search_of(request)
        rows = search.narrow(queryset)
        return self.search_words(request, rows, search.words) if search.words else (rows, False)

    def search_words(self, request: HttpRequest, queryset: QuerySet[Any], words: str) -> tuple[QuerySet[Any], bool]:
        """Return the rows that free words find, and whether a row may be among them twice."""
        return super().get_search_results(request, queryset, words)
