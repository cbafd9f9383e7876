from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ToolsCatalogConfig(AppConfig):
    name = "tools_catalog"
    verbose_name = _("Catalogue")
