"""Which values occur among the calls that the list's address finds, how often, and a link to each.

Counted are the newest calls found, in a bounded time (`rest.walking`), by the columns of REST's facets. The page asks
for it once its reader opens the panel, so that the list itself never waits for it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db.models import Max, QuerySet
from django.http import HttpRequest, HttpResponseBadRequest, HttpResponseBase, QueryDict
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _t
from django.utils.translation import ngettext

from invocations.admin_filters import searches_bodies
from invocations.models import McpToolInvocation
from invocations.rest.figures import FACETS
from invocations.rest.filters import Span, span
from invocations.rest.walking import FIRST_STRETCH, SECONDS, walk
from sessions_app.admin_changelist import POSITION, TimeRangeFilter
from sessions_app.models import Transport
from sessions_app.shown import clipped, visible

if TYPE_CHECKING:
    _Base = admin.ModelAdmin[McpToolInvocation]
else:
    _Base = object

MOST_COUNTED = 10_000
"""Calls. Beyond it the figures say `+`."""
SHOWN_VALUES = 6
"""Of each facet."""
_COLUMNS = {**FACETS, "connection": "connection"}
_PARAMETERS = {
    "status": "status__exact", "tool": "tool_name", "version": "tool_version", "error_code": "code",
    "client": "client", "principal": "principal", "connection": "connection", "transport": "transport__exact",
}  # fmt: skip
"""Facet -> what the list's address calls its filter."""
_NOT_OF_A_FILTER = (*POSITION, "e")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How often each value occurs: column -> value -> calls. `labels`: principal -> the caller's newest name."""

    calls: int
    is_cut: bool
    """Whether there are more calls than were counted, by number or for want of time."""
    values: dict[str, Counter[str]]
    labels: dict[str, str]


class FacetedList(_Base):
    """Offers to count what the list's filters find."""

    def get_urls(self) -> list[Any]:
        return [
            path("facets/", self.admin_site.admin_view(self.facets_view), name="invocation_facets"), *super().get_urls()
        ]  # fmt: skip

    def facets_view(self, request: HttpRequest) -> HttpResponseBase:
        """Give the panel of the list that the address asks for."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        context: dict[str, Any] = {"refused": refused(request)}
        if not context["refused"]:
            try:
                changes = self.get_changelist_instance(request)
            except IncorrectLookupParameters:
                return HttpResponseBadRequest(_t("This list cannot be counted."))
            context |= shown(count(changes.queryset, span_of(changes)), request.GET)
        headers = {"Cache-Control": "no-store"}
        return TemplateResponse(request, "admin/hub/facets.html", context, headers=headers)


def refused(request: HttpRequest) -> str:
    """Say why what the address asks for is not counted; empty where it is."""
    if searches_bodies(request):
        return _t("A value is looked for in each body. Take it out to have the rest counted.")
    return ""


def span_of(changes: Any) -> Span | None:
    """Give where the rows of the list's range of time lie."""
    for spec in changes.filter_specs:
        if isinstance(spec, TimeRangeFilter):
            return span(*spec.bounds())
    return Span()


def count(rows: QuerySet[McpToolInvocation], where: Span | None) -> Counted:
    """Count the newest of `rows`, no more and no longer than is bounded here."""
    names = list(dict.fromkeys(_COLUMNS.values()))
    values: dict[str, Counter[str]] = {name: Counter() for name in names}
    labels: dict[str, str] = {}
    newest = McpToolInvocation.objects.order_by().aggregate(newest=Max("id"))["newest"]
    if where is None or newest is None:
        return Counted(calls=0, is_cut=False, values=values, labels=labels)
    asked = rows.order_by("-id").values_list(*names, "caller_label")
    top = newest if where.most is None else min(newest, where.most)
    found, reached = walk(asked, top, where.least or 1, MOST_COUNTED + 1, stretch=FIRST_STRETCH, seconds=SECONDS)
    place = names.index("principal")
    for row in found[:MOST_COUNTED]:
        labels.setdefault(row[place], row[-1])
    for number, name in enumerate(names):
        values[name].update(row[number] for row in found[:MOST_COUNTED] if row[number])
    is_cut = len(found) > MOST_COUNTED or reached is not None
    return Counted(calls=min(len(found), MOST_COUNTED), is_cut=is_cut, values=values, labels=labels)


def shown(counted: Counted, query: QueryDict) -> dict[str, Any]:
    """Give what the panel's template shows."""
    titles = {
        "status": _t("Status"), "tool": _t("Tool"), "version": _t("Version of the tool"),
        "error_code": _t("Error code"), "client": _t("Client"), "principal": _t("Caller"),
        "connection": _t("Connection"), "transport": _t("Transport"),
    }  # fmt: skip
    facets = []
    for name, parameter in _PARAMETERS.items():
        if name == "version" and not query.get(_PARAMETERS["tool"]):
            continue  # of all tools together, the numbers of versions say nothing
        found = counted.values[_COLUMNS[name]]
        chosen = query.get(parameter, "")
        if not found:
            continue
        most = found.most_common(SHOWN_VALUES)
        values = [
            {
                "words": clipped(_words(name, value, counted), 40),
                "title": visible(_words(name, value, counted), one_line=True),
                "count": _number(times, counted.is_cut), "is_chosen": value == chosen,
                "link": _link(query, parameter, value, chosen),
            }
            for value, times in most
        ]  # fmt: skip
        facets.append({"name": name, "title": titles[name], "values": values, "more": len(found) - len(most)})
    return {"facets": facets, "told": _told(counted)}


def _told(counted: Counted) -> str:
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
        else ngettext("Counted: %(calls)s call, all that are found.", "Counted: %(calls)s calls, all that are found.",
                      counted.calls)
    )  # fmt: skip
    return words % {"calls": _number(counted.calls, False)}


def _number(calls: int, is_cut: bool) -> str:
    return number_format(calls, force_grouping=True) + ("+" if is_cut else "")


def _words(name: str, value: str, counted: Counted) -> str:
    if name == "status":
        return str(McpToolInvocation.Status(value).label)
    if name == "transport":
        return str(Transport(value).label)
    if name == "principal" and counted.labels.get(value):
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
