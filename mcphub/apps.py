from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class McpHubConfig(AppConfig):
    name = "mcphub"
    verbose_name = _("Hub")
