"""What Django serves: the admin and REST. The MCP endpoints are consumers; see routing.py."""

from django.contrib import admin
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)]
