from django.utils.translation import gettext_lazy as _

from mcphub.parts import PageRoutes
from sessions_app.kit.features import FeatureConfig


class AccountsConfig(FeatureConfig):
    name = "mcphub.features.accounts"
    label = "accounts"
    verbose_name = _("Accounts at upstreams")
    parts = (PageRoutes("mcphub.features.accounts.urls", below="connect/"),)
