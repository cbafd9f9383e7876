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
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.contrib.filters.admin import ChoicesDropdownFilter

from sessions_app import store
from sessions_app.admin.lists import Arrangement
from sessions_app.filters import SESSION_FILTERS
from sessions_app.kit.admin.base import ReadOnlyAdmin, UncountedAdmin, detail_action, mark, moment, row_of
from sessions_app.kit.admin.parts import column
from sessions_app.kit.admin.search_line import SearchLine
from sessions_app.kit.shown import breakable, clipped, json_block, narrow, visible
from sessions_app.models import McpSession, ProcessTransport, ServerProcess

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

_SESSION_MARKS = {"created": "wait", "initialized": "good", "closed": "off", "expired": "off"}
_PROCESS_MARKS = {"starting": "wait", "running": "good", "stopping": "wait", "stopped": "off", "error": "bad"}


def _no_transcript(request: HttpRequest, session: McpSession) -> dict[str, object]:
    return {}


transcript: Callable[[HttpRequest, McpSession], dict[str, Any]] = _no_transcript
"""Returns the call part of a session's page; the floor above sets it."""
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
class McpSessionAdmin(UncountedAdmin):
    list_display = ["shown_state", "shown_id", "shown_client", "caller_label", "transport", _CREATED, _ACTIVE]
    list_display_links = ["shown_id"]
    list_before_template = "admin/hub/above_list.html"
    change_list_template = "admin/hub/found_list.html"
    parts = (
        SearchLine(),
        Arrangement("protocol_version", "principal", "is_implicit", _INITIALIZED, _EXPIRES, _ENDED, "shown_end"),
    )
    filters = SESSION_FILTERS
    search_fields = ["=session_id", "client_name", "caller_label", "=principal"]
    search_help_text = _("state:initialized, caller:…, client:… – or an ID, or words of a name")
    ordering = ["-created_at"]
    is_windowed = True
    indexed = ("state",)
    actions = ["close_selected"]
    actions_detail = ["kill"]
    change_form_outer_after_template = "admin/hub/session.html"
    fieldsets = [
        (None, {"fields": ["shown_state", "session_id", "calls"]}),
        (_("Who"), {"fields": ["shown_client", "caller_label", "principal", "is_implicit"]}),
        (_("Method"), {"fields": ["transport", "protocol_version", "shown_capabilities"]}),
        (_("When"), {"fields": [_CREATED, _INITIALIZED, _ACTIVE, _EXPIRES, _ENDED, "shown_end"]}),
    ]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> Any:
        store.expire_due()
        return super().changelist_view(request, extra_context)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, object] | None = None,
    ) -> HttpResponse:
        if object_id is not None:
            store.expire_due()
        return super().changeform_view(request, object_id, form_url, extra_context)

    def search_words(self, request: HttpRequest, queryset: QuerySet[Any], words: str) -> tuple[QuerySet[Any], bool]:
        """An id is looked up among all; the rest among the newest."""
        if words and McpSession.objects.filter(pk=words).exists():
            return queryset.filter(pk=words), False
        return super().search_words(request, queryset, words)

    shown_state = column(
        _("state"), lambda session: mark(_SESSION_MARKS[session.state], session.get_state_display()), ordering="state"
    )
    shown_id = column(_("session"), lambda session: short_id(session.session_id))

    @admin.display(description=_("client"), ordering="client_name")
    def shown_client(self, session: McpSession) -> SafeString:
        words = f"{session.client_name} {session.client_version}".strip()
        return narrow(words or "-")

    shown_capabilities = column(
        _("client capabilities"), lambda session: json_block(session.client_capabilities, _t("client capabilities"))
    )
    shown_end = column(_("end reason"), lambda session: visible(session.end_reason, one_line=True) or "-")

    @admin.display(description=_("calls"))
    def calls(self, session: McpSession) -> SafeString:
        address = reverse("admin:invocations_mcptoolinvocation_changelist")
        return format_html(
            '<a class="hub-link" href="{}?{}">{}</a>',
            address,
            urlencode({"session": session.pk}),
            _t("Calls of this session"),
        )

    class Media:
        js = ["mcphub/transcript.js"]

    def beside(self, request: HttpRequest, row: McpSession) -> dict[str, object]:
        return transcript(request, row)

    def has_kill_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """A stateless caller's session is not on the wire: ended, it would only be begun anew."""
        session = McpSession.objects.live().filter(pk=object_id, is_implicit=False)
        return self.has_close_permission(request) and bool(session.exists())

    @detail_action(description=_("End session"), permissions=["kill"], icon="power_off")
    def kill(self, request: HttpRequest, object_id: str) -> HttpResponse:
        session = row_of(self, request, object_id)
        back = reverse("admin:sessions_app_mcpsession_change", args=[quote(session.pk)])
        page = self.confirmation(
            request,
            title=_t("End this session?"),
            items=[(str(session), session.caller_label)],
            explanation=_t(
                "Every worker rejects it from now on: the client receives 404 and must initialize again, and "
                "its streams end. Running calls finish. This can't be undone. To keep the client out, revoke "
                "its key."
            ),
            button=_t("End session"),
            back=back,
            danger=True,
            reason=True,
            typed=session.session_id[:_TYPED],
        )
        if page is not None:
            return page
        why = request.POST.get("reason", "").strip()
        by = f"killed by {request.user.get_username()}"
        ended = McpSession.objects.filter(pk=session.pk).close(f"{by}: {why}" if why else by, by=request.user)
        if ended:
            self.message_user(request, _t("Session ended."), messages.SUCCESS)
        else:
            self.message_user(request, _t("The session had already ended."), messages.WARNING)
        return redirect(back)

    def has_close_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("sessions_app.change_mcpsession")

    @admin.action(description=_("End the selected sessions"), permissions=["close"])
    def close_selected(self, request: HttpRequest, queryset: QuerySet[McpSession]) -> HttpResponse | None:
        page = self.confirmation_of(
            request,
            queryset,
            "close_selected",
            lambda count: ngettext("End %(count)d session?", "End %(count)d sessions?", count),
            _t(
                "Their clients must initialize again. An ended session can't be reopened. Sessions that have "
                "already ended stay as they are."
            ),
            _t("End sessions"),
            touched=queryset.live(),  # type: ignore[attr-defined]
            danger=True,
        )
        if page is not None:
            return page
        closed = queryset.close(f"closed by {request.user.get_username()}", by=request.user)  # type: ignore[attr-defined]
        self.message_user(
            request,
            ngettext("%(count)d session ended.", "%(count)d sessions ended.", closed) % {"count": closed},
            messages.SUCCESS,
        )
        return None


@admin.register(ServerProcess)
class ServerProcessAdmin(ReadOnlyAdmin):
    list_display = ["shown_status", "shown_id", "shown_host", "pid", "version", "shown_open", _STARTED, _SEEN, _STOPPED]
    list_display_links = ["shown_id"]
    list_filter = [("status", ChoicesDropdownFilter)]
    search_fields = ["=process_id", "host"]
    fields: ClassVar[Any] = [
        "shown_status",
        "process_id",
        "host",
        "pid",
        "version",
        "protocol_version",
        _STARTED,
        _SEEN,
        _STOPPED,
        "shown_transports",
    ]

    shown_id = column(_("process"), lambda process: short_id(process.process_id), ordering="process_id")

    @admin.display(description=_("transports"))
    def shown_open(self, process: ServerProcess) -> str:
        return ", ".join(str(each.get_type_display()) for each in process.transports.all() if each.is_active) or "-"

    @admin.display(description=_("transports"))
    def shown_transports(self, process: ServerProcess) -> SafeString | str:
        return format_html_join(
            "",
            "<div><p>{} {}</p>{}{}</div>",
            (
                (
                    each.get_type_display(),
                    mark("good", _t("Active")) if each.is_active else mark("off", _t("Inactive")),
                    json_block(each.configuration, _t("configuration")),
                    _error_words(each),
                )
                for each in process.transports.all()
            ),
        ) or _t("It serves no clients itself.")

    def get_queryset(self, request: HttpRequest) -> QuerySet[ServerProcess]:
        return super().get_queryset(request).prefetch_related("transports")

    shown_host = column(_("host"), lambda process: breakable(process.host), ordering="host")
    shown_status = column(
        _("status"),
        lambda process: mark(_PROCESS_MARKS[process.status], process.get_status_display()),
        ordering="status",
    )


def _error_words(transport: ProcessTransport) -> SafeString | str:
    if transport.last_error_at is None:
        return ""
    when = timezone.localtime(transport.last_error_at).strftime("%Y-%m-%d %H:%M:%S %Z")
    words = _t("Last error, %(when)s: %(error)s") % {
        "when": when,
        "error": visible(transport.last_error, one_line=True),
    }
    return format_html('<p class="hub-subtle">{}</p>', words)
