"""Lists that can be sorted by figures which are no columns of their table, such as the calls of the last day.

The keys of all rows that the list finds are read, put into the order of the figure, and the rows of one page are read
by their keys: as many statements as otherwise, whatever the list holds. The address contains the order as for any
column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, cast

from django.contrib import messages
from django.db.models import Model, QuerySet, Value
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.translation import gettext as _t

from sessions_app.kit.admin.changelist import HubList

Figure = tuple[float, ...]
"""The sort key of rows: the displayed value, and a tie-breaker."""

MOST_RANKED = 20_000
"""Rows that are sorted by a figure. More are shown in the usual order, with a word about it."""


class Figures(Protocol):
    """An admin page with sortable figures."""

    figures: Mapping[str, str]
    """A column's `ordering` -> the figure's name."""

    def ranking(self, figure: str) -> Mapping[int, Figure]:
        """Return the figure of each row that has one, by key; the others come last in both directions."""


class RankedList(HubList):
    """The list of a page that is `Figures`."""

    rank = ""
    """The figure by which the rows are sorted, with a minus for the highest first."""

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Model]) -> Any:
        """Remove the figures from the database's ordering; the first column decides about sorting."""
        figures = cast("Figures", self.model_admin).figures
        # Django 6.1 tries the order on the rows, which need the names for that.
        tried = queryset.alias(**{figure: Value(0) for figure in figures})
        wanted = [*super().get_ordering(request, tried)]
        named = [isinstance(each, str) and each.lstrip("-") in figures for each in wanted]
        self.rank = str(wanted[0]) if named and named[0] else ""
        kept = [each for each, is_figure in zip(wanted, named, strict=True) if not is_figure]
        usual = self.model_admin.get_ordering(request) or self.model._meta.ordering or ()
        return [*kept[:-1], *usual, *kept[-1:]] if self.rank else kept  # the last is the key, which decides in any case

    def get_results(self, request: HttpRequest) -> None:
        rows = self.queryset
        if self.rank:
            keys = list(rows.values_list("pk", flat=True)[: MOST_RANKED + 1])
            if len(keys) > MOST_RANKED:
                said = _t("Lists of more than %(most)s rows can't be sorted by this column. Narrow the list first.")
                messages.warning(request, said % {"most": number_format(MOST_RANKED, force_grouping=True)})
            else:
                self.queryset = cast("Any", _Ranked(rows, self._sorted(keys)))
        super().get_results(request)
        self.queryset = rows

    def _sorted(self, keys: list[int]) -> list[int]:
        page = cast("Figures", self.model_admin)
        ranking = page.ranking(page.figures[self.rank.lstrip("-")])
        having = sorted((key for key in keys if key in ranking), key=ranking.__getitem__, reverse=self.rank[0] == "-")
        return having + [key for key in keys if key not in ranking]


class _Ranked:
    """The row source of a list in an order unknown to the database."""

    ordered = True

    def __init__(self, rows: QuerySet[Model], keys: list[int]) -> None:
        self._rows, self._keys = rows, keys

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Model]:
        return iter(self[:])

    def __getitem__(self, part: slice) -> list[Model]:
        wanted = self._keys[part]
        found = {row.pk: row for row in self._rows.filter(pk__in=wanted).order_by()}
        return [found[key] for key in wanted if key in found]

    def _clone(self) -> list[Model]:
        """Return all rows, as the list asks a QuerySet for where they fit on one page."""
        return self[:]
