from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from sessions_app.triggers import Announce, install_after_migrate

RULES = (Announce("invocations_mcperrormapping", "errors_changed"),)


class InvocationsConfig(AppConfig):
    name = "invocations"
    verbose_name = _("Calls")

    def ready(self) -> None:
        install_after_migrate(self, RULES)
