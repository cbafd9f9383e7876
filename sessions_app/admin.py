"""Sessions and server processes: shown, and a session may be closed. Keys and people have files of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.contrib.filters.admin import ChoicesDropdownFilter

from sessions_app import admin_keys, admin_limits, admin_people  # noqa: F401 - they register their pages
from sessions_app.admin_base import ReadOnlyAdmin, TimeRangeFilter, mark, moment, names_and_count
from sessions_app.models import McpSession, ServerProcess
from sessions_app.shown import clipped, json_block, visible

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

_SESSION_MARKS = {"created": "wait", "initialized": "good", "closed": "off", "expired": "off"}
_PROCESS_MARKS = {"starting": "wait", "running": "good", "stopping": "wait", "stopped": "off", "error": "bad"}


_CREATED = moment("created_at", _("created"))
_INITIALIZED = moment("initialized_at", _("initialized"))
_ACTIVE = moment("last_activity_at", _("last activity"))
_EXPIRES = moment("expires_at", _("expires"))
_ENDED = moment("ended_at", _("ended"))
_STARTED = moment("started_at", _("started"))
_SEEN = moment("last_seen_at", _("last seen"))
_STOPPED = moment("stopped_at", _("stopped"))


@admin.register(McpSession)
class McpSessionAdmin(ReadOnlyAdmin):
    list_display = [
        "shown_state", "shown_id", "shown_client", "caller_label", "transport", "protocol_version",
        _CREATED, _ACTIVE,
    ]  # fmt: skip
    list_display_links = ["shown_id"]
    list_filter = [
        ("state", ChoicesDropdownFilter),
        ("transport", ChoicesDropdownFilter),
        "is_implicit",
        ("last_activity_at", TimeRangeFilter),
    ]
    search_fields = ["=session_id", "client_name", "caller_label", "=principal"]
    search_help_text = _("Session, client, caller or principal")
    actions = ["close_selected"]
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

    @admin.display(description=_("state"), ordering="state")
    def shown_state(self, session: McpSession) -> SafeString:
        return mark(_SESSION_MARKS[session.state], session.get_state_display())

    @admin.display(description=_("session"))
    def shown_id(self, session: McpSession) -> SafeString:
        return format_html(
            '<span class="hub-mono hub-time" title="{}">{}</span>', session.session_id, clipped(session.session_id, 12)
        )

    @admin.display(description=_("client"), ordering="client_name")
    def shown_client(self, session: McpSession) -> SafeString:
        words = f"{session.client_name} {session.client_version}".strip()
        return format_html(
            '<span class="hub-cell" title="{}">{}</span>',
            visible(words, one_line=True),
            clipped(words, 120) or "-",
        )

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
        "process_id",
        "host",
        "pid",
        "version",
        _STARTED,
        _SEEN,
        _STOPPED,
    ]
    list_display_links = ["process_id"]
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

    @admin.display(description=_("status"), ordering="status")
    def shown_status(self, process: ServerProcess) -> SafeString:
        return mark(_PROCESS_MARKS[process.status], process.get_status_display())
