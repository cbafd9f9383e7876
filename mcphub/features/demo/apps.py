from django.utils.translation import gettext_lazy as _

from mcphub.parts import HubCommand, OverviewCard
from sessions_app.kit.features import FeatureConfig


class DemoConfig(FeatureConfig):
    name = "mcphub.features.demo"
    label = "demo"
    requires = ("approvals", "chat", "alerts", "call_rules", "error_groups")
    verbose_name = _("Demo")
    parts = (
        HubCommand(
            "demo",
            "start a hub of its own with tools, clients and calls to look at, or remove it",
            "mcphub.features.demo.command",
        ),
        OverviewCard("mcphub.features.demo.tour:card"),
    )
