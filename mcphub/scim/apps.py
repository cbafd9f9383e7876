from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ScimConfig(AppConfig):
    name = "mcphub.scim"
    label = "scim"
    verbose_name = _("Directory")
