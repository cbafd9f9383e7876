"""The pages about the usage of one tool or one key: charts with their tables, and its callers or tools."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from invocations.admin.links import listed
from invocations.figures import overview, usage
from invocations.figures.overview import Overview
from invocations.figures.tallies import CALLER, TOOL
from mcphub.console import dashboard
from sessions_app.kit.shown import clipped, duration
from sessions_app.models import ApiKey
from tools_catalog.models import McpToolDefinition
from tools_catalog.usage import PERMISSION

_FILTERS = {"principal": "principal", "tool_name": "tool_name", "error_code": "code"}
"""Column of a call -> parameter of the list of calls."""


def tool_view(request: HttpRequest, pk: int) -> HttpResponse:
    if not request.user.has_perms([PERMISSION, "tools_catalog.view_mcptooldefinition"]):
        raise PermissionDenied
    tool = get_object_or_404(McpToolDefinition, pk=pk)
    title = _("Calls of %(name)s") % {"name": clipped(tool.name, 64)}
    wanted = [("principal", _("Callers")), ("error_code", _("Its errors"))]
    return _page(request, tool, title, TOOL, tool.name, ("tool_name", tool.name), wanted)


def key_view(request: HttpRequest, pk: int) -> HttpResponse:
    if not request.user.has_perms([PERMISSION, "sessions_app.view_apikey"]):
        raise PermissionDenied
    key = get_object_or_404(ApiKey, pk=pk)
    principal = key.principal
    title = _("Calls with the key %(name)s") % {"name": clipped(key.name, 64)}
    if key.owner is not None:
        title = _("All calls by %(person)s, not only with this key") % {"person": clipped(key.owner, 64)}
    wanted = [("tool_name", _("Tools that it called")), ("error_code", _("Its errors"))]
    return _page(request, key, title, CALLER, principal, ("principal", principal), wanted)


def _page(
    request: HttpRequest,
    row: Model,
    title: str,
    subject: str,
    name: str,
    of: tuple[str, str],
    wanted: list[tuple[str, str]],
) -> HttpResponse:
    span = dashboard.chosen(request)
    found = overview.between(span.after, span.before, subject=subject, name=name)
    narrowed: dict[str, Any] = {of[0]: of[1]}
    context = {
        **admin.site.each_context(request),
        "opts": row._meta,
        "object": row,
        "title": title,
        "range": span,
        "ranges": dashboard.range_links(span.name),
        "is_whole": found.is_whole,
        "tiles": _tiles(found, narrowed),
        "charts": dashboard.charts_of(found, **narrowed),
        "tables": [_table(column, words, found, narrowed) for column, words in wanted],
        "back": reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk]),
    }
    return TemplateResponse(request, "admin/hub/calls_of.html", context)


def _tiles(found: Overview, of: dict[str, str]) -> list[dict[str, str]]:
    total, p95 = found.total, found.total.percentile(95)
    calls, errors = (number_format(count, force_grouping=True) for count in (total.calls, total.errors))
    return [
        {"title": _("Calls"), "words": calls, "link": listed(found.after, found.before, **of)},
        {
            "title": _("Errors"),
            "words": dashboard.failing(total),
            "beside": errors if total.errors else "",
            "link": listed(found.after, found.before, status__exact="error", **of),
        },
        {"title": _("Duration, p95"), "words": "–" if p95 is None else duration(p95)},
    ]


def _table(column: str, words: str, found: Overview, of: dict[str, Any]) -> dict[str, object]:
    counted = usage.newest(column, found.after, found.before, **of)
    return {
        "id": column,
        "title": words,
        "is_whole": counted.is_whole,
        "most": number_format(usage.MOST_CALLS, force_grouping=True),
        "rows": [
            {
                "name": clipped(each, 90),
                "calls": number_format(each.calls, force_grouping=True),
                "link": listed(found.after, found.before, **of, **{_FILTERS[column]: each.value}),
            }
            for each in counted.counted
        ],
    }


urlpatterns = [
    path("tools_catalog/mcptooldefinition/<int:pk>/calls/", admin.site.admin_view(tool_view), name="tool_calls"),
    path("sessions_app/apikey/<int:pk>/calls/", admin.site.admin_view(key_view), name="key_calls"),
]
