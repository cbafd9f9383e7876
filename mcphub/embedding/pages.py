"""Pages about the hub in the stock admin of a host: what is on record, and the few decisions that cannot wait.

Rows are made and configured by REST and `manage.py mcphub`. Arguments and results are shown to people with the
permission to read them, and each reading is on record.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from invocations.models import McpToolInvocation
from mcphub.parts import HostPages
from sessions_app.history.models import AuditEvent
from sessions_app.history.source import ADMIN, edits_via
from sessions_app.kit.features import declared, loaded
from sessions_app.kit.shown import pretty
from sessions_app.models import ApiKey, McpSession
from tools_catalog.models import McpConnection, McpToolDefinition

READ_BODIES = "invocations.read_bodies"
_CALL = ("received_at", "tool_name", "caller_label", "status", "error_code", "duration_ms")
_TOOL = ("name", "title", "version", "enabled", "read_only", "destructive")
_KEY = ("prefix", "name", "owner", "expires_at", "last_used_at", "revoked_at")
_SESSION = ("created_at", "client_name", "caller_label", "transport", "state", "last_activity_at")
_CONNECTION = ("slug", "title", "enabled", "transport", "policy", "discovered_at")
_EVENT = ("happened_at", "kind", "actor_label", "via", "subject_model", "subject_label")


class HostPage(admin.ModelAdmin):  # type: ignore[type-arg, unused-ignore]
    """Rows to look at, and actions by their own permissions."""

    show_full_result_count = False
    bodies: ClassVar[tuple[str, ...]] = ()
    """Columns that only people with the permission see, on the page of a row."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def may_change(self, request: HttpRequest) -> bool:
        return bool(super().has_change_permission(request))

    has_decide_permission = may_change
    """The permission that Django checks for actions with `permissions=["decide"]`."""

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        shown = [f"shown_{name}" for name in self.bodies] if request.user.has_perm(READ_BODIES) else []
        return [*(self.fields or ()), *shown]

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        row = self.get_object(request, object_id) if self.bodies else None
        if row is not None and self.has_view_permission(request) and request.user.has_perm(READ_BODIES):
            from invocations.rest import reads  # commands of the host load this module, and need no REST

            reads.note(request.user, request.path, list(self.bodies), [row.pk], str(row.pk))
        answer: HttpResponse = super().change_view(request, object_id, *args, **kwargs)
        return answer

    def shown_arguments(self, row: Any) -> SafeString:
        return _json(row.arguments)

    def shown_result(self, row: Any) -> SafeString:
        return _json(row.result)

    def shown_error(self, row: Any) -> SafeString:
        return _json(row.error)


class CallPages(HostPage):
    bodies = ("arguments", "result", "error")
    list_display = _CALL
    list_filter = ["status", "received_at"]
    search_fields = ["tool_name", "caller_label", "invocation_id"]
    fields = [*_CALL, "invocation_id", "principal", "method", "client_name", "client_version", "transport"]
    readonly_fields = ["shown_arguments", "shown_result", "shown_error"]
    ordering = ["-pk"]


class ToolPages(HostPage):
    list_display = _TOOL
    list_filter = ["enabled"]
    search_fields = ["name", "title"]
    fields = [*_TOOL, "description", "updated_at"]
    actions = ["switch_on", "switch_off"]

    @admin.action(description=_("Enable"), permissions=["decide"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._switch(request, queryset, enabled=True)

    @admin.action(description=_("Disable"), permissions=["decide"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._switch(request, queryset, enabled=False)

    def _switch(self, request: HttpRequest, queryset: QuerySet[Any], *, enabled: bool) -> None:
        rows: Any = McpToolDefinition.objects.filter(pk__in=queryset.values("pk"))
        with edits_via(ADMIN, request):
            done = rows.set_enabled(enabled)
        self.message_user(request, _("Changed: %(count)d.") % {"count": done})


class KeyPages(HostPage):
    list_display = _KEY
    list_select_related = ["owner"]
    search_fields = ["prefix", "name"]
    fields = _KEY
    actions = ["revoke"]

    @admin.action(description=_("Revoke"), permissions=["decide"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        with edits_via(ADMIN, request):
            done = ApiKey.objects.filter(pk__in=queryset.values("pk")).revoke()
        self.message_user(request, _("Changed: %(count)d.") % {"count": done})


class SessionPages(HostPage):
    list_display = _SESSION
    list_filter = ["state", "transport"]
    search_fields = ["session_id", "client_name", "caller_label"]
    fields = [*_SESSION, "session_id", "principal", "protocol_version", "ended_at", "end_reason"]


class ConnectionPages(HostPage):
    list_display = _CONNECTION
    list_filter = ["enabled", "transport"]
    search_fields = ["slug", "title"]
    fields = [*_CONNECTION, "created_at", "updated_at"]


class EventPages(HostPage):
    """The history of edits; before and after are in `manage.py mcphub audit`."""

    list_display = _EVENT
    list_filter = ["via", "happened_at"]
    search_fields = ["subject_label", "kind", "actor_label"]
    fields = [*_EVENT, "actor", "subject_id", "reason"]
    ordering = ["-pk"]


PAGES: dict[type[Model], type[HostPage]] = {
    McpToolInvocation: CallPages,
    McpToolDefinition: ToolPages,
    McpConnection: ConnectionPages,
    ApiKey: KeyPages,
    McpSession: SessionPages,
    AuditEvent: EventPages,
}


def register(site: admin.AdminSite) -> None:
    """Add the pages to an admin of the host, those that it has not."""
    added = {loaded(part.model): loaded(part.pages) for part in declared(HostPages)}
    for model, pages in {**PAGES, **added}.items():
        if not site.is_registered(model):
            site.register(model, pages)


def _json(value: Any) -> SafeString:
    return format_html("<pre>{}</pre>", pretty(value) if value is not None else "–")
