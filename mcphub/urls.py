"""What Django serves: the admin and REST. The MCP endpoints are consumers; see routing.py."""

from importlib.util import find_spec

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    *([path("admin/", include("mcphub.tryit"))] if find_spec("mcphub.tryit") else []),
    path("admin/", admin.site.urls),
    *([path("api/", include("mcphub.api"))] if find_spec("mcphub.api") else []),
]
