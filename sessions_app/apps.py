import sys

from django.apps import AppConfig
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.triggers import install_after_migrate


def _load_without(*missing: str) -> None:
    """Load two modules that look for optional ones as if those were not installed; afterwards they can be imported.

    REST framework wants `requests` for its test client alone, Unfold and REST framework want PostgreSQL's fields for
    forms that the hub has none of. Together they would take 14 megabytes of every process on SQLite.
    """
    hidden = [name for name in missing if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: no such module
    try:
        import rest_framework.compat  # noqa: F401
        import unfold.overrides  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]


# Before Django's admin loads both. A host project may want what is hidden.
if settings.MCPHUB_EMBEDDED:
    pass
elif settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    _load_without("requests", "django.contrib.postgres.fields")
else:
    _load_without("requests")


class SessionsAppConfig(AppConfig):
    name = "sessions_app"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = _("Clients and keys")

    def ready(self) -> None:
        from sessions_app.history import guarding, recording
        from sessions_app.login import signals
        from sessions_app.rules import RULES

        recording.connect()
        guarding.connect()
        if not settings.MCPHUB_EMBEDDED:  # a host's logins are its own
            signals.connect()
        install_after_migrate(self, RULES)
