from django.utils.translation import gettext_lazy as _

from invocations.parts import EventSubject, KnownValues
from invocations.stages import CallStage
from mcphub.parts import (
    ConsolePage,
    HubCommand,
    HubMetrics,
    PaletteAction,
    RestExamples,
    RestResource,
    RolePermissions,
    RowsInForce,
)
from sessions_app.kit.features import FeatureConfig
from tools_catalog.catalog.additions import CallChecks


class CallRulesConfig(FeatureConfig):
    name = "mcphub.features.call_rules"
    label = "call_rules"
    verbose_name = _("Call rules")
    embeds = True
    parts = (
        CallChecks("call_rules", "mcphub.features.call_rules.models:read", may_hide=True),
        CallStage("mcphub.features.call_rules.stage:Policing"),
        HubCommand(
            "policy",
            "list, show and switch rules about calls, check those in a file, or try them on calls",
            "mcphub.features.call_rules.command",
        ),
        RestResource(
            "policy-rules",
            "mcphub.features.call_rules.rest:PolicyRuleViewSet",
            _("Call rules, which deny, allow, or hold calls for approval."),
        ),
        RestExamples("mcphub.features.call_rules.examples"),
        HubMetrics("mcphub.features.call_rules.metrics:decisions"),
        RolePermissions(("tools_catalog.view_mcppolicyrule",)),
        RolePermissions(
            (
                "tools_catalog.add_mcppolicyrule",
                "tools_catalog.change_mcppolicyrule",
                "tools_catalog.delete_mcppolicyrule",
            ),
            ("Operator", "Upstream manager"),
        ),
        ConsolePage(
            "rules",
            _("Call rules"),
            "policy",
            "tools_catalog_mcppolicyrule",
            place=5,
            words=_("policy policies deny allow block cel"),
            about=_(
                "A call rule denies a call, allows it, or asks a person first, by a condition on the call. Start "
                "with one in log-only mode."
            ),
            docs="secure/call-rules",
        ),
        PaletteAction(
            _("Add a call rule"),
            "policy",
            "admin:tools_catalog_mcppolicyrule_add",
            ("tools_catalog.add_mcppolicyrule",),
            _("new policy deny ask allow"),
        ),
        PaletteAction(
            _("Test call rules"),
            "science",
            "admin:policy_bench",
            ("tools_catalog.view_mcppolicyrule",),
            _("test bench policy"),
        ),
        KnownValues("policy_rule", "mcphub.features.call_rules.recorded:names"),
        EventSubject("policy_rule", _("call rules")),
        RowsInForce(
            "tools_catalog_mcppolicyrule",
            "enabled AND NOT watching AND (valid_until IS NULL OR valid_until > CURRENT_TIMESTAMP)",
            _("The feature call_rules is off. Enabled call rules without effect: %(count)d."),
        ),
    )

    def ready(self) -> None:
        from mcphub.features.call_rules import bundle, reach
        from mcphub.features.call_rules.rules import RULES
        from sessions_app.kit.triggers import install_after_migrate

        bundle.connect()
        reach.connect()
        install_after_migrate(self, RULES)
