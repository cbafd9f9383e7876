"""What the admin of the lower floors may know of this one."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings
from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from mcphub import clients
from sessions_app.admin import keys as admin_keys


def _configurations(token: str) -> Sequence[clients.ClientSnippet]:
    return clients.snippets(settings.MCPHUB_PUBLIC_URL.rstrip("/") + "/mcp", token)


admin_keys.configurations = _configurations
admin.site.index_title = _("Overview")
