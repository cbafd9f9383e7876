from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from sessions_app.triggers import Announce, RefuseUpdate, Rule, install_after_migrate

RULES: tuple[Rule, ...] = (
    Announce("invocations_mcperrormapping", "errors_changed"),
    *(
        RefuseUpdate(f"invocations_{table}", f"mcphub_{table}_append_only", "OLD.id = NEW.id", "records never change")
        for table in ("mcprequestenvelope", "mcptoolinvocation")
    ),
)


class InvocationsConfig(AppConfig):
    name = "invocations"
    verbose_name = _("Calls")

    def ready(self) -> None:
        install_after_migrate(self, RULES)
