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
        ("name", "secret_hash", "scopes", "calls_per_minute", "expires_at", "revoked_at"),
    ),
    Announce("sessions_app_apikey_groups", "keys_changed"),
)


class SessionsAppConfig(AppConfig):
    name = "sessions_app"
    verbose_name = _("Clients and keys")

    def ready(self) -> None:
        install_after_migrate(self, RULES)
