"""The catalogue's pages: tools with their versions, and the secrets that HTTP tools send."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest
from django.shortcuts import redirect
from django.urls import NoReverseMatch, path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.contrib.filters.admin import ChoicesDropdownFilter

from sessions_app.admin_base import JSONFormField, RecordedAdmin, detail_action, moment
from sessions_app.admin_changelist import TimeRangeFilter
from sessions_app.admin_check import CheckedForm
from sessions_app.shown import visible
from tools_catalog import (  # noqa: F401 - they register their pages
    admin_bundle,
    admin_connections,
    admin_content,
    admin_definition,
    admin_services,
    admin_toolsets,
    admin_upstream_tools,
    usage,
)
from tools_catalog.admin_bulk import BulkActions
from tools_catalog.admin_forms import SecretForm, ToolForm
from tools_catalog.admin_services import ServiceFilter, not_served
from tools_catalog.admin_tool_list import ToolList
from tools_catalog.admin_versions import VersionPages
from tools_catalog.models import McpToolDefinition, Secret

if TYPE_CHECKING:
    from django.http import HttpResponse
    from django.utils.safestring import SafeString

_CHANGED = moment("updated_at", _("changed"))
_REGISTERED = moment("created_at", _("registered"))


@admin.register(McpToolDefinition)
class McpToolDefinitionAdmin(VersionPages, CheckedForm, BulkActions, ToolList, RecordedAdmin):
    form = ToolForm
    checked_fields = ("name", "input_schema", "output_schema", "configuration", "meta", "requirements")
    list_filter = [
        ("backend", ChoicesDropdownFilter),
        "enabled",
        "read_only",
        "destructive",
        "task_support",
        ServiceFilter,
        "groups",
        ("updated_at", TimeRangeFilter),
    ]
    list_select_related = False  # no column follows a relation
    search_fields = ["name", "title", "description"]
    search_help_text = _("Name, title or description")
    autocomplete_fields = ["groups"]
    actions = ["enable_selected", "disable_selected", *BulkActions.bulk_actions]
    actions_detail = ["try_it", "show_calls", "show_versions"]
    actions_list = ["as_a_file"]
    change_form_before_template = "admin/hub/tool_note.html"
    change_form_after_template = "admin/hub/definition.html"
    readonly_fields = ["version", _REGISTERED, _CHANGED]
    fieldsets = [
        (_("What models read"), {"fields": ["name", "title", "description"]}),
        (_("Arguments and result"), {"fields": ["input_schema", "output_schema"]}),
        (_("How it is run"), {"fields": ["backend", "function", "configuration", "timeout_seconds", "task_support"]}),
        (
            _("What it does"),
            {"fields": ["read_only", "destructive", "idempotent", "open_world", "retry_safe"]},
        ),
        (_("Who may call it"), {"fields": ["enabled", "groups", "calls_per_minute"]}),
        (
            _("More"),
            {
                "classes": ["collapse"],
                "fields": ["meta", "requirements", "version", _REGISTERED, _CHANGED],
            },
        ),
        (_("This change"), {"fields": ["change_reason"]}),
    ]

    def get_form(self, request: HttpRequest, obj: Any | None = None, change: bool = False, **kwargs: Any) -> Any:
        # The fields that the form adds to the model's must not be looked for on the model.
        if "fields" not in kwargs:
            named = [name for _title, options in self.get_fieldsets(request, obj) for name in options["fields"]]
            kwargs["fields"] = [name for name in named if name not in ("function", "change_reason")]
        return super().get_form(request, obj, change, **kwargs)

    def get_fieldsets(self, request: HttpRequest, obj: Any | None = None) -> Any:
        if self.has_change_permission(request, obj) or (obj is None and self.has_add_permission(request)):
            return self.fieldsets
        own = ("function", "change_reason")  # they stand in the form only, which a reader does not get
        return [
            (title, {**options, "fields": kept})
            for title, options in self.fieldsets
            if (kept := [name for name in options["fields"] if name not in own])
        ]

    def has_delete_permission(self, request: HttpRequest, obj: Any | None = None) -> bool:
        return False

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        context = dict(extra_context or {})
        if object_id is not None and (tool := self.get_object(request, object_id)) is not None:
            words = "\n".join([tool.title, tool.description])
            context["not_served"] = not_served(tool)
            context["definition"] = admin_definition.shown(tool)
            context["unhidden"] = visible(words) if visible(words) != words else ""
        return super().changeform_view(request, object_id, form_url, context)

    def save_model(self, request: HttpRequest, obj: McpToolDefinition, form: Any, change: bool) -> None:
        obj.change_author = request.user
        obj.change_reason = form.cleaned_data.get("change_reason", "")
        obj._change_reason = obj.change_reason[:100] or None
        super().save_model(request, obj, form, change)

    def get_urls(self) -> list[Any]:
        wrap = self.admin_site.admin_view
        pages = [
            path("bundle/", wrap(partial(admin_bundle.bundle_view, self)), name="catalogue_bundle"),
            path("bundle/file/", wrap(partial(admin_bundle.export_view, self)), name="catalogue_export"),
            path("<int:pk>/versions/", wrap(self.versions_view), name="tool_versions"),
            path("<int:pk>/versions/<str:number>/", wrap(self.difference_view), name="tool_version"),
            path(
                "<int:pk>/versions/<str:number>/restore/",
                wrap(self.restore_view),
                name="tool_version_restore",
            ),
        ]
        return pages + super().get_urls()

    # Actions on one tool -----------------------------------------------------------------------------

    @detail_action(description=_("Export, import"), icon="import_export", url_path="as-a-file", permissions=["view"])
    def as_a_file(self, request: HttpRequest) -> HttpResponse:
        return redirect("admin:catalogue_bundle")

    @detail_action(description=_("Versions"), icon="difference", url_path="all-versions", permissions=["view"])
    def show_versions(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("admin:tool_versions", pk=object_id)

    @detail_action(description=_("Calls"), icon="monitoring", url_path="its-calls", permissions=["calls"])
    def show_calls(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("tool_calls", pk=object_id)

    def has_calls_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perm(usage.PERMISSION)

    @detail_action(description=_("Try it"), icon="play_arrow", url_path="try-it", permissions=["try"])
    def try_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("tool_try", pk=object_id)

    def has_try_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        try:
            reverse("tool_try", args=[1])
        except NoReverseMatch:
            return False
        return request.user.has_perm("tools_catalog.try_mcptooldefinition")

    # Actions on many ---------------------------------------------------------------------------------

    def switch_words(self, enabled: bool, count: int) -> tuple[str, str, str]:
        if enabled:
            return (
                ngettext("Enable %(count)d tool?", "Enable %(count)d tools?", count),
                _t("Clients see and can call these tools again within a quarter of a second."),
                ngettext("%(count)d tool enabled: %(names)s.", "%(count)d tools enabled: %(names)s.", count),
            )
        return (
            ngettext("Disable %(count)d tool?", "Disable %(count)d tools?", count),
            _t(
                "Clients no longer see these tools, and calls to them are refused and recorded. Calls under way "
                "finish. Enabling them again undoes this."
            ),
            ngettext("%(count)d tool disabled: %(names)s.", "%(count)d tools disabled: %(names)s.", count),
        )

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if isinstance(field, JSONFormField) and db_field.name == "configuration":
            field.required = False  # a Python tool's is made from the chosen function
        return field


@admin.register(Secret)
class SecretAdmin(RecordedAdmin):
    form = SecretForm
    list_display = ["name", "mask", "hosts", "shown_fingerprint", _CHANGED]
    search_fields = ["name"]
    readonly_fields = ["mask", "shown_fingerprint", _CHANGED]
    fieldsets = [(None, {"fields": ["name", "hosts", "value", "mask", "shown_fingerprint", _CHANGED]})]
    add_fieldsets = [(None, {"fields": ["name", "hosts", "value"]})]

    @admin.display(description=_("fingerprint"))
    def shown_fingerprint(self, secret: Secret) -> SafeString:
        return format_html('<span class="hub-mono">{}</span>', secret.fingerprint[:20])

    def get_readonly_fields(self, request: HttpRequest, obj: Secret | None = None) -> list[str]:
        # The value is sealed under the row's name, so the name stays.
        return [*self.readonly_fields, "name"] if obj is not None else []

    def get_fieldsets(self, request: HttpRequest, obj: Any | None = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return [(None, {"fields": ["name", "hosts", "mask", "shown_fingerprint", _CHANGED]})]
        return super().get_fieldsets(request, obj)

    def get_form(self, request: HttpRequest, obj: Any | None = None, change: bool = False, **kwargs: Any) -> Any:
        kwargs.setdefault("fields", ["hosts"] if obj is not None else ["name", "hosts"])
        return super().get_form(request, obj, change, **kwargs)

    def save_model(self, request: HttpRequest, obj: Secret, form: Any, change: bool) -> None:
        if value := form.cleaned_data.get("value"):
            obj.set_value(value)
            obj._change_reason = _t("new value") if change else None
        super().save_model(request, obj, form, change)
