from django.utils.translation import gettext_lazy as _

from mcphub.parts import DirectoryPeople, PageRoutes
from sessions_app.kit.features import FeatureConfig


class ScimConfig(FeatureConfig):
    name = "mcphub.features.scim"
    label = "scim"
    verbose_name = _("Directory")
    requires = ("login",)
    parts = (
        PageRoutes("mcphub.features.scim.urls", below="scim/v2/"),
        DirectoryPeople("mcphub.features.scim.made:by_external_id"),
    )
