"""What Django serves: the admin and REST. The MCP endpoints are consumers; see routing.py."""

from django.conf import settings
from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from mcphub.console import persons  # noqa: F401 - registers the page of a person
from tools_catalog.rest.registry import ServersView, VersionsView, VersionView

admin.autodiscover()

urlpatterns = [
    path("", include("mcphub.console.welcome")),
    path("", include("mcphub.me.urls")),
    path("connect", RedirectView.as_view(pattern_name="connect", query_string=True)),
    path("connect/", RedirectView.as_view(pattern_name="connect", query_string=True)),
    path("", include("mcphub.login.urls")),
    path("connect/", include("mcphub.accounts.urls")),
    path("admin/", include("mcphub.console.connect")),
    path("admin/", include("mcphub.console.tryit")),
    path("admin/", include("mcphub.console.shown_views")),
    path("admin/", include("mcphub.console.replaying")),
    path("admin/", include("mcphub.console.usage")),
    path("admin/", include("mcphub.console.palette")),
    path("admin/", include("mcphub.console.workspaces")),
    path("admin/", include("mcphub.telling.pages")),
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
    path("api/", include("mcphub.chat.price_rest")),
    path("api/", include("mcphub.chat.provider_rest")),
    path("api/", include("mcphub.rest.api")),
    path("scim/v2/", include("mcphub.scim.urls")),
]
if settings.MCPHUB_SIGN_IN:
    urlpatterns += [path("", include("mcphub.signin.urls"))]

handler400 = "mcphub.failing.malformed"
handler403 = "mcphub.failing.forbidden"
handler404 = "mcphub.failing.missing"
handler500 = "mcphub.failing.failed"
