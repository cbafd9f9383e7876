"""What the lists of the admin are made of: which rows a page shows, of tables that are never counted.

`admin_base` puts pages together from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_time

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList as _List

    _Choice = admin.SimpleListFilter
    _Range = admin.FieldListFilter
    _Page = Page[Any]
    _Paginator = Paginator[Any]
else:
    _Page, _Paginator = Page, Paginator
    from unfold.contrib.filters.admin import DropdownFilter as _Choice
    from unfold.contrib.filters.admin import RangeDateTimeFilter as _Range
    from unfold.views import ChangeList as _List


MOST_TRIED = 30
"""Parameters; no list has as many filters."""


COLUMNS = "columns"
"""In the address of a list: the names of the columns to show, with commas between them (see admin_lists)."""
BEFORE, AFTER = "before", "after"
"""The same: beside which row a page begins (see admin_keyset)."""
POSITION = ("p", BEFORE, AFTER)


class HubList(_List):
    def get_filters_params(self, params: Any = None) -> Any:
        kept = super().get_filters_params(params)
        kept.pop(COLUMNS, None)  # no filter
        return kept


class ChoiceFilter(_Choice):
    """One of the choices that `lookups` gives, and nothing else."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if not chosen:
            return queryset
        if chosen not in {value for value, _words in self.lookup_choices}:
            raise IncorrectLookupParameters(self.parameter_name)
        return self.narrow(queryset, chosen)

    def narrow(self, queryset: QuerySet[Any], chosen: str) -> QuerySet[Any]:
        raise NotImplementedError


_FINEST = timedelta(microseconds=1)
"""Between two moments that are told apart."""


class TimeRangeFilter(_Range):
    """A range of time in the hub's zone; a day without a time means its begin or its end."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        after, before = self.bounds()
        if after is not None:
            queryset = queryset.filter(**{f"{self.field_path}__gte": after})
        return queryset if before is None else queryset.filter(**{f"{self.field_path}__lt": before})

    def bounds(self) -> tuple[datetime | None, datetime | None]:
        """Give the first moment of the range and the first after it, None where that side is open.

        Raises IncorrectLookupParameters for what is no time.
        """
        found: list[datetime | None] = []
        for side, default in (("from", time.min), ("to", time.max)):
            try:
                day = parse_date(self._given(f"{side}_0"))
                clock = parse_time(self._given(f"{side}_1")) or default
            except ValueError as error:
                raise IncorrectLookupParameters(self.field_path) from error
            if day is None and self._given(f"{side}_0"):
                raise IncorrectLookupParameters(self.field_path)
            found.append(None if day is None else timezone.make_aware(datetime.combine(day, clock)))
        after, last = found
        try:
            return after, None if last is None else last + _FINEST
        except OverflowError:  # the end of the calendar: no end
            return after, None

    def _given(self, part: str) -> str:
        return str(self.used_parameters.get(f"{self.field_path}_{part}") or "").strip()


def holds_nul(query: QueryDict) -> bool:
    return any("\x00" in text for name, texts in query.lists() for text in (name, *texts))


def without_meaning(request: HttpRequest, listed: Callable[[HttpRequest], Any]) -> Iterator[str]:
    """Give the parameters of an address with which a list cannot be made, each tried alone; of many the first."""
    for number, name in enumerate(request.GET):
        alone = copy(request)
        alone.GET = QueryDict(urlencode({name: request.GET.getlist(name)}, doseq=True))
        try:
            if number >= MOST_TRIED:
                raise IncorrectLookupParameters(name)
            listed(alone)
        except (IncorrectLookupParameters, DisallowedModelAdminLookup):
            yield name
