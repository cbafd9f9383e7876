from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.triggers import Announce, AnnounceEach, RefuseUpdate, install_after_migrate
from tools_catalog.upstream.states import refused_in_sql

RULES = (
    RefuseUpdate(
        "tools_catalog_mcptoolversion",
        "mcphub_tool_version_immutable",
        "OLD.id = NEW.id",
        "a tool version never changes",
    ),
    Announce("tools_catalog_mcptooldefinition", "tools_changed"),
    Announce("tools_catalog_mcptooldefinition_groups", "tools_changed"),
    Announce("tools_catalog_mcpalias", "tools_changed"),
    Announce("auth_group", "tools_changed", ("name",)),
    Announce("tools_catalog_allowedhost", "tools_changed"),
    Announce("tools_catalog_secret", "tools_changed"),
    Announce("tools_catalog_httpservice", "tools_changed"),
    Announce("tools_catalog_mcptoolset", "toolsets_changed"),
    Announce("tools_catalog_mcptoolset_tools", "toolsets_changed"),
    Announce("tools_catalog_mcptoolset_groups", "toolsets_changed"),
    Announce("tools_catalog_mcptoolset_prompts", "toolsets_changed"),
    Announce("tools_catalog_mcptoolset_resources", "toolsets_changed"),
    Announce("tools_catalog_mcpresource", "resources_changed"),
    Announce("tools_catalog_mcpresource_groups", "resources_changed"),
    Announce("tools_catalog_mcpprompt", "prompts_changed"),
    Announce("tools_catalog_mcpprompt_groups", "prompts_changed"),
    Announce("tools_catalog_launchprofile", "tools_changed"),
    Announce("tools_catalog_mcpconnection", "tools_changed"),
    Announce("tools_catalog_mcpupstreamtool", "tools_changed"),
    AnnounceEach(
        "tools_catalog_upstreamaccount",
        "accounts_changed",
        ("state", "scopes", "access", "expires_at", "generation", "wanted_scopes"),
    ),
    RefuseUpdate(
        "tools_catalog_mcpconnectionlink",
        "mcphub_connection_steps",
        refused_in_sql(),
        "a connection does not go from that state to this",
    ),
)


class ToolsCatalogConfig(AppConfig):
    name = "tools_catalog"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = _("Catalogue")

    def ready(self) -> None:
        from tools_catalog.backends import python
        from tools_catalog.kinds import registry

        install_after_migrate(self, RULES)
        registry.discover()
        python.discover(("starter", "transcript"))
