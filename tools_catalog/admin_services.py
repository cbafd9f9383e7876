"""The page of services: the APIs behind HTTP tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from sessions_app.admin_base import RecordedAdmin, detail_action, moment, row_of
from sessions_app.shown import breakable, clipped, mono
from tools_catalog import admin_imports, requirements
from tools_catalog.admin_switch import SwitchActions
from tools_catalog.models import Backend, HttpService, McpToolDefinition

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

_CHANGED = moment("updated_at", _("changed"))
_REGISTERED = moment("created_at", _("registered"))


class ServiceFilter(admin.SimpleListFilter):
    """Tools by their service."""

    title = _("service")
    parameter_name = "service"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [(slug, slug) for slug in HttpService.objects.values_list("slug", flat=True)[:100]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        return queryset.filter(pk__in=tools_of(chosen).values("pk")) if chosen else queryset


@admin.register(HttpService)
class HttpServiceAdmin(SwitchActions, RecordedAdmin):
    list_display = ["shown_slug", "shown_url", "kind", "version", "shown_count", "state", _CHANGED]
    list_display_links = ["shown_slug"]
    list_filter = ["enabled", "kind"]
    list_select_related = False  # no column follows a relation
    search_fields = ["slug", "title", "url"]
    search_help_text = _("Name, title or address")
    actions = ["enable_selected", "disable_selected"]
    actions_detail = ["import_again", "show_tools"]
    actions_list = ["import_new"]
    readonly_fields = ["shown_count", _REGISTERED, _CHANGED]
    fieldsets = [
        (None, {"fields": ["slug", "title", "enabled"]}),
        (_("How it is reached"), {"fields": ["url", "headers"]}),
        (_("What it is"), {"fields": ["kind", "version", "shown_count", _REGISTERED, _CHANGED]}),
    ]

    def get_readonly_fields(self, request: HttpRequest, obj: HttpService | None = None) -> Any:
        return [*self.readonly_fields, *(["slug"] if obj is not None else [])]

    def has_delete_permission(self, request: HttpRequest, obj: Any | None = None) -> bool:
        return False  # tools name it: it is disabled instead

    @admin.display(description=_("name"), ordering="slug")
    def shown_slug(self, row: HttpService) -> SafeString:
        return mono(row.slug)

    @admin.display(description=_("address"), ordering="url")
    def shown_url(self, row: HttpService) -> SafeString:
        return breakable(clipped(row.url, 80))

    @admin.display(description=_("tools"))
    def shown_count(self, row: HttpService) -> str:
        return str(tools_of(row.slug).count()) if row.pk else "-"

    def get_urls(self) -> list[Any]:
        def view(request: HttpRequest) -> HttpResponse:
            return admin_imports.import_view(self, request)

        return [path("import/", self.admin_site.admin_view(view), name="service_import"), *super().get_urls()]

    @detail_action(description=_("Import a description"), icon="upload_file", url_path="take", permissions=["import"])
    def import_new(self, request: HttpRequest) -> HttpResponse:
        return redirect("admin:service_import")

    @detail_action(description=_("Import a description"), icon="upload_file", url_path="again", permissions=["import"])
    def import_again(self, request: HttpRequest, object_id: str) -> HttpResponse:
        slug = row_of(self, request, object_id).slug
        return redirect(f"{reverse('admin:service_import')}?service={slug}")

    def has_import_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return request.user.has_perms(admin_imports.NEEDED)

    @detail_action(description=_("Its tools"), icon="build", url_path="its-tools", permissions=["view"])
    def show_tools(self, request: HttpRequest, object_id: str) -> HttpResponse:
        slug = row_of(self, request, object_id).slug
        return redirect(f"{reverse('admin:tools_catalog_mcptooldefinition_changelist')}?service={slug}")

    def switch_words(self, enabled: bool, count: int) -> tuple[str, str, str]:
        if enabled:
            return (
                ngettext("Enable %(count)d service?", "Enable %(count)d services?", count),
                _t("Their tools are served again within a quarter of a second."),
                ngettext("%(count)d service enabled: %(names)s.", "%(count)d services enabled: %(names)s.", count),
            )
        return (
            ngettext("Disable %(count)d service?", "Disable %(count)d services?", count),
            _t("None of their tools is served. Enabling them again undoes this."),
            ngettext("%(count)d service disabled: %(names)s.", "%(count)d services disabled: %(names)s.", count),
        )


def tools_of(slug: str) -> Any:
    """Give the tools that name the service."""
    named = f'"service":"{slug}"'
    return McpToolDefinition.objects.filter(backend=Backend.HTTP, configuration__contains=named)


def not_served(tool: McpToolDefinition) -> str:
    """Give why a tool that is switched on is not served, or nothing."""
    if tool.backend != Backend.HTTP or not tool.enabled or not isinstance(tool.configuration, dict):
        return ""
    slug = tool.configuration.get("service")
    row = HttpService.objects.filter(slug=str(slug)).first()
    if slug is not None and (row is None or not row.enabled):
        return _t("Its service %(service)s is switched off.") % {"service": slug}
    return requirements.why_not(tool.requirements, row.plain() if row else None)
