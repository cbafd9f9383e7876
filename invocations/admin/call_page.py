"""The page of one call, strictly read-only: its fields, the whole of a body, and the way to a replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from invocations.admin import call_panels
from invocations.admin.call_list import BODIES, CallListAdmin
from invocations.admin.links import of_feature
from invocations.admin.reading import may_read_bodies
from invocations.admin.tasks import link_of
from invocations.lists.erased import left_out, marked
from invocations.models import McpToolInvocation
from invocations.rest import reads
from sessions_app.kit.admin.base import detail_action
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import clipped, copy_button, copyable, mono, pretty
from sessions_app.protocol.json import Json

_T = TypeVar("_T")


@admin.register(McpToolInvocation)
class McpToolInvocationAdmin(CallListAdmin):
    bodies = BODIES
    actions_detail = ["replay"]
    change_form_outer_before_template = "admin/hub/call_head.html"
    change_form_outer_after_template = "admin/hub/call.html"

    class Media:
        js = ["mcphub/json_tree.js"]

    def beside(self, request: HttpRequest, row: McpToolInvocation) -> dict[str, object]:
        return call_panels.shown(request, row)

    def get_fieldsets(self, request: HttpRequest, obj: McpToolInvocation | None = None) -> Any:
        head = ["shown_note"]
        if obj is not None and not (obj.duplicate_of or obj.continues or obj.replay_of or obj.occurrences > 1):
            head = []
        if obj is not None and _left_out(obj):
            head.append("shown_left_out")
        if obj is not None and (obj.policy_said or obj.policy_watched):
            head.append("shown_policy")
        if obj is not None and obj.guardrails:
            head.append("guardrails")
        if obj is not None and obj.turn_id:
            head.append("shown_turn")
        if obj is not None and _task(obj) is not None:
            head.append("task")
        if not may_read_bodies(request):
            head.append("hidden_bodies")
        who = [
            "caller",
            "shown_allowed_client",
            "shown_client",
            "client_address",
            "shown_transport",
            "protocol_version",
        ]
        ids = ["id", "shown_invocation", "shown_request", "session_link", "shown_trace", "shown_process"]
        return [
            *([(_t("Details"), {"fields": head})] if head else []),
            (_t("IDs, digests and source"), {"classes": ["collapse"], "fields": [*ids, "shown_digests", *who]}),
        ]

    @admin.display(description=_("note"))
    def shown_note(self, row: McpToolInvocation) -> SafeString | str:
        if row.duplicate_of:
            return _linked(_t("Repeats the answer of"), row.duplicate_of)
        if row.replay_of:
            return _linked(_t("Replays"), row.replay_of)
        if row.continues:
            return _linked(_t("Continued, with the client's responses, by"), row.continues)
        if row.occurrences > 1:
            return _t("Stands for %(count)d identical refusals in a row.") % {"count": row.occurrences}
        return "-"

    @admin.display(description=_("chat turn"))
    def shown_turn(self, row: McpToolInvocation) -> SafeString:
        position = _t("model answer %(round)d, call %(call)s") % {
            "round": row.turn_round or 0,
            "call": clipped(row.tool_call_id or "", 64),
        }
        return format_html(
            '{} · {} · <a class="hub-link" href="{}?turn_id__exact={}">{}</a>',
            of_feature("admin:chat_query_changelist", row.turn_id or "", q=row.turn_id or ""),
            position,
            reverse("admin:invocations_mcptoolinvocation_changelist"),
            row.turn_id,
            _t("its calls"),
        )

    @admin.display(description=_("omitted"))
    def shown_left_out(self, row: McpToolInvocation) -> SafeString:
        words = {"arguments": _t("arguments"), "result": _t("result"), "error": _t("error")}
        lines = []
        for name, gone in _left_out(row).items():
            notes = [_t("erased by retention")] if gone.get("erased") else []
            if gone.get("redacted"):
                notes.append(_t("redacted: %(places)s") % {"places": ", ".join(map(clipped_place, gone["redacted"]))})
            if gone.get("truncated"):
                notes.append(_t("truncated: %(bytes)d bytes in total") % gone)
            lines.append((f"{words.get(name, name)}: {'; '.join(notes)}",))
        return format_html_join("", "<div>{}</div>", lines)

    task = column(_("task"), lambda row: _task(row) or "-")
    hidden_bodies = column(
        _("bodies"), lambda row: _t("Arguments, result and error are hidden: your account can't read bodies.")
    )
    caller = column(_("caller"), lambda row: f"{clipped(row.caller_label, 150)} ({row.principal})")
    shown_allowed_client = column(_("authorized app"), lambda row: clipped(row.allowed_client or "-", 150))
    shown_policy = column(_("call rules"), lambda row: _ruled(row))
    shown_invocation = column(_("invocation"), lambda row: copyable(row.invocation_id, "invocation"))
    shown_request = column(
        _("request ID"),
        lambda row: mono("-") if row.request_id is None else copyable(pretty(row.request_id), "request"),
    )
    shown_trace = column(_("trace"), lambda row: _trace(row))
    shown_process = column(_("process"), lambda row: copyable(row.process_id, "process"))

    shown_digests = column(
        _("digests"),
        lambda row: format_html(
            "<div>{} {}</div><div>{} {}</div>",
            _t("definition"),
            mono(row.tool_digest or "-"),
            _t("arguments"),
            mono(row.arguments_digest),
        ),
    )
    session_link = column(
        _("session"),
        lambda row: format_html(
            '<a class="hub-link hub-mono" id="hub-copy-session" href="{}">{}</a> {}',
            reverse("admin:sessions_app_mcpsession_change", args=[quote(row.session_id)]),
            clipped(row.session_id, 64),
            copy_button("session"),
        ),
    )

    # Making it again --------------------------------------------------------------------------------

    def has_replay_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return self.has_view_permission(request) and may_read_bodies(request)

    @detail_action(description=_("Replay"), icon="replay", permissions=["replay"], url_path="again")
    def replay(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("invocation_replay", object_id)

    # The whole of one body -------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
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


def _once(row: McpToolInvocation, name: str, read: Callable[[], _T]) -> _T:
    """Return the cached result of `read` for this row: a page's layout is requested several times."""
    kept: dict[str, Any] = row.__dict__.setdefault("_shown", {})
    if name not in kept:
        kept[name] = read()
    found: _T = kept[name]
    return found


def _ruled(row: McpToolInvocation) -> str:
    """Return the rule that decided, and the effect that log-only rules would have had."""
    words = [f"{row.policy_rule}@{row.policy_version}: {row.policy_said}"] if row.policy_said else []
    if row.policy_watched:
        words.append(_t("Log-only rules would have: %(what)s") % {"what": row.policy_watched})
    return clipped(" · ".join(words), 500)


def _left_out(row: McpToolInvocation) -> dict[str, Json]:
    """Return the parts of the bodies that are not recorded, without reading them."""
    rows = marked(McpToolInvocation.objects.only("left_out", "status"))
    return _once(row, "left_out", lambda: left_out(rows.get(pk=row.pk)) or {})


def _task(row: McpToolInvocation) -> SafeString | None:
    return _once(row, "task", lambda: link_of(row.invocation_id))


def _trace(row: McpToolInvocation) -> SafeString:
    """Return the ID, as a link if the hub's own span is sampled and the deployment names a trace viewer."""
    if not row.trace_id:
        return mono("-")
    shown = copyable(row.trace_id, "trace")
    # Both are hexadecimal where the hub wrote them; scheme and host are those of the operator's template.
    if not (settings.MCPHUB_TRACE_URL and row.span_id and row.trace_id.isalnum() and row.span_id.isalnum()):
        return shown
    address = settings.MCPHUB_TRACE_URL.format(trace_id=row.trace_id, span_id=row.span_id)
    words = _t("Open the trace")
    return format_html(
        '{} <a class="hub-link" href="{}" rel="noreferrer noopener" target="_blank">{}</a>', shown, address, words
    )
