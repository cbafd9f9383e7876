"""What Django serves: the admin and REST. The MCP endpoints are consumers; see routing.py."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", include("mcphub.tryit")),
    path("admin/", include("mcphub.replaying")),
    path("admin/", admin.site.urls),
    path("api/", include("mcphub.api")),
]

handler400 = "mcphub.api.malformed"
