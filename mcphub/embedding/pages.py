"""Read-only pages in the stock admin of a host: the calls on record, the tools, and the keys without their texts."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from invocations.models import McpToolInvocation
from sessions_app.models import ApiKey
from tools_catalog.models import McpToolDefinition

_CALL = ("received_at", "tool_name", "caller_label", "status", "error_code", "duration_ms")
_TOOL = ("name", "title", "version", "enabled", "read_only", "destructive")
_KEY = ("prefix", "name", "owner", "expires_at", "last_used_at", "revoked_at")


class _Shown(admin.ModelAdmin):  # type: ignore[type-arg, unused-ignore]
    """Rows to look at. What changes them are commands of `manage.py mcphub`."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class CallPages(_Shown):
    """Without arguments and results: `manage.py mcphub audit show` has them, and records who read them."""

    list_display = _CALL
    list_filter = ["status", "received_at"]
    search_fields = ["tool_name", "caller_label", "invocation_id"]
    fields = [*_CALL, "invocation_id", "principal", "method", "client_name", "client_version", "transport"]
    show_full_result_count = False
    ordering = ["-pk"]


class ToolPages(_Shown):
    list_display = _TOOL
    search_fields = ["name", "title"]
    fields = [*_TOOL, "description", "updated_at"]


class KeyPages(_Shown):
    list_display = _KEY
    list_select_related = ["owner"]
    search_fields = ["prefix", "name"]
    fields = _KEY


def register() -> None:
    """Add the pages to the admin of the host."""
    admin.site.register(McpToolInvocation, CallPages)
    admin.site.register(McpToolDefinition, ToolPages)
    admin.site.register(ApiKey, KeyPages)
