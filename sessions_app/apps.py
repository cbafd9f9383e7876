import sys

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from sessions_app.triggers import Announce, Notify, RefuseUpdate, install_after_migrate

RULES = (
    RefuseUpdate(
        "sessions_app_mcpsession",
        "mcphub_session_state_terminal",
        "OLD.state IN ('closed', 'expired') AND NEW.state <> OLD.state",
        "an ended session stays ended",
    ),
    Notify(),
    Announce(
        "sessions_app_apikey",
        "keys_changed",
        (
            "name",
            "secret_hash",
            "previous_hash",
            "previous_until",
            "scopes",
            "calls_per_minute",
            "expires_at",
            "revoked_at",
        ),
    ),
    Announce("sessions_app_apikey_groups", "keys_changed"),
)


def _load_rest_framework() -> None:
    """Load it as if `requests` were not installed: only its test client wants that, which takes four megabytes."""
    if "requests" in sys.modules:
        return
    sys.modules["requests"] = None  # type: ignore[assignment]  # None: no such module
    try:
        import rest_framework.compat  # noqa: F401
    finally:
        del sys.modules["requests"]


_load_rest_framework()  # before Django's admin does


class SessionsAppConfig(AppConfig):
    name = "sessions_app"
    verbose_name = _("Clients and keys")

    def ready(self) -> None:
        install_after_migrate(self, RULES)
