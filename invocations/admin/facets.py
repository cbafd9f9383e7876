"""Which values occur among the calls that the list's address finds, how often, and a link to each.

Counted are the newest calls found, in a bounded time, for the filters that are declared as facets. The page asks for it
once its reader opens the panel, so that the list itself never waits for it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBadRequest, HttpResponseBase, QueryDict
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _t
from django.utils.translation import ngettext

from invocations.admin.filters import searches_bodies
from invocations.lists.filters import FACETS
from invocations.models import McpToolInvocation
from sessions_app.kit.admin.changelist import POSITION
from sessions_app.kit.admin.parts import ListPart
from sessions_app.kit.lists.filters import ListFilter, OneOf
from sessions_app.kit.lists.walking import SECONDS, newest
from sessions_app.kit.shown import clipped, visible

if TYPE_CHECKING:
    from sessions_app.kit.admin.base import HubAdmin

MOST_COUNTED = 10_000
"""Calls. Beyond it the figures say `+`."""
SHOWN_VALUES = 6
"""Of each facet."""
_NOT_OF_A_FILTER = (*POSITION, "e")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedValues:
    """How often each value occurs: column -> value -> calls. `labels`: principal -> the caller's newest name."""

    calls: int
    is_cut: bool
    """Whether there are more calls than were counted, by number or for want of time."""
    values: dict[str, Counter[str]]
    labels: dict[str, str]


class FacetCounts(ListPart):
    """Offers to count what the list's filters find."""

    def urls(self, page: HubAdmin) -> list[URLPattern]:
        view = page.admin_site.admin_view(partial(self.facets_view, page))
        return [path("facets/", view, name="invocation_facets")]

    def facets_view(self, page: HubAdmin, request: HttpRequest) -> HttpResponseBase:
        """Give the panel of the list that the address asks for."""
        if not page.has_view_permission(request):
            raise PermissionDenied
        context: dict[str, Any] = {"refused": refused(request)}
        if not context["refused"]:
            try:
                changes = page.get_changelist_instance(request)
            except IncorrectLookupParameters:
                return HttpResponseBadRequest(_t("This list cannot be counted."))
            context |= shown(count(changes.queryset), request.GET)
        headers = {"Cache-Control": "no-store"}
        return TemplateResponse(request, "admin/hub/facets.html", context, headers=headers)


def refused(request: HttpRequest) -> str:
    """Say why what the address asks for is not counted; empty where it is."""
    if searches_bodies(request):
        return _t("A filter by argument or result reads every body. Remove it to count the calls.")
    return ""


def count(rows: QuerySet[McpToolInvocation]) -> CountedValues:
    """Count the newest of `rows`, no more and no longer than is bounded here."""
    names = [each.of for each in FACETS.values()]
    values: dict[str, Counter[str]] = {name: Counter() for name in names}
    labels: dict[str, str] = {}
    found, reached = newest(rows.values_list(*names, "caller_label"), MOST_COUNTED + 1, seconds=SECONDS)
    place = names.index("principal")
    for row in found[:MOST_COUNTED]:
        labels.setdefault(row[place], row[-1])
    for number, name in enumerate(names):
        values[name].update(row[number] for row in found[:MOST_COUNTED] if row[number])
    is_cut = len(found) > MOST_COUNTED or reached is not None
    return CountedValues(calls=min(len(found), MOST_COUNTED), is_cut=is_cut, values=values, labels=labels)


def shown(counted: CountedValues, query: QueryDict) -> dict[str, object]:
    """Give what the panel's template shows."""
    facets = []
    for name, declared in FACETS.items():
        if name == "version" and not query.get(FACETS["tool"].console_parameter):
            continue  # of all tools together, the numbers of versions say nothing
        parameter = declared.console_parameter
        found = counted.values[declared.of]
        chosen = query.get(parameter, "")
        if not found:
            continue
        most = found.most_common(SHOWN_VALUES)
        values = [
            {
                "words": clipped(_words(declared, value, counted), 40),
                "title": visible(_words(declared, value, counted), one_line=True),
                "count": _number(times, counted.is_cut),
                "is_chosen": value == chosen,
                "link": _link(query, parameter, value, chosen),
            }
            for value, times in most
        ]
        facets.append({"name": name, "title": declared.facet, "values": values, "more": len(found) - len(most)})
    return {"facets": facets, "told": _told(counted)}


def _told(counted: CountedValues) -> str:
    """Say what was counted, and whether there is more."""
    if not counted.calls and not counted.is_cut:
        return _t("These filters find no call, so there is nothing to count.")
    words = (
        ngettext(
            "Counted: the newest %(calls)s call found here. There are more calls, so a figure with + may be higher.",
            "Counted: the newest %(calls)s calls found here. There are more calls, so a figure with + may be higher.",
            counted.calls,
        )
        if counted.is_cut
        else ngettext(
            "Counted: %(calls)s call, all that are found.",
            "Counted: %(calls)s calls, all that are found.",
            counted.calls,
        )
    )
    return words % {"calls": _number(counted.calls, False)}


def _number(calls: int, is_cut: bool) -> str:
    return number_format(calls, force_grouping=True) + ("+" if is_cut else "")


def _words(declared: ListFilter, value: str, counted: CountedValues) -> str:
    if isinstance(declared, OneOf):
        return str(dict(declared.offered).get(value, value))
    if declared.name == "principal" and counted.labels.get(value):
        return f"{counted.labels[value]} ({value})"
    return value


def _link(query: QueryDict, parameter: str, value: str, chosen: str) -> str:
    """Give the list narrowed to the value, or, where it is narrowed to it already, without that filter."""
    changed = query.copy()
    for name in _NOT_OF_A_FILTER:
        changed.pop(name, None)
    if value == chosen:
        del changed[parameter]
    else:
        changed[parameter] = value
    return f"{reverse('admin:invocations_mcptoolinvocation_changelist')}?{changed.urlencode()}"
