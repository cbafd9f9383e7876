"""The page of the hosts that the hub may reach outside the public internet."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import mark
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import clipped, mono
from tools_catalog.models import AllowedHost


@admin.register(AllowedHost)
class AllowedHostAdmin(RecordedAdmin):
    list_display = ["shown_host", "shown_state", "note"]
    list_filter = ["enabled"]
    search_fields = ["host", "note"]
    fieldsets = [(None, {"fields": ["host", "enabled", "note"]})]
    list_before_template = "admin/hub/allowed_hosts.html"

    shown_host = column(_("host"), lambda row: mono(clipped(row.host, 80)), ordering="host")
    shown_state = column(
        _("state"),
        lambda row: mark("good", _("In force")) if row.enabled else mark("off", _("Off")),
        ordering="enabled",
    )

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        lists = (
            ("MCPHUB_EGRESS_ALLOW", settings.MCPHUB_EGRESS_ALLOW),
            ("MCPHUB_EGRESS_DENY", settings.MCPHUB_EGRESS_DENY),
            ("MCPHUB_EGRESS_ONLY", settings.MCPHUB_EGRESS_ONLY),
        )
        shown = [(name, ", ".join(entries)) for name, entries in lists if entries]
        page: HttpResponse = super().changelist_view(request, {**(extra_context or {}), "egress_settings": shown})
        return page
