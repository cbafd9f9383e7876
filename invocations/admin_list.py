"""The list of calls: its columns, and what its search box looks up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db.models import F, Func, IntegerField, Max, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from invocations.admin_filters import stretch_for
from invocations.models import McpToolInvocation
from invocations.rest.walking import FIRST_STRETCH, SECONDS, walk
from sessions_app.admin_base import mark
from sessions_app.admin_changelist import COLUMNS, holds_nul
from sessions_app.admin_keyset import KeysetList
from sessions_app.admin_lists import Column
from sessions_app.models import McpSession
from sessions_app.shown import breakable, cell, clipped, duration, size, visible

if TYPE_CHECKING:
    _Base = admin.ModelAdmin[McpToolInvocation]
else:
    _Base = object


_PAGE = "admin:invocations_mcptoolinvocation_change"


class _Bytes(Func):
    """How long a text is as it is stored; PostgreSQL knows it without reading the text."""

    function = "OCTET_LENGTH"
    output_field = IntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="LENGTH(CAST(%(expressions)s AS BLOB))", **context)


class CallList(KeysetList):
    """Measures the bodies only where their size is shown."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        if "shown_size" in self.list_display:
            parts = [Coalesce(_Bytes(F(name)), 0) for name in ("arguments", "result", "error")]
            rows = rows.annotate(body_bytes=parts[0] + parts[1] + parts[2])
        return rows


class CallColumns(_Base):
    """What the list shows of a call, and what it can show."""

    list_display = [
        "shown_time", "shown_status", "shown_tool", "shown_caller", "shown_client", "shown_duration", "shown_code",
        "shown_transport", "shown_duplicate",
    ]  # fmt: skip
    list_display_links = ["shown_time"]
    more_columns: Sequence[Column] = [
        "shown_connection", "shown_size", "listed_turn", "listed_session", "shown_invocation", "retryable",
        "protocol_version", "client_address", "id",
    ]  # fmt: skip

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[CallList]:
        return CallList

    @admin.display(description=_("time"))
    def shown_time(self, row: McpToolInvocation) -> SafeString:
        moment = timezone.localtime(row.started_at)
        return format_html(
            '<time datetime="{}" title="{}" class="hub-time">{}</time>',
            moment.isoformat(), moment.isoformat(), moment.strftime("%m-%d %H:%M:%S"),
        )  # fmt: skip

    @admin.display(description=_("status"))
    def shown_status(self, row: McpToolInvocation) -> SafeString:
        return mark("good" if row.status == "ok" else "bad", row.get_status_display())

    @admin.display(description=_("tool"))
    def shown_tool(self, row: McpToolInvocation) -> SafeString:
        version = f"v{row.tool_version}" if row.tool_version else ""
        return format_html(
            '<span class="hub-tool"><span class="hub-cell hub-mono" title="{}">{}</span>'
            ' <span class="hub-subtle">{}</span></span>',
            visible(row.tool_name, one_line=True), clipped(row.tool_name, 64), version,
        )  # fmt: skip

    @admin.display(description=_("caller"))
    def shown_caller(self, row: McpToolInvocation) -> SafeString:
        return cell(row.caller_label or row.principal)

    @admin.display(description=_("client"))
    def shown_client(self, row: McpToolInvocation) -> SafeString:
        return cell(f"{row.client_name} {row.client_version}".strip() or "-")

    @admin.display(description=_("took"))
    def shown_duration(self, row: McpToolInvocation) -> SafeString:
        return format_html('<span class="hub-time">{}</span>', duration(row.duration_ms))

    @admin.display(description=_("code"))
    def shown_code(self, row: McpToolInvocation) -> SafeString:
        return breakable(row.error_code or "-")

    @admin.display(description=_("transport"))
    def shown_transport(self, row: McpToolInvocation) -> SafeString:
        return format_html("<span>{}</span>", row.get_transport_display())

    @admin.display(description=_("note"))
    def shown_duplicate(self, row: McpToolInvocation) -> SafeString | str:
        if row.duplicate_of:
            return mark("off", _("Duplicate"))
        if row.replay_of:
            return mark("off", _("Replay"))
        if row.continues:
            return mark("off", _("Continued"))
        if row.occurrences > 1:
            return mark("warn", _("× %(count)d") % {"count": row.occurrences})
        return ""

    @admin.display(description=_("connection"))
    def shown_connection(self, row: McpToolInvocation) -> SafeString:
        return cell(row.connection or "-")

    @admin.display(description=_("size"))
    def shown_size(self, row: Any) -> SafeString:
        """Arguments, result and error together, as they are stored."""
        return format_html('<span class="hub-time">{}</span>', size(row.body_bytes))

    @admin.display(description=_("chat turn"))
    def listed_turn(self, row: McpToolInvocation) -> SafeString | str:
        if not row.turn_id:
            return "-"
        address = f"{reverse('admin:chat_query_changelist')}?{urlencode({'q': row.turn_id})}"
        return format_html('<a class="hub-link hub-mono" href="{}">{}</a>', address, clipped(row.turn_id, 12))

    @admin.display(description=_("session"))
    def listed_session(self, row: McpToolInvocation) -> SafeString:
        return format_html(
            '<a class="hub-link hub-mono" href="{}">{}</a>',
            reverse("admin:sessions_app_mcpsession_change", args=[quote(row.session_id)]), clipped(row.session_id, 12),
        )  # fmt: skip


class CallSearch(_Base):
    """Looks ids up, and nothing else."""

    search_fields = ["invocation_id"]  # the search itself is get_search_results
    search_help_text = _("Invocation, request, session or trace id")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Look an exact id up, each kind where its index is."""
        term = search_term.strip()
        if not term:
            return queryset, False
        indexed = self._indexed(queryset, term)
        if indexed is not None:
            return indexed, False
        # Request ids have no index, and each client counts its own from 1.
        wanted: list[str | int] = [term]
        if term.removeprefix("-").isdecimal() and len(term) < 20:
            wanted.append(int(term))
        return queryset.filter(request_id__in=wanted), False

    def _indexed(self, queryset: QuerySet[Any], term: str) -> QuerySet[Any] | None:
        """Give the calls that an index finds by an id; None where there are none."""
        if queryset.filter(invocation_id=term).exists():
            return queryset.filter(invocation_id=term)
        if McpSession.objects.filter(pk=term).exists():
            return queryset.filter(session=term)
        traced = queryset.filter(trace_id=term).exclude(trace_id="")  # the index's own condition
        return traced if traced.exists() else None

    def get_paginator(self, request: HttpRequest, *more: Any) -> Any:
        pages: Any = super().get_paginator(request, *more)
        pages.stretch = min(pages.stretch, stretch_for(request))
        return pages

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """An id that a single call has leads straight to its page, whatever the filters let through."""
        term = request.GET.get("q", "").strip()
        if not term or holds_nul(request.GET) or request.method != "GET" or not self.has_view_permission(request):
            return super().changelist_view(request, extra_context)
        calls = McpToolInvocation.objects.order_by("-id")
        indexed = self._indexed(calls, term)
        if indexed is not None:
            found = list(indexed.values_list("pk", flat=True)[:2])
        elif set(request.GET) - {"q", COLUMNS}:
            newest = calls.order_by().aggregate(newest=Max("id"))["newest"] or 0
            keys = self.get_search_results(request, calls, term)[0].values_list("pk", flat=True)
            found, reached = walk(keys, newest, 1, 2, stretch=FIRST_STRETCH, seconds=SECONDS / 2)
            found = found if reached is None else []
        else:  # the list finds the same
            answer = super().changelist_view(request, extra_context)
            shown = (getattr(answer, "context_data", None) or {}).get("cl")
            found = [row.pk for row in shown.result_list] if shown is not None and shown.is_whole else []
            return redirect(_PAGE, found[0]) if len(found) == 1 else answer
        return redirect(_PAGE, found[0]) if len(found) == 1 else super().changelist_view(request, extra_context)
