"""Lists of tables that are never counted: each page begins beside a row, newest first, so that none costs an offset.

What no index finds is looked for among so many rows from there on; the page then says how far it got, and leads on.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import ValidationError
from django.core.paginator import Page, Paginator
from django.db.models import IntegerField, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _t

from sessions_app.admin_changelist import AFTER, BEFORE, COLUMNS, POSITION, HubList

if TYPE_CHECKING:
    from sessions_app.admin_base import UncountedAdmin

    _Page = Page[Any]
    _Paginator = Paginator[Any]
else:
    _Page, _Paginator = Page, Paginator


class Place(NamedTuple):
    """Beside which row a page begins. Without a key: beside all rows that have the value."""

    value: Any
    key: Any = None

    def __str__(self) -> str:
        value = self.value.astimezone(UTC) if isinstance(self.value, datetime) else self.value
        word = value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)
        return word if self.key is None else f"{word}~{self.key}"

    def but_one(self, by: int) -> Place:
        """Give the place of all rows with the next value up (1) or down (-1)."""
        try:
            return Place(self.value + (by * timedelta(microseconds=1) if isinstance(self.value, datetime) else by))
        except OverflowError:  # an end of the calendar
            return Place(self.value)


class KeysetPage(_Page):
    has_more = False

    def has_next(self) -> bool:
        return self.has_more


class KeysetPaginator(_Paginator):
    """The page of rows, ordered by `-column` and the key, that lie below `before`; with `after` alone those above it.

    Nothing is counted: a page reads one row more than it shows.
    """

    template_name = "admin/hub/keyset.html"
    count = 2**31
    """Of rows; nobody knows it."""
    column = "id"
    window = 0
    """Rows that are looked at from the page's begin; 0: as many as it takes."""
    among: QuerySet[Any]
    """What an index finds of what is asked for; of these rows so many are looked at."""
    before: Place | None = None
    after: Place | None = None
    reached: Place | None = None
    """The page looked at nothing beyond it; None where the page is whole."""

    @cached_property
    def key(self) -> str:
        return str(self._rows.model._meta.pk.name)

    @property
    def _rows(self) -> QuerySet[Any]:
        return cast("QuerySet[Any]", self.object_list)

    @property
    def upwards(self) -> bool:
        return self.before is None and self.after is not None

    def read(self, word: str) -> Place:
        """Give the place that an address names; raise ValueError or ValidationError."""
        fields = self._rows.model._meta
        value, mark, key = word.partition("~")
        place = Place(_stored(fields.get_field(self.column), value), _stored(fields.pk, key) if mark else None)
        if place.key is not None and self.column == self.key:
            raise ValueError
        return place

    def place_of(self, row: Any) -> Place:
        return Place(getattr(row, self.column), None if self.column == self.key else row.pk)

    def page(self, number: int | str) -> KeysetPage:
        found, has_more = self._found()
        self.shown_page = page = KeysetPage(found[::-1] if self.upwards else found, 1, self)
        page.has_more = has_more
        return page

    def _found(self) -> tuple[list[Any], bool]:
        """Give the rows of the page, from its begin on, and whether more are known."""
        rows = self.between(self._rows)
        ends = self._ends() if self.window else []
        if ends:
            rows = rows.filter(**{f"{self.column}__{'lte' if self.upwards else 'gte'}": ends[0]})
        found = list(rows[: self.per_page + 1])
        has_more = len(found) > self.per_page
        if len(ends) > 1 and not has_more:
            self.reached = Place(ends[0])
        return found[: self.per_page], has_more

    def between(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Give the rows beyond the places, in the order in which the page reads them."""
        for place, side in ((self.before, "lt"), (self.after, "gt")):
            if place is not None and place.key is None:
                rows = rows.filter(**{f"{self.column}__{side}": place.value})
            elif place is not None:  # in this form the index by the column is searched
                rows = rows.filter(**{f"{self.column}__{side}e": place.value}).exclude(
                    **{self.column: place.value, f"{self.key}__{'gte' if side == 'lt' else 'lte'}": place.key}
                )
        sign = "" if self.upwards else "-"
        return rows.order_by(*dict.fromkeys((f"{sign}{self.column}", f"{sign}{self.key}")))

    def _ends(self) -> list[Any]:
        """Give the values of the last row that the page may look at and of the next one, as far as there are any."""
        values = self.between(self.among).values_list(self.column, flat=True)
        return list(values[self.window - 1 : self.window + 1])

    @property
    def told_reached(self) -> str:
        """Give in words how far the page looked."""
        value = self.reached.value if self.reached is not None else None
        if isinstance(value, datetime):
            return timezone.localtime(value).strftime("%Y-%m-%d %H:%M:%S %Z")
        return _t("number %(number)s") % {"number": value}


_NO_FILTERS = {*POSITION, "e", "all", "_facets", "_popup", "_to_field", COLUMNS}


class KeysetList(HubList):
    """A list whose length nobody knows, so that the page claims none; leads from its page to those beside it."""

    newest = newer = older = further = ""
    """Addresses; `further` leads to the rows that the page did not look at."""
    has_key = False
    """Whether the search holds the key of a row."""

    @property
    def is_whole(self) -> bool:
        """Whether the page shows all that there is."""
        return not (self.newer or self.older or self.further)

    def get_filters_params(self, params: Any = None) -> Any:
        kept = super().get_filters_params(params)
        for name in (BEFORE, AFTER):
            kept.pop(name, None)
        return kept

    def get_queryset(self, request: HttpRequest, *more: Any) -> QuerySet[Any]:
        written, page = self.query, cast("UncountedAdmin", self.model_admin)
        self.has_key = page.is_windowed and self._is_key(written)
        if not self.has_key:
            return super().get_queryset(request, *more)
        self.query = ""  # it finds its row, whatever else is searched
        rows = super().get_queryset(request, *more).filter(pk=written)
        self.query = written
        return rows

    def _window(self, request: HttpRequest, pages: KeysetPaginator) -> None:
        """Have the page look among so many rows, if no index finds all that is asked for."""
        page = cast("UncountedAdmin", self.model_admin)
        pages.among = self.model._default_manager.all()
        asked = {name for name, value in request.GET.items() if value} - _NO_FILTERS
        for spec in self.filter_specs:
            if getattr(spec, "field_path", None) in (pages.column, *page.indexed):
                asked -= set(spec.expected_parameters())
                narrowed = spec.queryset(request, pages.among)
                pages.among = pages.among if narrowed is None else narrowed
        if asked - ({"q"} if self.has_key else set()):
            pages.window = page.window

    def _is_key(self, written: str) -> bool:
        """Whether a row has this key; a number may mean anything."""
        if not written or isinstance(self.model._meta.pk, IntegerField):
            return False
        try:
            return bool(self.model._default_manager.filter(pk=written).exists())
        except (ValueError, ValidationError):
            return False

    def get_results(self, request: HttpRequest) -> None:
        if request.GET.get("p", "1") != "1":
            raise IncorrectLookupParameters("p")
        page = cast("UncountedAdmin", self.model_admin)
        pages = cast("KeysetPaginator", page.get_paginator(request, self.queryset, self.list_per_page))
        self.paginator = pages
        pages.column = page.keyset_column()
        if page.is_windowed:
            self._window(request, pages)
        pages.before, pages.after = _place(request, pages, BEFORE), _place(request, pages, AFTER)
        self.result_list = rows = list(pages.page(1))
        self.result_count = self.full_result_count = len(rows)
        self.show_full_result_count = self.can_show_all = False
        self.show_admin_actions = self.multi_page = True
        self._lead_on(pages, rows)

    def _lead_on(self, pages: KeysetPaginator, rows: Sequence[Any]) -> None:
        self.newest = self.get_query_string({BEFORE: None, AFTER: None})
        has_more, before, after = pages.shown_page.has_more, pages.before, pages.after
        # Beside an empty page lies the row that led to it.
        if rows and (has_more if pages.upwards else before is not None):
            self.newer = self._beside(AFTER, pages.place_of(rows[0]))
        elif before is not None and not rows:
            self.newer = self._beside(AFTER, before.but_one(-1))
        if rows and (pages.upwards or has_more):
            self.older = self._beside(BEFORE, pages.place_of(rows[-1]))
        elif after is not None and pages.upwards:
            self.older = self._beside(BEFORE, after.but_one(1))
        if pages.reached is not None:
            self.further = self._beside(AFTER if pages.upwards else BEFORE, pages.reached)

    def _beside(self, side: str, place: Place) -> str:
        return str(self.get_query_string({BEFORE: None, AFTER: None, side: str(place)}))


def _place(request: HttpRequest, pages: KeysetPaginator, name: str) -> Place | None:
    word = request.GET.get(name, "")
    try:
        return pages.read(word) if word else None
    except (ValueError, OverflowError, ValidationError) as error:
        raise IncorrectLookupParameters(name) from error


def _stored(field: Any, word: str) -> Any:
    """Give the value that a column may hold; raise ValueError, OverflowError or ValidationError."""
    value = field.to_python(word)
    if isinstance(value, datetime):
        return value.astimezone(UTC) if timezone.is_aware(value) else timezone.make_aware(value)
    if value is None or "\0" in word or (isinstance(value, int) and not 0 <= value < 2**63):
        raise ValueError
    return value
