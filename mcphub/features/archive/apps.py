from django.utils.translation import gettext_lazy as _

from mcphub.parts import Verbs, VerifiedCopy
from sessions_app.kit.features import FeatureConfig


class ArchiveConfig(FeatureConfig):
    name = "mcphub.features.archive"
    label = "archive"
    verbose_name = _("Archive")
    parts = (
        Verbs("audit", "mcphub.features.archive.command"),
        Verbs("audit", "mcphub.features.archive.search_command"),
        VerifiedCopy(
            "archive",
            "a folder of closed months, verified as one chain with the database",
            "mcphub.features.archive.verifying:verify",
        ),
    )
