"""The list of calls: its columns, its filters and its search, and the parts that stand above it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.admin.utils import quote
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Func, IntegerField, Model, Q, QuerySet
from django.db.models.functions import Coalesce
from django.db.models.sql.compiler import SQLCompiler
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from invocations.admin.export import ExportForm
from invocations.admin.facets import CALL_FACETS, FacetCounts
from invocations.admin.filters import refuse_bodies
from invocations.admin.links import of_feature
from invocations.admin.live import LiveTail
from invocations.admin.reading import RecordedReading
from invocations.admin.sessions import SessionTranscripts
from invocations.lists.filters import CALL_FILTERS
from invocations.models import McpToolInvocation
from sessions_app.admin.lists import Arrangement
from sessions_app.kit.admin.base import mark
from sessions_app.kit.admin.changelist import COLUMNS, HubList, holds_nul
from sessions_app.kit.admin.keyset import KeysetList
from sessions_app.kit.admin.parts import ListPart, column
from sessions_app.kit.admin.replica import ReplicaPages
from sessions_app.kit.admin.search_line import SearchLine
from sessions_app.kit.lists.searching import Search
from sessions_app.kit.lists.walking import SECONDS, WalkedKeyset, newest
from sessions_app.kit.shown import breakable, cell, clipped, duration, size, visible
from sessions_app.models import McpSession
from sessions_app.workspaces.pages import WorkspacePages

if TYPE_CHECKING:
    from sessions_app.kit.admin.base import HubAdmin

BODIES = ("arguments", "result", "error")
_NAMES = ("tool_name", "target", "caller_label", "client_name", "error_code")
"""The columns that free words are looked up in."""


class _Bytes(Func):
    """How long a text is as it is stored; PostgreSQL knows it without reading the text."""

    function = "OCTET_LENGTH"
    output_field = IntegerField()

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="LENGTH(CAST(%(expressions)s AS BLOB))", **context)


class _MeasuredList(KeysetList):
    """Measures the bodies only where their size is shown."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: list[str | None] | None = None) -> QuerySet[Model]:
        rows: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        if "shown_size" in self.list_display:
            parts = [Coalesce(_Bytes(F(name)), 0) for name in BODIES]
            rows = rows.annotate(body_bytes=parts[0] + parts[1] + parts[2])
        return rows


class CallSearch(ListPart):
    """An id that a single call has leads straight to its page, whatever the filters let through."""

    def instead(self, page: HubAdmin, request: HttpRequest) -> HttpResponse | None:
        term = _searched(page, request)
        if not term:
            return None
        calls = McpToolInvocation.objects.order_by("-id")
        indexed = _indexed(calls, term)
        if indexed is not None:
            return _leads_to(list(indexed.values_list("pk", flat=True)[:2]))
        if not set(request.GET) - {"q", COLUMNS}:
            return None  # the list finds the same
        found, reached = newest(_by_request(calls, term).values_list("pk", flat=True), 2, seconds=SECONDS / 2)
        return _leads_to(found) if reached is None else None

    def listed(self, page: HubAdmin, request: HttpRequest, shown: HubList) -> HttpResponse | None:
        is_all = _searched(page, request) and not set(request.GET) - {"q", COLUMNS}
        if not is_all or not isinstance(shown, KeysetList) or not shown.is_whole:
            return None
        return _leads_to([row.pk for row in shown.result_list])


def _searched(page: HubAdmin, request: HttpRequest) -> str:
    """Return the words of a search that asks for nothing else."""
    may = request.method == "GET" and not holds_nul(request.GET) and page.has_view_permission(request)
    if not may or not request.GET.get("q"):
        return ""
    search = page.search_of(request)
    return search.words if not search.demands and not search.problems else ""


def _leads_to(found: list[int]) -> HttpResponse | None:
    return redirect("admin:invocations_mcptoolinvocation_change", found[0]) if len(found) == 1 else None


def _by_words(rows: QuerySet[Any], words: str) -> QuerySet[Any]:
    """Look an exact id up, each kind where its index is; other words among the names that a row has."""
    indexed = _indexed(rows, words)
    if indexed is not None:
        return indexed
    found = Q(request_id__in=_request_ids(words))
    for name in _NAMES:
        found |= Q(**{f"{name}__icontains": words})
    return rows.filter(found)


def _by_request(rows: QuerySet[Any], words: str) -> QuerySet[Any]:
    # Request ids have no index, and each client counts its own from 1.
    return rows.filter(request_id__in=_request_ids(words))


def _request_ids(words: str) -> list[str | int]:
    is_number = words.removeprefix("-").isdecimal() and len(words) < 20
    return [words, int(words)] if is_number else [words]


def _indexed(rows: QuerySet[Any], term: str) -> QuerySet[Any] | None:
    """Return the calls that an index finds by an id; None where there are none."""
    if rows.filter(invocation_id=term).exists():
        return rows.filter(invocation_id=term)
    if McpSession.objects.filter(pk=term).exists():
        return rows.filter(session=term)
    traced = rows.filter(trace_id=term).exclude(trace_id="")  # the index's own condition
    return traced if traced.exists() else None


def _time(row: McpToolInvocation) -> SafeString:
    moment = timezone.localtime(row.started_at)
    return format_html(
        '<time datetime="{}" title="{}" class="hub-time">{}</time>',
        moment.isoformat(),
        moment.isoformat(),
        moment.strftime("%m-%d %H:%M:%S"),
    )


def status(row: McpToolInvocation) -> SafeString:
    return mark("good" if row.status == "ok" else "bad", row.get_status_display())


def _tool(row: McpToolInvocation) -> SafeString:
    return format_html(
        '<span class="hub-tool"><span class="hub-cell hub-mono" title="{}">{}</span>'
        ' <span class="hub-subtle">{}</span></span>',
        visible(row.what, one_line=True),
        clipped(row.what, 64),
        f"v{row.tool_version}" if row.tool_version else row.method or "",
    )


def _note(row: McpToolInvocation) -> SafeString | str:
    if row.duplicate_of:
        return mark("off", _("Duplicate"))
    if row.replay_of:
        return mark("off", _("Replay"))
    if row.continues:
        return mark("off", _("Continued"))
    if row.occurrences > 1:
        return mark("warn", _("× %(count)d") % {"count": row.occurrences})
    return ""


def _figure(words: str) -> SafeString:
    return format_html('<span class="hub-figure hub-time">{}</span>', words)


def _turn(row: McpToolInvocation) -> SafeString | str:
    if not row.turn_id:
        return "-"
    return of_feature("admin:chat_query_changelist", clipped(row.turn_id, 12), q=row.turn_id)


def _session(row: McpToolInvocation) -> SafeString:
    return format_html(
        '<a class="hub-link hub-mono" href="{}">{}</a>',
        reverse("admin:sessions_app_mcpsession_change", args=[quote(row.session_id)]),
        clipped(row.session_id, 12),
    )


class CallListAdmin(WorkspacePages, ReplicaPages, RecordedReading):
    """The list, without the page of one call (`call_page`)."""

    list_display = [
        "shown_time",
        "shown_status",
        "shown_tool",
        "shown_caller",
        "shown_client",
        "shown_duration",
        "shown_code",
        "shown_duplicate",
    ]
    list_display_links = ["shown_time"]
    workspace_pages = ("changelist", "change", "columns", "views", "view", "view_delete")
    other_workspace_pages = ("invocation_body", "invocation_facets", "invocation_histogram")
    filters = CALL_FILTERS
    list_fullwidth = True
    list_before_template = "admin/hub/above_calls.html"
    search_fields = ["invocation_id"]  # the search itself is get_search_results
    search_help_text = _("status:error, caller:…, time:1h – or an ID, or words of a name")
    change_list_template = "admin/hub/found_list.html"
    ordering = ["-id"]
    actions = None
    keyset = WalkedKeyset
    parts = (
        CallSearch(),
        SearchLine(),
        Arrangement(
            "shown_transport",
            "shown_allowed_client",
            "shown_connection",
            "shown_size",
            "listed_turn",
            "listed_session",
            "shown_invocation",
            "retryable",
            "protocol_version",
            "client_address",
            "id",
        ),
        LiveTail(),
        FacetCounts("invocation", CALL_FACETS, time="started_at", status="status"),
        ExportForm(),
        SessionTranscripts(),
    )

    class Media:
        js = ["mcphub/live.js"]

    shown_time = column(_("time"), _time)
    shown_status = column(_("status"), status)
    shown_tool = column(_("tool"), _tool)
    shown_caller = column(_("caller"), lambda row: cell(row.caller_label or row.principal))
    shown_allowed_client = column(_("authorized app"), lambda row: cell(row.allowed_client or "-"))
    shown_client = column(_("client"), lambda row: cell(f"{row.client_name} {row.client_version}".strip() or "-"))
    shown_duration = column(_("duration"), lambda row: _figure(duration(row.duration_ms)))
    shown_code = column(_("error code"), lambda row: breakable(row.error_code or "-"))
    shown_transport = column(_("transport"), lambda row: format_html("<span>{}</span>", row.get_transport_display()))
    shown_duplicate = column(_("note"), _note)
    shown_connection = column(_("connection"), lambda row: cell(row.connection or "-"))
    shown_size = column(
        _("size"), lambda row: format_html('<span class="hub-figure hub-time">{}</span>', size(row.body_bytes))
    )
    listed_turn = column(_("chat turn"), _turn)
    listed_session = column(_("session"), _session)

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[KeysetList]:
        return _MeasuredList

    def get_queryset(self, request: HttpRequest) -> QuerySet[McpToolInvocation]:
        return super().get_queryset(request).defer(*BODIES)

    def search_words(self, request: HttpRequest, queryset: QuerySet[Any], words: str) -> tuple[QuerySet[Any], bool]:
        return _by_words(queryset, words), False

    def check_search(self, request: HttpRequest, search: Search) -> None:
        refuse_bodies(request, search)
