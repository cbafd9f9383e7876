from django.utils.translation import gettext_lazy as _

from mcphub.parts import ConsolePage, HubCommand, MyAccessPart, RestResource
from sessions_app.kit.features import FeatureConfig


class QuotasConfig(FeatureConfig):
    name = "mcphub.features.quotas"
    label = "quotas"
    verbose_name = _("Quotas")
    parts = (
        HubCommand(
            "quota",
            "list and switch quotas, list prices, say who is near which limit, and whether a call would be refused",
            "mcphub.features.quotas.command",
        ),
        RestResource("quotas", "mcphub.features.quotas.rest:QuotaViewSet", _("Quotas and their current usage.")),
        ConsolePage(
            "rules",
            _("Quotas"),
            "data_usage",
            "invocations_mcpquota",
            "q",
            place=25,
            words=_("budget spend limit usage cost"),
            about=_("A quota limits how much callers use in a day, week or month, and warns before it refuses."),
            docs="secure/quotas",
        ),
        MyAccessPart("mcphub.features.quotas.own_quotas:PART", place=65),
    )
