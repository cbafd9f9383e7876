from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from invocations.chain import rules
from sessions_app.kit.triggers import Announce, RefuseUpdate, TriggerRule, install_after_migrate

RULES: tuple[TriggerRule, ...] = (
    Announce("invocations_mcperrormapping", "errors_changed"),
    Announce("invocations_mcpredactionrule", "redaction_changed"),
    RefuseUpdate(
        "invocations_mcptask",
        "mcphub_mcptask_terminal",
        "OLD.state IN ('completed', 'failed', 'cancelled')",
        "a task that is over never changes",
    ),
    *rules.RULES,
)


class InvocationsConfig(AppConfig):
    name = "invocations"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = _("Audit")

    def ready(self) -> None:
        from invocations import reach, renamed_tools
        from invocations.mapping import bundle as bundled

        bundled.connect()
        renamed_tools.connect()
        reach.connect()
        install_after_migrate(self, RULES)
