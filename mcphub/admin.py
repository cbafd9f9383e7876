"""The facts about this floor for the admin of lower floors; in a host project, its pages about the hub."""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings
from django.contrib import admin
from django.utils.translation import gettext_lazy as _

from mcphub import clients

if settings.MCPHUB_EMBEDDED:
    from mcphub.embedding import pages

    pages.register(admin.site)
else:
    from sessions_app.admin import keys as admin_keys

    def _configurations(token: str) -> Sequence[clients.ClientSnippet]:
        return clients.snippets(settings.MCPHUB_PUBLIC_URL.rstrip("/") + "/mcp", token)

    admin_keys.configurations = _configurations
    admin.site.index_title = _("Overview")
