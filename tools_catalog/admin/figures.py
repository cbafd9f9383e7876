"""The call figure columns of lists: of tools, and of connections with all of their tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.admin.base import HubAdmin
from sessions_app.kit.admin.parts import column
from sessions_app.kit.admin.ranked import Figure, RankedList
from sessions_app.kit.shown import ago, clipped, duration, percent
from tools_catalog import usage
from tools_catalog.models import McpUpstreamTool

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

    _Base = HubAdmin
else:
    _Base = object

FIGURES = ("last_called", "calls", "failures", "latency")
"""Columns of a list for people who may see calls; each row has its `recent` by then."""


class FigureColumns(_Base):
    """For an admin page with `recent` and a link name on each row."""

    figures: Mapping[str, str] = {
        "figure_last_called": "last_called",
        "figure_calls": "calls",
        "figure_errors": "errors",
        "figure_latency": "latency",
    }

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[ChangeList]:
        return RankedList

    def get_list_display(self, request: HttpRequest) -> Any:
        columns = super().get_list_display(request)
        if usage.may_see(request.user):
            return columns
        return [each for each in columns if each not in FIGURES]

    last_called = column(
        _("last called"),
        lambda row: ago(row.recent.last_called) if row.recent.last_called else "–",
        ordering="figure_last_called",
    )

    @admin.display(description=_("calls, 24 h"), ordering="figure_calls")
    def calls(self, row: Any) -> SafeString | str:
        recent: usage.Recent = row.recent
        words = number_format(recent.calls, force_grouping=True)
        if not recent.link or not recent.calls:
            return words
        label = _t("%(count)s calls of %(name)s") % {"count": words, "name": clipped(row.name, 64)}
        return format_html('<a class="hub-link" href="{}" aria-label="{}">{}</a>', recent.link, label, words)

    @admin.display(description=_("errors"), ordering="figure_errors")
    def failures(self, row: Any) -> SafeString | str:
        recent: usage.Recent = row.recent
        if not recent.calls:
            return "–"
        words = percent(recent.errors, recent.calls)
        return format_html('<b class="hub-bad">{}</b>', words) if recent.errors else words

    @admin.display(description=_("p95"), ordering="figure_latency")
    def latency(self, row: Any) -> str:
        recent: usage.Recent = row.recent
        return "–" if recent.p95_ms is None else duration(recent.p95_ms)


def of_connections(keys: list[int]) -> Mapping[int, usage.Recent]:
    """Return how the calls of the last day went, of all tools of each of these connections."""
    names: dict[int, list[str]] = {key: [] for key in keys}
    offers = McpUpstreamTool.objects.filter(connection__in=keys, tool__isnull=False).order_by()
    for key, name in offers.values_list("connection", "tool__name"):
        names[key].append(name)
    return usage.grouped(names)


def figure_of(figure: str, recent: usage.Recent) -> Figure | None:
    """Return a list's sort key; None comes last in both directions."""
    match figure:
        case "calls":
            return (recent.calls,)
        case "errors":
            return (recent.errors / recent.calls, recent.errors) if recent.calls else None
        case "latency":
            return None if recent.p95_ms is None else (recent.p95_ms,)
    return None if recent.last_called is None else (recent.last_called.timestamp(),)
