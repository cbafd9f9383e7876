"""Django's addresses: the admin and REST. The MCP endpoints are consumers; see routing.py."""

from django.contrib import admin
from django.urls import include, path

from mcphub.console import persons  # noqa: F401 - registers the page of a person
from mcphub.parts import PageRoutes
from sessions_app.kit.features import declared
from tools_catalog.rest.registry import ServersView, VersionsView, VersionView

admin.autodiscover()

urlpatterns = [
    path("", include("mcphub.console.welcome")),
    path("", include("mcphub.console.documents.pages")),
    path("", include("mcphub.my_access.urls")),
    *(path(pages.below, include(pages.urls)) for pages in declared(PageRoutes)),
    path("admin/", include("mcphub.console.connect")),
    path("admin/", include("mcphub.console.tryit")),
    path("admin/", include("mcphub.console.shown_views")),
    path("admin/", include("mcphub.console.usage")),
    path("admin/", include("mcphub.console.palette")),
    path("admin/", include("mcphub.console.workspaces")),
    path("admin/", include("mcphub.console.configuration.pages")),
    path("admin/", admin.site.urls),
    *(
        path(f"v0.1/servers{end}{slash}", view.as_view())
        for end, view in (
            ("", ServersView),
            ("/<path:name>/versions", VersionsView),
            ("/<path:name>/versions/<str:version>", VersionView),
        )
        for slash in ("", "/")
    ),
    path("api/", include("mcphub.rest.api")),
]

handler400 = "mcphub.error_pages.malformed"
handler403 = "mcphub.error_pages.forbidden"
handler404 = "mcphub.error_pages.missing"
handler500 = "mcphub.error_pages.failed"
