from django.utils.translation import gettext_lazy as _

from invocations.stages import CallStage
from mcphub.parts import ConsolePage, HubCommand, RestResource
from sessions_app.kit.features import FeatureConfig
from tools_catalog.catalog.additions import CallChecks


class GuardrailsConfig(FeatureConfig):
    name = "mcphub.features.guardrails"
    label = "guardrails"
    verbose_name = _("Guardrails")
    parts = (
        CallChecks("guardrails", "tools_catalog.models.guardrails:read"),
        CallStage("invocations.call.guarding:Guarding"),
        HubCommand(
            "guardrail",
            "list, show and switch guardrails, check those in a file, or try detectors on a text",
            "mcphub.commands.guardrail",
        ),
        RestResource(
            "guardrails",
            "tools_catalog.rest.guardrails:GuardrailViewSet",
            _("Guardrails, which inspect arguments and results."),
        ),
        ConsolePage(
            "rules",
            _("Guardrails"),
            "shield",
            "tools_catalog_mcpguardrail",
            place=15,
            words=_("pii dlp injection mask filter"),
            about=_(
                "A guardrail finds personal data, secrets or injected instructions in arguments and results, and "
                "flags, masks or refuses them."
            ),
            docs="secure/guardrails",
        ),
    )

    def ready(self) -> None:
        from mcphub.features.guardrails import reach
        from mcphub.features.guardrails.rules import RULES
        from sessions_app.kit.triggers import install_after_migrate
        from tools_catalog.bundles import guardrails
        from tools_catalog.guardrails import functions

        reach.connect()
        guardrails.connect()
        functions.discover()
        install_after_migrate(self, RULES)
