"""Lists of the console over tables that are never counted: the keyset's pages, as addresses and templates name them.

Searches without an index cover a number of rows from there on; the page then shows how far it got, with a link to
continue.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import ValidationError
from django.core.paginator import Page, Paginator
from django.db.models import IntegerField, Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _t

from sessions_app.kit.admin.changelist import AFTER, BEFORE, COLUMNS, POSITION, HubList
from sessions_app.kit.lists.keyset import Key, Keyset, KeysetPage, Order, WindowedKeyset, written

if TYPE_CHECKING:
    from sessions_app.kit.admin.base import UncountedAdmin

    _Paginator = Paginator[Any]
else:
    _Paginator = Paginator

_NO_FILTERS = {*POSITION, "e", "all", "_facets", "_popup", "_to_field", COLUMNS}


class KeysetPaginator(_Paginator):
    """The paginator interface of templates, for a list that is never counted; its one page is read already."""

    template_name = "admin/hub/keyset.html"
    count = 2**31
    """Of rows; nobody knows it."""
    keyset: Keyset[Any]
    reached: Key | None = None

    def page(self, number: int | str) -> Page[Any]:
        return Page(self.object_list, 1, self)

    @property
    def told_reached(self) -> str:
        """Return in words how far the page looked."""
        value = self.reached[0] if self.reached is not None else None
        if isinstance(value, datetime):
            return timezone.localtime(value).strftime("%Y-%m-%d %H:%M:%S %Z")
        return _t("number %(number)s") % {"number": value}


class KeysetList(HubList):
    """A list of unknown length; links from its page to the neighbouring ones."""

    newest = newer = older = further = ""
    """Addresses; `further` leads to the rows that the page did not look at."""
    has_key = False
    """Whether the search holds the key of a row."""

    @property
    def is_whole(self) -> bool:
        """Whether the page shows all that there is."""
        return not (self.newer or self.older or self.further)

    @property
    def _page(self) -> UncountedAdmin:
        return cast("UncountedAdmin", self.model_admin)

    def get_filters_params(self, params: dict[str, list[str]] | None = None) -> dict[str, list[str]]:
        kept = super().get_filters_params(params)
        for name in (BEFORE, AFTER):
            kept.pop(name, None)
        return kept

    def get_queryset(self, request: HttpRequest, *more: Any) -> QuerySet[Model]:
        searched = self.query
        self.has_key = self._page.is_windowed and self._is_key(searched)
        if not self.has_key:
            return super().get_queryset(request, *more)
        self.query = ""  # it finds its row, whatever else is searched
        rows = super().get_queryset(request, *more).filter(pk=searched)
        self.query = searched
        return rows

    def _is_key(self, searched: str) -> bool:
        """Return whether a row has this key; a number may mean anything."""
        if not searched or isinstance(self.model._meta.pk, IntegerField):
            return False
        try:
            return bool(self.model._default_manager.filter(pk=searched).exists())
        except (ValueError, ValidationError):
            return False

    def keyset(self, request: HttpRequest, order: Order[Any]) -> Keyset[Any]:
        """Return the reader of the list's pages: one with a window, if no index finds all that is asked for."""
        page, rows = self._page, self.queryset
        if not page.is_windowed:
            return page.keyset(rows, order, self.list_per_page)
        among = self.model._default_manager.all()
        asked = {name for name, value in request.GET.items() if value} - _NO_FILTERS
        by_index = (order.columns[0].lstrip("-"), *page.indexed)
        for spec in self.filter_specs:
            if getattr(spec, "field_path", None) in by_index:
                asked -= set(spec.expected_parameters())
                narrowed = spec.queryset(request, among)
                among = among if narrowed is None else narrowed
        if page.finds_by_keys:
            search = page.search_of(request)
            found = [each for each in search.demands if not each.is_excluded and each.of.of in by_index]
            for each in found:
                among = each.narrow(among)
            if not search.words and len(found) == len(search.demands):
                asked -= {"q"}
        if asked - ({"q"} if self.has_key else set()):
            return WindowedKeyset(rows, order, self.list_per_page, among=among, window=page.window)
        return Keyset(rows, order, self.list_per_page)

    def get_results(self, request: HttpRequest) -> None:
        if request.GET.get("p", "1") != "1":
            raise IncorrectLookupParameters("p")
        order = order_of(self._page)
        before, after = _place(request, order, BEFORE), _place(request, order, AFTER)
        keyset, upwards = self.keyset(request, order), before is None and after is not None
        page = keyset.page(after, backwards=True) if upwards else keyset.page(before, after)
        self.result_list = page.rows
        self.paginator = pages = KeysetPaginator(page.rows, self.list_per_page)
        pages.keyset, pages.reached = keyset, page.reached
        self.result_count = self.full_result_count = len(page.rows)
        self.show_full_result_count = self.can_show_all = False
        self.show_admin_actions = self.multi_page = True
        self._lead_on(page, upwards=upwards)

    def _lead_on(self, page: KeysetPage[Any], *, upwards: bool) -> None:
        self.newest = self.get_query_string({BEFORE: None, AFTER: None})
        newer, older = (page.onward, page.back) if upwards else (page.back, page.onward)
        self.newer, self.older = self._beside(AFTER, newer), self._beside(BEFORE, older)
        self.further = self._beside(AFTER if upwards else BEFORE, page.reached)

    def _beside(self, side: str, key: Key | None) -> str:
        return "" if key is None else str(self.get_query_string({BEFORE: None, AFTER: None, side: place_of(key)}))


def order_of(page: UncountedAdmin) -> Order[Model]:
    """Return the order of a list: by one column, newest first, and by the key."""
    columns = [str(page.ordering[0]), f"-{page.model._meta.pk.name}"]  # type: ignore[index]
    return Order(page.model, tuple(dict.fromkeys(columns)))


def place_of(key: Key) -> str:
    """Return the word by which an address names the place of a key."""
    return "~".join(written(key))


def _place(request: HttpRequest, order: Order[Model], name: str) -> Key | None:
    word = request.GET.get(name, "")
    try:
        return order.read(word.split("~", 1)) if word else None
    except (ValueError, OverflowError, ValidationError) as error:
        raise IncorrectLookupParameters(name) from error
