"""What Django serves: the admin and REST. The MCP endpoints are consumers; see routing.py."""

from django.contrib import admin
from django.urls import include, path, re_path
from django.views.generic import RedirectView

from tools_catalog.rest.registry import ServersView, VersionsView, VersionView

admin.autodiscover()

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("connect", RedirectView.as_view(pattern_name="connect", query_string=True)),
    path("connect/", RedirectView.as_view(pattern_name="connect", query_string=True)),
    path("admin/", include("mcphub.console.login")),
    path("admin/", include("mcphub.console.connect")),
    path("admin/", include("mcphub.console.tryit")),
    path("admin/", include("mcphub.console.replaying")),
    path("admin/", include("mcphub.console.usage")),
    path("admin/", admin.site.urls),
    # The paths of a registry are fixed; the name of a server has a slash in it.
    re_path(r"^v0\.1/servers/?$", ServersView.as_view()),
    re_path(r"^v0\.1/servers/(?P<name>.+)/versions/?$", VersionsView.as_view()),
    re_path(r"^v0\.1/servers/(?P<name>.+)/versions/(?P<version>[^/]+)/?$", VersionView.as_view()),
    path("api/", include("mcphub.rest.api")),
]

handler400 = "mcphub.failing.malformed"
handler403 = "mcphub.failing.forbidden"
handler404 = "mcphub.failing.missing"
handler500 = "mcphub.failing.failed"
