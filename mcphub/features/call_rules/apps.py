from django.utils.translation import gettext_lazy as _

from mcphub.parts import HubCommand
from sessions_app.kit.features import FeatureConfig


class CallRulesConfig(FeatureConfig):
    name = "mcphub.features.call_rules"
    label = "call_rules"
    verbose_name = _("Call rules")
    embeds = True
    parts = (
        HubCommand(
            "policy",
            "list, show and switch rules about calls, check those in a file, or try them on calls",
            "mcphub.features.call_rules.command",
        ),
    )
