"""The pages that the list of connections leads to, and their addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path
from django.utils.translation import gettext_lazy as _

from mcphub.features.importers.admin.configured import bringing, choosing, trying
from mcphub.features.importers.admin.configured.rights import NEEDED
from mcphub.features.importers.admin.imports import NEEDED as IMPORT
from sessions_app.kit.admin.base import HubAdmin, detail_action

if TYPE_CHECKING:
    _Base = HubAdmin
else:
    _Base = object


class BringActions(_Base):
    """Of the page of connections."""

    actions_list = ["bring_them", "choose_one", "import_api"]

    def get_urls(self) -> list[URLPattern]:
        def page(view: Callable[[HubAdmin, HttpRequest], HttpResponse]) -> Any:
            def shown(request: HttpRequest) -> HttpResponse:
                return view(self, request)

            return self.admin_site.admin_view(shown)

        return [
            path("import/", page(bringing.import_view), name="connection_import"),
            path("imported/", page(trying.imported_view), name="connection_imported"),
            path("known/", page(choosing.known_view), name="connection_known"),
            path("registry/", page(choosing.registry_view), name="connection_registry"),
            *super().get_urls(),
        ]

    @detail_action(description=_("Paste and connect"), icon="content_paste", url_path="bring", permissions=["bring"])
    def bring_them(self, request: HttpRequest) -> HttpResponse:
        return redirect("admin:connection_import")

    @detail_action(description=_("Known servers"), icon="menu_book", url_path="choose", permissions=["bring"])
    def choose_one(self, request: HttpRequest) -> HttpResponse:
        return redirect("admin:connection_known")

    @detail_action(description=_("Import an API"), icon="upload_file", url_path="api", permissions=["import"])
    def import_api(self, request: HttpRequest) -> HttpResponse:
        return redirect("admin:service_import")

    def has_import_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perms(IMPORT)

    def has_bring_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perms(NEEDED)
