from django.utils.translation import gettext_lazy as _

from invocations.stages import CallStage
from mcphub.parts import ConsolePage, HubCommand, HubMetrics, RestExamples, RestResource, RolePermissions, RowsInForce
from sessions_app.kit.features import FeatureConfig
from tools_catalog.catalog.additions import CallChecks


class GuardrailsConfig(FeatureConfig):
    name = "mcphub.features.guardrails"
    label = "guardrails"
    verbose_name = _("Guardrails")
    embeds = True
    parts = (
        CallChecks("guardrails", "mcphub.features.guardrails.models:read"),
        CallStage("mcphub.features.guardrails.stage:Guarding"),
        HubCommand(
            "guardrail",
            "list, show and switch guardrails, check those in a file, or try detectors on a text",
            "mcphub.features.guardrails.command",
        ),
        RestResource(
            "guardrails",
            "mcphub.features.guardrails.rest:GuardrailViewSet",
            _("Guardrails, which inspect arguments and results."),
        ),
        RestExamples("mcphub.features.guardrails.examples"),
        HubMetrics("mcphub.features.guardrails.metrics:decisions"),
        RolePermissions(("tools_catalog.view_mcpguardrail",)),
        RolePermissions(
            (
                "tools_catalog.add_mcpguardrail",
                "tools_catalog.change_mcpguardrail",
                "tools_catalog.delete_mcpguardrail",
            ),
            ("Operator", "Upstream manager"),
        ),
        ConsolePage(
            "rules",
            _("Guardrails"),
            "shield",
            "tools_catalog_mcpguardrail",
            place=7,
            words=_("pii dlp injection mask filter"),
            about=_(
                "A guardrail finds personal data, secrets or injected instructions in arguments and results, and "
                "flags, masks or refuses them."
            ),
            docs="secure/guardrails",
        ),
        RowsInForce(
            "tools_catalog_mcpguardrail",
            "enabled AND NOT watching",
            _("The feature guardrails is off. Enabled guardrails that inspect no calls: %(count)d."),
        ),
    )

    def ready(self) -> None:
        from mcphub.features.guardrails import bundle, functions, reach
        from mcphub.features.guardrails.rules import RULES
        from sessions_app.kit.triggers import install_after_migrate

        reach.connect()
        bundle.connect()
        functions.discover()
        install_after_migrate(self, RULES)
