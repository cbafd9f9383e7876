from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from sessions_app.triggers import Announce, RefuseUpdate, install_after_migrate

RULES = (
    RefuseUpdate(
        "tools_catalog_mcptoolversion",
        "mcphub_tool_version_immutable",
        "OLD.id = NEW.id",
        "a tool version never changes",
    ),
    Announce("tools_catalog_mcptooldefinition", "tools_changed"),
    Announce("tools_catalog_mcptooldefinition_groups", "tools_changed"),
    Announce("tools_catalog_secret", "tools_changed"),
)


class ToolsCatalogConfig(AppConfig):
    name = "tools_catalog"
    verbose_name = _("Catalogue")

    def ready(self) -> None:
        from tools_catalog.backends import python

        install_after_migrate(self, RULES)
        python.discover(("starter", "conformance"))
