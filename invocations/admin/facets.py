"""The distribution of a list's matches over time and by value, with links.

Counted are the newest rows found, in a bounded time; the figures over time come from the tallies of calls where these
know them. The page asks for it once it is shown, so that the list itself never waits for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBadRequest, HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _t
from django.utils.translation import ngettext

from invocations.admin.bars import drawn
from invocations.admin.filters import searches_bodies
from invocations.lists import histogram
from invocations.lists.filters import EVENT_FILTERS, FACETS
from invocations.lists.histogram import Histogram
from sessions_app.kit.admin.filters import MomentsControl
from sessions_app.kit.admin.parts import ListPart
from sessions_app.kit.admin.search_line import is_chosen, toggled
from sessions_app.kit.lists.filters import Demand, During, ListFilter, OneOf
from sessions_app.kit.lists.walking import SECONDS, newest
from sessions_app.kit.shown import clipped, visible

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList

    from sessions_app.kit.admin.base import HubAdmin

MOST_COUNTED = 10_000
"""Rows. Beyond it, figures carry a `+`."""
SHOWN_VALUES = 6
"""Of each facet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetColumn:
    """A filter with counted values, and their column."""

    of: ListFilter
    column: str
    label: str = ""
    """The column with the words for a value."""
    value: Callable[[str], str] = str
    """Gives the filter's value for the column's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedValues:
    """How often each value occurs: filter -> value -> rows. `labels`: filter -> value -> its newest words."""

    rows: int
    is_cut: bool
    """Whether there are more rows than were counted, by number or for want of time."""
    values: dict[str, Counter[str]]
    labels: dict[str, dict[str, str]]
    moments: list[tuple[datetime, bool]]


class FacetCounts(ListPart):
    """Counts a list's matches; of rows by `id`, with a time and perhaps a column that marks failures."""

    def __init__(self, name: str, facets: tuple[FacetColumn, ...], *, time: str, status: str = "") -> None:
        self.name, self.facets, self.time, self.status = name, facets, time, status

    def context(self, page: HubAdmin, request: HttpRequest) -> dict[str, object]:
        names = {part: reverse(f"admin:{self.name}_{part}") for part in ("facets", "histogram")}
        return {"counts": names}

    def urls(self, page: HubAdmin) -> list[URLPattern]:
        def view(with_facets: bool) -> Callable[..., Any]:
            return page.admin_site.admin_view(partial(self.counts_view, page, with_facets=with_facets))

        return [
            path("facets/", view(True), name=f"{self.name}_facets"),
            path("histogram/", view(False), name=f"{self.name}_histogram"),
        ]

    def counts_view(self, page: HubAdmin, request: HttpRequest, *, with_facets: bool) -> HttpResponseBase:
        """Return the histogram of the list that the address asks for, and its facets."""
        if not page.has_view_permission(request):
            raise PermissionDenied
        context: dict[str, Any] = {"refused": refused(page, request), "with_facets": with_facets}
        if not context["refused"]:
            try:
                changes = page.get_changelist_instance(request)
            except IncorrectLookupParameters:
                return HttpResponseBadRequest(_t("This list can't be counted."))
            demands = demands_of(page, request, changes)
            over_time = histogram.tallied(demands) if self.status else None
            if over_time is None or with_facets:
                counted = self.count(changes.queryset)
                if over_time is None:
                    over_time = histogram.of_rows(counted.moments, demands, is_cut=counted.is_cut)
                if with_facets:
                    context |= self.shown(page, request, counted)
            context |= self._drawn(page, request, over_time)
        headers = {"Cache-Control": "no-store"}
        return TemplateResponse(request, "admin/hub/facets.html", context, headers=headers)

    def _drawn(self, page: HubAdmin, request: HttpRequest, over_time: Histogram | None) -> dict[str, object]:
        of = next(each for each in page.filters if isinstance(each, During) and each.of == self.time)
        return {
            "chart": None if over_time is None else drawn(page, request, of, over_time, has_status=bool(self.status))
        }

    def count(self, rows: QuerySet[Any]) -> CountedValues:
        """Count the newest of `rows`, no more and no longer than is bounded here."""
        columns = [each.column for each in self.facets]
        labels = {each.of.name: each.label for each in self.facets if each.label}
        names = list(dict.fromkeys([*columns, *labels.values(), self.time, *([self.status] if self.status else [])]))
        at = {name: number for number, name in enumerate(names)}
        found, reached = newest(rows.values_list(*names), MOST_COUNTED + 1, seconds=SECONDS)
        kept = found[:MOST_COUNTED]
        values: dict[str, Counter[str]] = {}
        words: dict[str, dict[str, str]] = {}
        for each in self.facets:
            held = Counter(row[at[each.column]] for row in kept if row[at[each.column]])
            counts = values[each.of.name] = Counter()
            for value, times in held.items():
                counts[each.value(value)] += times
            if each.label:
                pairs = ((row[at[each.column]], row[at[each.label]]) for row in reversed(kept))
                words[each.of.name] = dict(pairs)
        failed = at.get(self.status)
        moments = [(row[at[self.time]], failed is not None and row[failed] == "error") for row in kept]
        is_cut = len(found) > MOST_COUNTED or reached is not None
        return CountedValues(rows=len(kept), is_cut=is_cut, values=values, labels=words, moments=moments)

    def shown(self, page: HubAdmin, request: HttpRequest, counted: CountedValues) -> dict[str, object]:
        """Return the context of the panel's template."""
        facets = []
        for each in self.facets:
            of, found = each.of, counted.values[each.of.name]
            if not found or (of.name == "version" and not _names_tool(page, request)):
                continue  # of all tools together, the numbers of versions say nothing
            most = found.most_common(SHOWN_VALUES)
            values = [
                {
                    "words": clipped(_words(of, value, counted), 40),
                    "title": visible(_words(of, value, counted), one_line=True),
                    "count": _number(times, counted.is_cut),
                    "is_chosen": is_chosen(page, request, of, value),
                    "link": toggled(page, request, of, value),
                    "without": toggled(page, request, of, value, is_excluded=True),
                }
                for value, times in most
            ]
            facets.append({"name": of.name, "title": of.facet, "values": values, "more": len(found) - len(most)})
        return {"facets": facets, "told": _told(counted)}


CALL_FACETS = tuple(
    FacetColumn(of=of, column=of.of, label="caller_label" if name == "principal" else "") for name, of in FACETS.items()
)
EVENT_FACETS = tuple(
    FacetColumn(
        of=of,
        column=of.of,
        label="actor_label" if of.name == "actor" else "",
        value=(lambda kind: kind.partition(".")[0]) if of.name == "about" else str,
    )
    for of in EVENT_FILTERS
    if of.facet
)


def refused(page: HubAdmin, request: HttpRequest) -> str:
    """Return the reason if the address requests something that is not counted; empty otherwise."""
    if searches_bodies(request, page.search_of(request)):
        return _t("A filter by argument or result reads every body. Remove it to count the calls.")
    return ""


def demands_of(page: HubAdmin, request: HttpRequest, shown: ChangeList) -> list[Demand]:
    """Return all that narrows the list but free words: tokens of its search, and values of its controls."""
    search = page.search_of(request)
    found = list(search.demands)
    if search.words:
        found.append(Demand(ListFilter(name="words"), (search.words,)))
    for spec in shown.filter_specs:
        if isinstance(spec, MomentsControl) and isinstance(spec.declared, During):
            ends = spec.bounds()
            found += [Demand(spec.declared, (ends,))] if ends != (None, None) else []
            continue
        given = [request.GET[name] for name in spec.expected_parameters() if name and request.GET.get(name)]
        if given:
            of = next((each for each in page.filters if each.console_parameter in spec.expected_parameters()), None)
            found.append(Demand(of or ListFilter(name="control"), tuple(given)))
    return found


def _names_tool(page: HubAdmin, request: HttpRequest) -> bool:
    tool = FACETS["tool"]
    named = any(each.of is tool and not each.is_excluded for each in page.search_of(request).demands)
    return named or bool(request.GET.get(tool.console_parameter))


def _told(counted: CountedValues) -> str:
    """Return the number of counted rows, and whether there are more."""
    if not counted.rows and not counted.is_cut:
        return _t("Nothing matches, so there is nothing to count.")
    words = (
        ngettext(
            "Counted: the newest %(rows)s match. There are more, so figures with + may be higher.",
            "Counted: the newest %(rows)s matches. There are more, so figures with + may be higher.",
            counted.rows,
        )
        if counted.is_cut
        else ngettext(
            "Counted: %(rows)s match, all there are.", "Counted: %(rows)s matches, all there are.", counted.rows
        )
    )
    return words % {"rows": _number(counted.rows, False)}


def _number(rows: int, is_cut: bool) -> str:
    return number_format(rows, force_grouping=True) + ("+" if is_cut else "")


def _words(of: ListFilter, value: str, counted: CountedValues) -> str:
    if isinstance(of, OneOf):
        return str(dict(of.offered).get(value, value))
    label = counted.labels.get(of.name, {}).get(value)
    return f"{label} ({value})" if label and label != value else value
