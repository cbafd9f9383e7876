from django.utils.translation import gettext_lazy as _

from mcphub.parts import DoctorCheck, PeriodicSweep, Verbs
from sessions_app.kit.features import FeatureConfig


class PartitionsConfig(FeatureConfig):
    name = "mcphub.features.partitions"
    label = "partitions"
    verbose_name = _("Partitions")
    parts = (
        Verbs("audit", "mcphub.features.partitions.command"),
        PeriodicSweep("mcphub.features.partitions.sweeping:sweep"),
        DoctorCheck(_("partitions"), "mcphub.features.partitions.doctor:check"),
    )
