"""Sessions and server processes: shown, and a session may be closed. Keys and people have files of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.contrib.filters.admin import ChoicesDropdownFilter

from sessions_app import admin_keys, admin_limits, admin_people  # noqa: F401 - they register their pages
from sessions_app.admin_base import ReadOnlyAdmin, UncountedAdmin, detail_action, mark, moment, names_and_count, row_of
from sessions_app.admin_changelist import TimeRangeFilter
from sessions_app.admin_lists import ArrangedList
from sessions_app.models import McpSession, ServerProcess
from sessions_app.shown import breakable, clipped, json_block, narrow, visible

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

_SESSION_MARKS = {"created": "wait", "initialized": "good", "closed": "off", "expired": "off"}
_PROCESS_MARKS = {"starting": "wait", "running": "good", "stopping": "wait", "stopped": "off", "error": "bad"}


def _no_transcript(request: HttpRequest, session: McpSession) -> dict[str, Any]:
    return {}


transcript: Callable[[HttpRequest, McpSession], dict[str, Any]] = _no_transcript
"""Gives what the page of a session shows of its calls; the floor above sets it."""
_TYPED = 8
"""Characters of a session's id that are written by hand before it is killed."""

_CREATED = moment("created_at", _("created"))
_INITIALIZED = moment("initialized_at", _("initialized"))
_ACTIVE = moment("last_activity_at", _("last activity"))
_EXPIRES = moment("expires_at", _("expires"))
_ENDED = moment("ended_at", _("ended"))
_STARTED = moment("started_at", _("started"))
_SEEN = moment("last_seen_at", _("last seen"))
_STOPPED = moment("stopped_at", _("stopped"))


def short_id(whole: str) -> SafeString:
    return format_html('<span class="hub-mono hub-time" title="{}">{}</span>', whole, clipped(whole, 12))


@admin.register(McpSession)
class McpSessionAdmin(ArrangedList, UncountedAdmin):
    list_display = [
        "shown_state", "shown_id", "shown_client", "caller_label", "transport", _CREATED, _ACTIVE,
    ]  # fmt: skip
    list_display_links = ["shown_id"]
    more_columns = ["protocol_version", "principal", "is_implicit", _INITIALIZED, _EXPIRES, _ENDED, "shown_end"]
    list_filter = [
        ("state", ChoicesDropdownFilter),
        ("transport", ChoicesDropdownFilter),
        "is_implicit",
        ("last_activity_at", TimeRangeFilter),
    ]
    search_fields = ["=session_id", "client_name", "caller_label", "=principal"]
    search_help_text = _("Session, client, caller or principal")
    ordering = ["-created_at"]
    is_windowed = True
    indexed = ("state",)
    actions = ["close_selected"]
    actions_detail = ["kill"]
    change_form_outer_after_template = "admin/hub/session.html"
    readonly_fields = [
        "shown_state", "session_id", "shown_client", "shown_capabilities", "transport", "protocol_version",
        "caller_label", "principal", "is_implicit", _CREATED, _INITIALIZED, _ACTIVE,
        _EXPIRES, _ENDED, "shown_end", "calls",
    ]  # fmt: skip
    fieldsets = [
        (None, {"fields": ["shown_state", "session_id", "calls"]}),
        (_("Who"), {"fields": ["shown_client", "caller_label", "principal", "is_implicit"]}),
        (_("How"), {"fields": ["transport", "protocol_version", "shown_capabilities"]}),
        (
            _("When"),
            {
                "fields": [
                    _CREATED, _INITIALIZED, _ACTIVE, _EXPIRES, _ENDED, "shown_end",
                ]
            },
        ),
    ]  # fmt: skip

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """An id is looked up among all; the rest among the newest."""
        if McpSession.objects.filter(pk=search_term).exists():
            return queryset.filter(pk=search_term), False
        return super().get_search_results(request, queryset, search_term)

    @admin.display(description=_("state"), ordering="state")
    def shown_state(self, session: McpSession) -> SafeString:
        return mark(_SESSION_MARKS[session.state], session.get_state_display())

    @admin.display(description=_("session"))
    def shown_id(self, session: McpSession) -> SafeString:
        return short_id(session.session_id)

    @admin.display(description=_("client"), ordering="client_name")
    def shown_client(self, session: McpSession) -> SafeString:
        words = f"{session.client_name} {session.client_version}".strip()
        return narrow(words or "-")

    @admin.display(description=_("client capabilities"))
    def shown_capabilities(self, session: McpSession) -> SafeString:
        return json_block(session.client_capabilities, _t("client capabilities"))

    @admin.display(description=_("end reason"))
    def shown_end(self, session: McpSession) -> str:
        return visible(session.end_reason, one_line=True) or "-"

    @admin.display(description=_("calls"))
    def calls(self, session: McpSession) -> SafeString:
        address = reverse("admin:invocations_mcptoolinvocation_changelist")
        return format_html(
            '<a class="hub-link" href="{}?{}">{}</a>',
            address, urlencode({"session": session.pk}), _t("Calls of this session"),
        )  # fmt: skip

    class Media:
        js = ["mcphub/transcript.js"]

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        session = kwargs.get("obj")
        if session is not None:
            context |= transcript(request, session)
        return super().render_change_form(request, context, *args, **kwargs)

    def has_kill_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        """A stateless caller's session is not on the wire: ended, it would only be begun anew."""
        session = McpSession.objects.live().filter(pk=object_id, is_implicit=False)
        return self.has_close_permission(request) and bool(session.exists())

    @detail_action(description=_("Kill session"), permissions=["kill"], icon="power_off")
    def kill(self, request: HttpRequest, object_id: str) -> HttpResponse:
        session = row_of(self, request, object_id)
        back = reverse("admin:sessions_app_mcpsession_change", args=[quote(session.pk)])
        page = self.confirmation(
            request, title=_t("Kill this session?"), items=[(str(session), session.caller_label)],
            explanation=_t(
                "Every worker refuses it from now on: the client gets 404 and must initialize again, and its streams "
                "end. Calls under way finish. This cannot be undone. To keep the client out, revoke its key."
            ),
            button=_t("Kill session"), back=back, danger=True, reason=True, typed=session.session_id[:_TYPED],
        )  # fmt: skip
        if page is not None:
            return page
        why = request.POST.get("reason", "").strip()
        by = f"killed by {request.user.get_username()}"
        ended = McpSession.objects.filter(pk=session.pk).close(f"{by}: {why}" if why else by)
        if ended:
            self.message_user(request, _t("The session is killed."), messages.SUCCESS)
        else:
            self.message_user(request, _t("The session had ended already."), messages.WARNING)
        return redirect(back)

    def has_close_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("sessions_app.change_mcpsession")

    @admin.action(description=_("Close the selected sessions"), permissions=["close"])
    def close_selected(self, request: HttpRequest, queryset: QuerySet[McpSession]) -> Any:
        live = queryset.live()  # type: ignore[attr-defined]
        names, count = names_and_count(live)
        page = self.confirmation(
            request,
            title=ngettext("Close %(count)d session?", "Close %(count)d sessions?", count) % {"count": count},
            items=names,
            explanation=_t(
                "Their clients must initialize again. A closed session cannot be opened again. "
                "Sessions that have ended already stay as they are."
            ),
            button=_t("Close sessions"),
            back=request.get_full_path(),
            action="close_selected",
            danger=True,
            selected=list(queryset.values_list("pk", flat=True)),
        )
        if page is not None:
            return page
        closed = queryset.close(f"closed by {request.user.get_username()}")  # type: ignore[attr-defined]
        self.message_user(
            request,
            ngettext("%(count)d session closed.", "%(count)d sessions closed.", closed) % {"count": closed},
            messages.SUCCESS,
        )
        return None


@admin.register(ServerProcess)
class ServerProcessAdmin(ReadOnlyAdmin):
    list_display = [
        "shown_status",
        "shown_id",
        "shown_host",
        "pid",
        "version",
        _STARTED,
        _SEEN,
        _STOPPED,
    ]
    list_display_links = ["shown_id"]
    list_filter = [("status", ChoicesDropdownFilter)]
    search_fields = ["=process_id", "host"]
    readonly_fields = [
        "shown_status",
        "process_id",
        "host",
        "pid",
        "version",
        _STARTED,
        _SEEN,
        _STOPPED,
    ]
    fields: ClassVar[Any] = readonly_fields

    @admin.display(description=_("process"), ordering="process_id")
    def shown_id(self, process: ServerProcess) -> SafeString:
        return short_id(process.process_id)

    @admin.display(description=_("host"), ordering="host")
    def shown_host(self, process: ServerProcess) -> SafeString:
        return breakable(process.host)

    @admin.display(description=_("status"), ordering="status")
    def shown_status(self, process: ServerProcess) -> SafeString:
        return mark(_PROCESS_MARKS[process.status], process.get_status_display())
