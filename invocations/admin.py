"""The audit's pages of calls, strictly read-only. Envelopes and error mappings have files of their own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import ChoicesDropdownFilter

from invocations import admin_audit, admin_envelopes, admin_mapping, admin_usage  # noqa: F401 - they register their pages
from invocations.admin_detail import CallDetail
from invocations.admin_export import ExportedList
from invocations.admin_facets import FacetedList
from invocations.admin_filters import (
    ArgumentFilter,
    ChatFilter,
    ClientFilter,
    ClientVersionFilter,
    ConnectionFilter,
    DuplicateFilter,
    DurationFilter,
    ErrorCodeFilter,
    InterruptedFilter,
    PrincipalFilter,
    ResultFilter,
    RetryableFilter,
    SessionFilter,
    StartedFilter,
    ToolFilter,
    TurnFilter,
    VersionFilter,
)
from invocations.admin_list import CallColumns, CallSearch
from invocations.admin_live import LiveList
from invocations.admin_reading import RecordedReading, may_read_bodies
from invocations.admin_sessions import Transcripts
from invocations.admin_walking import WalkedAdmin
from invocations.models import McpToolInvocation
from invocations.redaction import admin as admin_redaction  # noqa: F401 - it registers its pages
from invocations.rest import reads
from invocations.tasks.admin import link_of
from sessions_app.admin_base import detail_action
from sessions_app.admin_lists import ArrangedList
from sessions_app.shown import INLINE_CHARACTERS, clipped, copy_button, copyable, duration, json_block, mono, pretty
from tools_catalog.models import McpToolVersion

BODIES = ("arguments", "result", "error")


@admin.register(McpToolInvocation)
class McpToolInvocationAdmin(
    CallDetail,
    CallSearch,
    CallColumns,
    LiveList,
    FacetedList,
    ExportedList,
    ArrangedList,
    Transcripts,
    WalkedAdmin,
    RecordedReading,
):
    bodies = BODIES
    list_before_template = "admin/hub/above_calls.html"
    list_filter = [
        ("started_at", StartedFilter),
        ("status", ChoicesDropdownFilter),
        ToolFilter,
        VersionFilter,
        ClientFilter,
        ClientVersionFilter,
        PrincipalFilter,
        SessionFilter,
        ErrorCodeFilter,
        RetryableFilter,
        ("duration_ms", DurationFilter),
        ConnectionFilter,
        ChatFilter,
        TurnFilter,
        ArgumentFilter,
        ResultFilter,
        ("transport", ChoicesDropdownFilter),
        DuplicateFilter,
        InterruptedFilter,
    ]
    ordering = ["-id"]
    list_fullwidth = True
    actions = None
    actions_detail = ["replay"]

    class Media:
        js = ["mcphub/live.js", "mcphub/facets.js"]

    # The list --------------------------------------------------------------------------------------

    def get_queryset(self, request: HttpRequest) -> QuerySet[McpToolInvocation]:
        return super().get_queryset(request).defer(*BODIES)

    # The page of one call --------------------------------------------------------------------------

    def get_fieldsets(self, request: HttpRequest, obj: McpToolInvocation | None = None) -> Any:
        head = ["shown_status", "tool_link", "when"]
        if obj is not None and obj.status == "error":
            head.insert(1, "shown_failure")
        if obj is not None and (obj.duplicate_of or obj.continues or obj.replay_of or obj.occurrences > 1):
            head.append("shown_note")
        if obj is not None and obj.left_out:
            head.append("shown_left_out")
        if obj is not None and obj.turn_id:
            head.append("shown_turn")
        if obj is not None and link_of(obj.invocation_id) is not None:
            head.append("task")
        bodies = ["hidden_bodies"]
        if may_read_bodies(request):
            outcome = [name for name in ("result", "error") if obj is None or getattr(obj, name) is not None]
            bodies = [f"shown_{name}" for name in ("arguments", *outcome)]
        return [
            (None, {"fields": head}),
            (_t("Arguments and outcome"), {"fields": bodies}),
            (_t("Who"), {"fields": ["caller", "shown_client", "client_address", "shown_transport", "protocol_version"]},
            ),
            (
                _t("Ids"),
                {
                    "fields": [
                        "id", "shown_invocation", "shown_request", "session_link", "shown_trace", "shown_process",
                        "shown_digests",
                    ]
                },
            ),
        ]  # fmt: skip

    def get_readonly_fields(self, request: HttpRequest, obj: Any | None = None) -> list[str]:
        return [name for _title, options in self.get_fieldsets(request, obj) for name in options["fields"]]

    @admin.display(description=_("tool"))
    def tool_link(self, row: McpToolInvocation) -> SafeString:
        version = (
            McpToolVersion.objects.filter(digest=row.tool_digest, version=row.tool_version).defer("definition").first()
            if row.tool_digest
            else None
        )
        name = clipped(row.tool_name, 128)
        if version is None:
            return format_html(
                '<span class="hub-mono">{}</span> {}',
                name,
                f"v{row.tool_version}" if row.tool_version else "",
            )
        return format_html(
            '<a class="hub-link" href="{}"><span class="hub-mono">{}</span> v{}</a>',
            reverse("admin:tool_version", args=[version.tool_id, version.version]), name, row.tool_version,
        )  # fmt: skip

    @admin.display(description=_("failure"))
    def shown_failure(self, row: McpToolInvocation) -> str:
        words = [row.error_code]
        if row.jsonrpc_code is not None:
            words.append(_t("JSON-RPC %(code)d") % {"code": row.jsonrpc_code})
        if row.retryable is not None:
            words.append(_t("may be tried again") if row.retryable else _t("not to be tried again"))
        return " · ".join(words)

    @admin.display(description=_("when"))
    def when(self, row: McpToolInvocation) -> SafeString:
        steps = (
            (_t("received"), row.received_at), (_t("started"), row.started_at), (_t("finished"), row.finished_at),
        )  # fmt: skip
        lines = format_html_join(
            "", "<div>{} <time class='hub-mono'>{}</time></div>",
            ((word, timezone.localtime(moment).isoformat(sep=" ", timespec="milliseconds")) for word, moment in steps),
        )  # fmt: skip
        waited = max(timedelta(0), row.started_at - row.received_at)
        return format_html(
            "{}<div>{}</div>", lines,
            _t("took %(duration)s, after waiting %(waited)s")
            % {"duration": duration(row.duration_ms), "waited": duration(round(waited.total_seconds() * 1000))},
        )  # fmt: skip

    @admin.display(description=_("note"))
    def shown_note(self, row: McpToolInvocation) -> SafeString | str:
        if row.duplicate_of:
            return _linked(_t("Repeats the answer of"), row.duplicate_of)
        if row.replay_of:
            return _linked(_t("Makes again"), row.replay_of)
        if row.continues:
            return _linked(_t("Goes on, with the client's answers, with"), row.continues)
        if row.occurrences > 1:
            return _t("Stands for %(count)d equal refusals in a row.") % {"count": row.occurrences}
        return "-"

    @admin.display(description=_("chat turn"))
    def shown_turn(self, row: McpToolInvocation) -> SafeString:
        told = _t("answer %(round)d of the model, call %(call)s") % {
            "round": row.turn_round or 0, "call": clipped(row.tool_call_id or "", 64),
        }  # fmt: skip
        return format_html(
            '<a class="hub-link hub-mono" href="{}?q={}">{}</a> · {} · '
            '<a class="hub-link" href="{}?turn_id__exact={}">{}</a>',
            reverse("admin:chat_query_changelist"), row.turn_id, row.turn_id, told,
            reverse("admin:invocations_mcptoolinvocation_changelist"), row.turn_id, _t("its calls"),
        )  # fmt: skip

    @admin.display(description=_("left out"))
    def shown_left_out(self, row: McpToolInvocation) -> SafeString:
        words = {"arguments": _t("arguments"), "result": _t("result"), "error": _t("error")}
        lines = []
        for name, gone in (row.left_out or {}).items():
            said = []
            if gone.get("redacted"):
                said.append(_t("redacted: %(places)s") % {"places": ", ".join(map(clipped_place, gone["redacted"]))})
            if gone.get("truncated"):
                said.append(_t("cut short: %(bytes)d bytes in all") % gone)
            lines.append((f"{words.get(name, name)}: {'; '.join(said)}",))
        return format_html_join("", "<div>{}</div>", lines)

    @admin.display(description=_("task"))
    def task(self, row: McpToolInvocation) -> SafeString | str:
        return link_of(row.invocation_id) or "-"

    @admin.display(description=_("bodies"))
    def hidden_bodies(self, row: McpToolInvocation) -> str:
        return _t("Arguments, result and error are hidden: your account may not read bodies.")

    @admin.display(description=_("arguments"))
    def shown_arguments(self, row: McpToolInvocation) -> SafeString:
        return self._body(row, "arguments")

    @admin.display(description=_("result"))
    def shown_result(self, row: McpToolInvocation) -> SafeString:
        return self._body(row, "result")

    @admin.display(description=_("error"))
    def shown_error(self, row: McpToolInvocation) -> SafeString:
        return self._body(row, "error")

    def _body(self, row: McpToolInvocation, name: str) -> SafeString:
        value = getattr(row, name)
        block = json_block(value, name)
        if len(pretty(value)) <= INLINE_CHARACTERS:
            return block
        address = reverse("admin:invocation_body", args=[row.pk, name])
        return format_html('{}<p><a class="hub-link" href="{}">{}</a></p>', block, address, _t("Download the whole"))

    @admin.display(description=_("caller"))
    def caller(self, row: McpToolInvocation) -> str:
        return f"{clipped(row.caller_label, 150)} ({row.principal})"

    @admin.display(description=_("invocation"))
    def shown_invocation(self, row: McpToolInvocation) -> SafeString:
        return copyable(row.invocation_id, "invocation")

    @admin.display(description=_("request id"))
    def shown_request(self, row: McpToolInvocation) -> SafeString:
        return mono("-") if row.request_id is None else copyable(pretty(row.request_id), "request")

    @admin.display(description=_("trace"))
    def shown_trace(self, row: McpToolInvocation) -> SafeString:
        return copyable(row.trace_id, "trace") if row.trace_id else mono("-")

    @admin.display(description=_("process"))
    def shown_process(self, row: McpToolInvocation) -> SafeString:
        return copyable(row.process_id, "process")

    @admin.display(description=_("digests"))
    def shown_digests(self, row: McpToolInvocation) -> SafeString:
        return format_html(
            "<div>{} {}</div><div>{} {}</div>",
            _t("definition"), mono(row.tool_digest or "-"), _t("arguments"), mono(row.arguments_digest),
        )  # fmt: skip

    @admin.display(description=_("session"))
    def session_link(self, row: McpToolInvocation) -> SafeString:
        return format_html(
            '<a class="hub-link hub-mono" id="hub-copy-session" href="{}">{}</a> {}',
            reverse("admin:sessions_app_mcpsession_change", args=[quote(row.session_id)]), clipped(row.session_id, 64),
            copy_button("session"),
        )  # fmt: skip

    # Making it again --------------------------------------------------------------------------------

    def has_replay_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return self.has_view_permission(request) and may_read_bodies(request)

    @detail_action(description=_("Replay"), icon="replay", permissions=["replay"], url_path="again")
    def replay(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("invocation_replay", object_id)

    # The whole of one body -------------------------------------------------------------------------

    def get_urls(self) -> list[Any]:
        body = path("<int:pk>/body/<str:name>/", self.admin_site.admin_view(self.body_view), name="invocation_body")
        return [body, *super().get_urls()]

    def body_view(self, request: HttpRequest, pk: int, name: str) -> HttpResponse:
        if not self.has_view_permission(request) or not may_read_bodies(request):
            raise PermissionDenied
        row = McpToolInvocation.objects.filter(pk=pk).first()
        if row is None or name not in BODIES:
            raise Http404
        reads.note(request.user, request.path, [name], [row.pk], row.invocation_id)
        return HttpResponse(
            pretty(getattr(row, name)),
            content_type="application/json",
            headers={
                "Content-Disposition": f'attachment; filename="{row.invocation_id}-{name}.json"',
                "X-Content-Type-Options": "nosniff",
                "Cache-Control": "no-store",
            },
        )


def clipped_place(place: str) -> str:
    return clipped(place, 80)


def _linked(words: str, invocation_id: str) -> SafeString:
    address = f"{reverse('admin:invocations_mcptoolinvocation_changelist')}?{urlencode({'q': invocation_id})}"
    return format_html('{} <a class="hub-link hub-mono" href="{}">{}</a>', words, address, invocation_id)
