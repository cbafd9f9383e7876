"""The admin pages of this floor. Django imports this package; each module registers its pages."""

from django.conf import settings

if not settings.MCPHUB_EMBEDDED:  # a host has an admin of its own
    from sessions_app.admin import keys, limits, people, sessions, waiting, workspaces

    __all__ = ["keys", "limits", "people", "sessions", "waiting", "workspaces"]
