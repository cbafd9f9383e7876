"""The pages of connections and services with the ways to import; they take the place of the catalogue's own pages."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext_lazy as _

from mcphub.features.importers.admin import imports as admin_imports
from mcphub.features.importers.admin.configured.actions import BringActions
from sessions_app.kit.admin.base import detail_action, row_of
from tools_catalog.admin.connections import McpConnectionAdmin
from tools_catalog.admin.services import HttpServiceAdmin
from tools_catalog.models import HttpService, McpConnection

admin.site.unregister([McpConnection, HttpService])


@admin.register(McpConnection)
class ImportingConnectionAdmin(BringActions, McpConnectionAdmin):
    change_form_before_template = "admin/hub/connection_note.html"


@admin.register(HttpService)
class ImportingServiceAdmin(HttpServiceAdmin):
    actions_detail = ["connect_account", "import_again", "show_tools"]
    actions_list = ["import_new"]

    def get_urls(self) -> list[URLPattern]:
        def view(request: HttpRequest) -> HttpResponse:
            return admin_imports.import_view(self, request)

        return [path("import/", self.admin_site.admin_view(view), name="service_import"), *super().get_urls()]

    @detail_action(description=_("Import an API"), icon="upload_file", url_path="take", permissions=["import"])
    def import_new(self, request: HttpRequest) -> HttpResponse:
        return redirect("admin:service_import")

    @detail_action(description=_("Import an API"), icon="upload_file", url_path="again", permissions=["import"])
    def import_again(self, request: HttpRequest, object_id: str) -> HttpResponse:
        slug = row_of(self, request, object_id).slug
        return redirect(f"{reverse('admin:service_import')}?service={slug}")

    def has_import_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perms(admin_imports.NEEDED)
