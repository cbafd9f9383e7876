"""Error groups: failures, their frequency, start and callers; people mute, resolve and reopen them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from invocations.admin.advice import advice
from invocations.admin.reading import BodyColumns, RecordedReading, may_read_bodies
from invocations.models import McpToolInvocation
from mcphub.features.error_groups.filters import ERROR_FILTERS
from mcphub.features.error_groups.judging import judge
from mcphub.features.error_groups.models import ErrorGroup
from sessions_app.admin.lists import Arrangement
from sessions_app.kit import charts
from sessions_app.kit.admin.base import detail_action, mark, moment, row_of
from sessions_app.kit.admin.parts import column
from sessions_app.kit.admin.search_line import SearchLine
from sessions_app.kit.lists import searching
from sessions_app.kit.shown import breakable, clipped, visible

_MARKS = {"open": "bad", "muted": "off", "resolved": "good"}
_FIRST, _LAST = moment("first_at", _("first seen")), moment("last_at", _("last seen"))
_SINCE = moment("state_at", _("since"))
_CALLS = "admin:invocations_mcptoolinvocation_changelist"
_SPARK_HOURS = 48
_SPARK_HIGH = 20


@admin.register(ErrorGroup)
class ErrorGroupAdmin(RecordedReading):
    bodies = ("error",)
    body_columns: ClassVar[dict[str, str]] = {"shown_message": "error"}
    list_display = [
        "shown_state",
        "shown_tool",
        "shown_code",
        "shown_message",
        "shown_calls",
        "shown_spark",
        "shown_callers",
        _LAST,
    ]
    list_display_links = ["shown_code"]
    list_before_template = "admin/hub/above_list.html"
    change_list_template = "admin/hub/found_list.html"
    change_form_after_template = "admin/hub/error_group.html"
    filters = ERROR_FILTERS
    parts = (SearchLine(), Arrangement(_FIRST, _SINCE, "state_by"), BodyColumns())
    search_fields = ["tool_name", "error_code"]
    search_help_text = _("state:open, tool:…, code:…, time:24h – or words of a tool or code")
    ordering = ["-last_at"]
    is_windowed = True
    indexed = ("state",)
    actions = ["mute_selected", "resolve_selected", "reopen_selected"]
    actions_detail = ["mute", "resolve", "reopen"]
    page_context: ClassVar[dict[str, Any]] = {"show_history": False}

    shown_state = column(_("state"), lambda group: _state(group))
    shown_tool = column(_("tool"), lambda group: breakable(clipped(group.tool_name, 64) or _t("(none)")))
    shown_code = column(_("error code"), lambda group: breakable(group.error_code))
    shown_message = column(
        _("message"), lambda group: format_html('<span class="hub-help">{}</span>', visible(group.message) or "-")
    )
    shown_calls = column(_("calls"), lambda group: _figure(group.calls))
    shown_spark = column(_("last 48 hours"), lambda group: _spark(group))
    shown_callers = column(_("affected"), lambda group: _hits(group))
    shown_advice = column(_("what to do"), lambda group: " ".join(advice(group.error_code)))
    all_callers = column(_("callers"), lambda group: _callers(group))
    shown_lead = column(_("calls"), lambda group: _leads(group))

    def get_fieldsets(self, request: HttpRequest, obj: ErrorGroup | None = None) -> Any:
        what = ["shown_state", "shown_tool", "shown_code", "shown_advice", "shown_lead"]
        if may_read_bodies(request):
            what.insert(3, "shown_message")
        when = ["shown_calls", _FIRST, _LAST, "all_callers"]
        return [(None, {"fields": what}), (_t("When and who"), {"fields": when})]

    def beside(self, request: HttpRequest, row: ErrorGroup) -> dict[str, object]:
        today = datetime.now(UTC).date()
        days = [(today - timedelta(days=back)).isoformat() for back in range(29, -1, -1)]
        counts = [row.days.get(day, 0) for day in days]
        links = [_listed(row, f"time:{day}") if count else "" for day, count in zip(days, counts, strict=True)]
        told = zip(days, counts, links, strict=True)
        rows = [{"label": day, "link": link, "total": count} for day, count, link in told if count]
        drawing = charts.columns(days, [charts.Series("bad", counts)], links)
        chart = {"drawing": drawing, "rows": rows, "has_status": False, "id": "over-time"}
        return {"chart": {**chart, "told": _t("The last 30 days in UTC, one column per day.")}}

    # Deciding ---------------------------------------------------------------------------------------

    def has_judge_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perm("invocations.change_errorgroup")

    def _judged(self, request: HttpRequest, groups: Sequence[ErrorGroup], deed: str) -> None:
        count = sum(judge(group, deed, request.user) for group in groups)
        said = ngettext("%(count)d error group changed.", "%(count)d error groups changed.", count)
        messages.success(request, said % {"count": count})

    @admin.action(description=_("Mute"), permissions=["judge"])
    def mute_selected(self, request: HttpRequest, queryset: QuerySet[ErrorGroup]) -> None:
        self._judged(request, list(queryset[:1000]), "mute")

    @admin.action(description=_("Resolve"), permissions=["judge"])
    def resolve_selected(self, request: HttpRequest, queryset: QuerySet[ErrorGroup]) -> None:
        self._judged(request, list(queryset[:1000]), "resolve")

    @admin.action(description=_("Reopen"), permissions=["judge"])
    def reopen_selected(self, request: HttpRequest, queryset: QuerySet[ErrorGroup]) -> None:
        self._judged(request, list(queryset[:1000]), "reopen")

    def _one(self, request: HttpRequest, object_id: str, deed: str) -> HttpResponse:
        group = row_of(self, request, object_id)
        back = reverse("admin:invocations_errorgroup_change", args=[group.pk])
        words = {
            "mute": (
                _t("Mute these errors?"),
                _t("They are still counted, and stay muted however often they occur."),
                _t("Mute"),
            ),
            "resolve": (_t("Resolve these errors?"), _t("The next occurrence reopens the group."), _t("Resolve")),
            "reopen": (_t("Reopen these errors?"), _t("They are listed as open again."), _t("Reopen")),
        }
        title, explanation, button = words[deed]
        asked = self.confirmation(
            request,
            title=title,
            items=[(clipped(f"{group.tool_name} {group.error_code}", 80), "")],
            explanation=explanation,
            button=button,
            back=back,
            reason=True,
        )
        if asked is not None:
            return asked
        judge(group, deed, request.user, request.POST.get("reason", "")[:500])
        messages.success(request, _t("Done."))
        return redirect(back)

    @detail_action(description=_("Mute"), icon="notifications_off", permissions=["judge"], url_path="mute")
    def mute(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._one(request, object_id, "mute")

    @detail_action(description=_("Resolve"), icon="check_circle", permissions=["judge"], url_path="resolve")
    def resolve(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._one(request, object_id, "resolve")

    @detail_action(description=_("Reopen"), icon="undo", permissions=["judge"], url_path="reopen")
    def reopen(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._one(request, object_id, "reopen")


def _state(group: ErrorGroup) -> SafeString:
    words = mark(_MARKS[group.state], group.get_state_display())
    if group.reopened:
        return format_html('{} <span class="hub-subtle">{}</span>', words, _t("recurred"))
    return words


def _figure(count: int) -> SafeString:
    return format_html('<span class="hub-figure">{}</span>', _number(count))


def _number(count: int) -> str:
    return number_format(count, force_grouping=True)


def _hits(group: ErrorGroup) -> str:
    more = "+" if group.unnamed_calls else ""
    count = len(group.callers)
    return ngettext("%(count)d%(more)s caller", "%(count)d%(more)s callers", count) % {"count": count, "more": more}


def _callers(group: ErrorGroup) -> SafeString:
    """Return the affected callers, the most affected first, each with their failed calls."""
    most = sorted(group.callers.items(), key=lambda each: -each[1][1])
    rows = [
        (_listed(group, searching.written("caller", principal)), clipped(label or principal, 80), _number(calls))
        for principal, (label, calls) in most
    ]
    lines = format_html_join("", '<div><a class="hub-link" href="{}">{}</a> {}</div>', rows)
    others = _t("and others: %(count)s") % {"count": _number(group.unnamed_calls)} if group.unnamed_calls else ""
    return format_html("{}{}", lines, others)


def _leads(group: ErrorGroup) -> SafeString:
    newest = McpToolInvocation.objects.filter(pk=group.last_sequence).values_list("pk", flat=True).first()
    link = "" if newest is None else reverse("admin:invocations_mcptoolinvocation_change", args=[newest])
    shown = format_html(
        '<a class="hub-link" href="{}">{}</a>', _listed(group), _t("Calls of this tool with this error code")
    )
    if not link:
        return shown
    return format_html('{} · <a class="hub-link" href="{}">{}</a>', shown, link, _t("Last occurrence"))


def _listed(group: ErrorGroup, more: str = "") -> str:
    tool = searching.written("tool", group.tool_name) if group.tool_name else ""
    words = " ".join(filter(None, [tool, f"code:{group.error_code}", more]))
    return f"{reverse(_CALLS)}?{urlencode({'q': words})}"


def _spark(group: ErrorGroup) -> SafeString:
    """Return the hours as a sparkline; its title has the sum."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    hours = [now - timedelta(hours=back) for back in range(_SPARK_HOURS - 1, -1, -1)]
    counts = [group.hours.get(f"{hour:%Y-%m-%dT%H}", 0) for hour in hours]
    most = max([*counts, 1])
    bars = [
        (at * 2, _SPARK_HIGH - high, high)
        for at, count in enumerate(counts)
        if count and (high := max(1, round(_SPARK_HIGH * count / most)))
    ]
    title = _t("%(count)s in 48 hours") % {"count": _number(sum(counts))}
    drawn = format_html_join("", '<rect x="{}" y="{}" width="1.6" height="{}"/>', bars)
    return format_html(
        '<svg class="hub-spark" viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>{}</svg>',
        _SPARK_HOURS * 2,
        _SPARK_HIGH,
        title,
        title,
        drawn,
    )
