from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from mcphub.parts import DoctorCheck, Verbs
from sessions_app.kit.features import FeatureConfig


class ComplianceConfig(FeatureConfig):
    name = "mcphub.features.compliance"
    label = "compliance"
    verbose_name = _("Compliance")
    parts = (
        DoctorCheck("compliance", "mcphub.features.compliance.doctor:check"),
        Verbs("audit", "mcphub.features.compliance.command"),
    )

    def ready(self) -> None:
        from mcphub.features.compliance.frames import FRAMES  # where the feature is on

        for name in settings.MCPHUB_COMPLIANCE:
            if name not in FRAMES:
                raise ImproperlyConfigured(
                    f"MCPHUB_COMPLIANCE names {name!r}, and there is no such frame. Write some of {', '.join(FRAMES)}."
                )
