from dataclasses import dataclass

from django.utils.translation import gettext_lazy as _

from invocations.stages import CallStage
from mcphub.parts import (
    ConsolePage,
    HubCommand,
    HubMetrics,
    MyAccessPart,
    NoticeKind,
    OverviewPanel,
    PeriodicSweep,
    RestExamples,
    RestResource,
    RolePermissions,
    RowsInForce,
)
from sessions_app.bus import FollowedRows
from sessions_app.kit.features import FeatureConfig


@dataclass(frozen=True, slots=True)
class CountedModels:
    """A part of other features: models whose tokens and money quotas count. Names a function that returns the provider
    of a model's id, or None.
    """

    provider: str


class QuotasConfig(FeatureConfig):
    name = "mcphub.features.quotas"
    label = "quotas"
    verbose_name = _("Quotas")
    embeds = True
    parts = (
        FollowedRows("quotas_changed", "mcphub.features.quotas.load:load_quotas", reads_catalog=True),
        CallStage("mcphub.features.quotas.spending:Spending"),
        PeriodicSweep("mcphub.features.quotas.usage:purge"),
        HubMetrics("mcphub.features.quotas.metrics:refusals"),
        HubCommand(
            "quota",
            "list and switch quotas, list prices, say who is near which limit, and whether a call would be refused",
            "mcphub.features.quotas.command",
        ),
        RestResource(
            "quotas", "mcphub.features.quotas.rest:QuotaViewSet", _("Quotas and their current usage."), named_as="quota"
        ),
        RestExamples("mcphub.features.quotas.examples"),
        ConsolePage(
            "rules",
            _("Quotas"),
            "data_usage",
            "invocations_mcpquota",
            "q",
            place=9,
            words=_("budget spend limit usage cost"),
            about=_("A quota limits how much callers use in a day, week or month, and warns before it refuses."),
            docs="secure/quotas",
            group=_("Limits"),
        ),
        OverviewPanel("admin/hub/budgets.html", "mcphub.features.quotas.admin.pages:nearest"),
        MyAccessPart("mcphub.features.quotas.own_quotas:PART", place=55),
        RolePermissions(("invocations.view_mcpquota",)),
        RolePermissions(
            ("invocations.add_mcpquota", "invocations.change_mcpquota", "invocations.delete_mcpquota"), ("Operator",)
        ),
        RowsInForce(
            "invocations_mcpquota",
            "enabled AND hard_limit IS NOT NULL",
            _("The feature quotas is off. Enabled quotas that refuse no calls: %(count)d."),
        ),
        NoticeKind(
            "budget.near",
            _("A quota is nearly used up"),
            _("%(caller)s has used %(used)s of %(limit)s of the quota %(quota)s. It resets at %(ends)s."),
            "invocations.view_mcpquota",
            "invocations_mcpquota",
            ends=True,
            states="mcphub.features.quotas.notices:near",
            of_person=True,
            shown="mcphub.features.quotas.notices:shown",
            shared=("quota", "caller", "used", "limit", "unit", "ends"),
        ),
        NoticeKind(
            "budget.spent",
            _("A quota is used up"),
            _(
                "%(caller)s has used up the quota %(quota)s: %(used)s of %(limit)s. Further calls are refused until "
                "%(ends)s."
            ),
            "invocations.view_mcpquota",
            "invocations_mcpquota",
            ends=True,
            states="mcphub.features.quotas.notices:spent",
            of_person=True,
            shown="mcphub.features.quotas.notices:shown",
            shared=("quota", "caller", "used", "limit", "unit", "ends"),
        ),
    )

    def ready(self) -> None:
        from mcphub.features.quotas import bundle, reach
        from mcphub.features.quotas.rules import RULES
        from sessions_app.kit.triggers import install_after_migrate

        bundle.connect()
        reach.connect()
        install_after_migrate(self, RULES)
