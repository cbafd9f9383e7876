from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class TellingConfig(AppConfig):
    name = "mcphub.telling"
    label = "telling"
    verbose_name = _("Notices")
