from django.utils.translation import gettext_lazy as _

from mcphub.parts import HubCommand
from sessions_app.kit.features import FeatureConfig


class ProvenanceConfig(FeatureConfig):
    name = "mcphub.features.provenance"
    label = "provenance"
    verbose_name = _("Release provenance")
    parts = (
        HubCommand(
            "verify-release",
            "check that the files of a release are those that its releaser built and signed",
            "mcphub.features.provenance.command",
        ),
    )
