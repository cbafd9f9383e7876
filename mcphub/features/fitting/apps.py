from django.utils.translation import gettext_lazy as _

from invocations.stages import CallShaper
from mcphub.parts import ConsolePage, PeriodicSweep, ResourceReader, RolePermissions
from sessions_app.bus import FollowedRows
from sessions_app.kit.features import FeatureConfig
from tools_catalog.catalog.additions import ToolAdditions


class FittingConfig(FeatureConfig):
    name = "mcphub.features.fitting"
    label = "fitting"
    verbose_name = _("Result sizes")
    parts = (
        ToolAdditions("mcphub.features.fitting.settings:read", "mcphub.features.fitting.settings:follow_toolsets"),
        FollowedRows("result_sizes_of_keys", "mcphub.features.fitting.settings:read_keys", reads_catalog=True),
        CallShaper("mcphub.features.fitting.shaping:Shaper"),
        ResourceReader("mcphub://results/", "mcphub.features.fitting.reading:reading"),
        PeriodicSweep("mcphub.features.fitting.handles:purge"),
        ConsolePage(
            "catalogue",
            _("Result sizes"),
            "tune",
            "fitting_resultsize",
            place=50,
            about=_(
                "A result size limits the results of a tool, toolset or API key for clients: only some fields, or a "
                "preview with a link to the whole."
            ),
            docs="integrate/agents#my-model-drowns-in-results",
        ),
        RolePermissions(("fitting.view_resultsize",)),
        RolePermissions(
            ("fitting.add_resultsize", "fitting.change_resultsize", "fitting.delete_resultsize"),
            ("Operator", "Upstream manager"),
        ),
    )

    def ready(self) -> None:
        from mcphub.features.fitting.rules import RULES
        from sessions_app.kit.triggers import install_after_migrate

        install_after_migrate(self, RULES)
