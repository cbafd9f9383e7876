"""The calls on the pages of tools, connections, toolsets, keys, people and workspaces, and of features' rows.

The newest calls of the row are read once, by an index and within a bound, and every figure is made of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.db.models import Max, Model
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.translation import gettext as _t

from invocations.models import McpToolInvocation
from sessions_app.kit.admin.base import mark
from sessions_app.kit.admin.row_page import PageFigure, PagePart, PageTable, adds_to_page
from sessions_app.kit.shown import ago, clipped, duration, percent
from sessions_app.models import ApiKey, McpWorkspace
from tools_catalog import usage
from tools_catalog.models import McpConnection, McpToolDefinition, McpToolset

MOST_CALLS = 1000
"""So many of the newest calls are counted."""
_WINDOW = 20_000
"""Where many names are looked for at once, so many of the newest calls are searched."""
_CALLS, _ERRORS, _NAMES = 8, 5, 8
_COLUMNS = (
    "id",
    "started_at",
    "tool_name",
    "method",
    "status",
    "error_code",
    "duration_ms",
    "caller_label",
    "principal",
)


def _where(row: Model) -> Mapping[str, Any]:
    """Return the columns by which a row's calls are found."""
    match row:
        case McpToolDefinition():
            return {"tool_name": row.name}
        case McpToolset():
            return {"tool_name__in": row.names()[:500]}
        case McpConnection():
            return {"connection": row.slug}
        case McpWorkspace():
            return {"workspace": row.slug}
        case ApiKey() if row.owner_id is not None:  # it calls as its person, and is named beside
            return {"principal": row.principal, "caller_label__endswith": f"(key {row.pk})"}
        case ApiKey():
            return {"principal": row.principal}
    return {"principal": f"user:{row.pk}"}


@adds_to_page(McpToolDefinition, McpToolset, McpConnection, McpWorkspace, ApiKey, User, place=20)
def its_calls(request: HttpRequest, row: Model) -> Iterator[PagePart]:
    return calls_found(request, _where(row))


def calls_found(request: HttpRequest, where: Mapping[str, Any]) -> Iterator[PagePart]:
    """Yield the figures of the calls with these columns, the newest of them and failures, and their callers or tools.

    `where`: one column by which calls are listed, or a narrower search.
    """
    if not usage.may_see(request.user):
        return
    found: Any = McpToolInvocation.objects.filter(**where)
    is_listed = len(where) == 1 and "tool_name__in" not in where
    if not is_listed:
        newest = McpToolInvocation.objects.aggregate(newest=Max("id"))["newest"] or 0
        found = found.filter(id__gt=newest - _WINDOW)
    calls = list(found.order_by("-id").only(*_COLUMNS)[:MOST_CALLS])
    link = _listed(where) if is_listed else ""
    yield from _figures(calls, link)
    is_caller = "principal" in where
    without = "caller" if is_caller else "tool" if "tool_name" in where else ""
    yield _table("calls", _t("Recent calls"), calls[:_CALLS], link, _t("All calls"), without=without)
    failed = [call for call in calls if call.status == "error"]
    if failed:
        errors = link and f"{link}&status__exact=error"
        yield _table("errors", _t("Recent errors"), failed[:_ERRORS], errors, _t("All errors"), without=without)
    yield _users(calls, _t("Tools used") if is_caller else _t("Who uses it"), is_caller)


def _figures(calls: list[McpToolInvocation], link: str) -> Iterator[PageFigure]:
    last = ago(calls[0].started_at) if calls else _t("never")
    yield PageFigure(_t("Last call"), last, _page(calls[0]) if calls else "")
    day = timezone.now() - timedelta(days=1)
    recent = [call for call in calls if call.started_at >= day]
    more = "+" if len(recent) == MOST_CALLS else ""
    yield PageFigure(_t("Calls, 24 h"), number_format(len(recent), force_grouping=True) + more, link)
    failed = sum(call.status == "error" for call in recent)
    share = percent(failed, len(recent)) if recent else "–"
    yield PageFigure(
        _t("Errors, 24 h"), share, (link and failed and f"{link}&status__exact=error") or "", "bad" if failed else ""
    )
    took = sorted(call.duration_ms for call in recent if call.duration_ms is not None)
    yield PageFigure(_t("p95, 24 h"), duration(took[len(took) * 95 // 100]) if took else "–")


def _table(name: str, title: str, calls: list[McpToolInvocation], link: str, words: str, *, without: str) -> PageTable:
    """`without`: the column that is the same in each row."""
    columns = [each for each in ("tool", "caller") if each != without]
    rows = [
        (
            format_html('<a class="hub-link hub-time" href="{}">{}</a>', _page(call), ago(call.started_at)),
            *(_cell(call, each) for each in columns),
            mark("good", _t("OK")) if call.status == "ok" else mark("bad", clipped(call.error_code or call.status, 40)),
            duration(call.duration_ms) if call.duration_ms is not None else "",
        )
        for call in calls
    ]
    titles = {"tool": _t("Tool"), "caller": _t("Caller")}
    head = (_t("Time"), *(titles[each] for each in columns), _t("Outcome"), _t("Duration"))
    return PageTable(name, title, head, rows, _t("No calls yet."), link if rows else "", words)


def _cell(call: McpToolInvocation, column: str) -> str:
    if column == "caller":
        return clipped(call.caller_label or call.principal, 60)
    return format_html('<span class="hub-mono">{}</span>', clipped(call.tool_name or call.method, 64))


def _users(calls: list[McpToolInvocation], title: str, is_caller: bool) -> PageTable:
    column = "tool_name" if is_caller else "principal"
    labels = {call.principal: call.caller_label for call in reversed(calls)}
    counts = Counter(value for call in calls if (value := getattr(call, column)))
    failed = Counter(getattr(call, column) for call in calls if call.status == "error")
    rows = [
        (
            format_html(
                '<a class="hub-link" href="{}">{}</a>',
                _listed({column: value}),
                clipped(value if is_caller else labels.get(value) or value, 60),
            ),
            number_format(count, force_grouping=True),
            number_format(failed[value], force_grouping=True),
        )
        for value, count in counts.most_common(_NAMES)
    ]
    head = (_t("Tool") if is_caller else _t("Caller"), _t("Calls"), _t("Errors"))
    note = _t("Based on the newest %(count)s calls.") % {"count": number_format(MOST_CALLS, force_grouping=True)}
    empty = _t("None yet.") if is_caller else _t("Nobody yet.")
    return PageTable("users", title, head, rows, empty, note=note if len(calls) == MOST_CALLS else "")


def _page(call: McpToolInvocation) -> str:
    return reverse("admin:invocations_mcptoolinvocation_change", args=[call.pk])


def _listed(where: Mapping[str, Any]) -> str:
    try:
        return f"{reverse('admin:invocations_mcptoolinvocation_changelist')}?{urlencode(where)}"
    except NoReverseMatch:
        return ""
