from django.utils.translation import gettext_lazy as _

from mcphub.parts import PaletteAction, Verbs
from sessions_app.kit.features import FeatureConfig

_CONNECTIONS = ("tools_catalog.add_mcpconnection", "tools_catalog.change_mcpconnection")
_TOOLS = (
    "tools_catalog.add_httpservice",
    "tools_catalog.change_httpservice",
    "tools_catalog.add_mcptooldefinition",
    "tools_catalog.change_mcptooldefinition",
)


class ImportersConfig(FeatureConfig):
    name = "mcphub.features.importers"
    label = "importers"
    verbose_name = _("Importers")
    parts = (
        Verbs("catalog", "mcphub.features.importers.commands.catalog_import"),
        Verbs("connection", "mcphub.features.importers.commands.connection_bring"),
        PaletteAction(
            _("Paste and connect"),
            "content_paste",
            "admin:connection_import",
            _CONNECTIONS,
            _("address command configuration"),
        ),
        PaletteAction(
            _("Choose a known server"), "menu_book", "admin:connection_known", _CONNECTIONS, _("new connection")
        ),
        PaletteAction(_("Import an API"), "upload_file", "admin:service_import", _TOOLS, "OpenAPI Postman"),
    )
