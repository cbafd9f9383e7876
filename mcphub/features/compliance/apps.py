from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from mcphub.parts import ConsolePage, DoctorCheck, PageRoutes, Verbs
from sessions_app.kit.features import FeatureConfig


class ComplianceConfig(FeatureConfig):
    name = "mcphub.features.compliance"
    label = "compliance"
    verbose_name = _("Compliance")
    parts = (
        DoctorCheck(_("compliance"), "mcphub.features.compliance.doctor:check"),
        PageRoutes("mcphub.features.compliance.pages", below="admin/"),
        ConsolePage(
            "evidence",
            _("Evidence"),
            "folder_zip",
            "evidence",
            place=70,
            docs="audit/compliance#evidence-of-a-period",
            words=_("audit archive bundle soc2 iso 27001 ai act compliance report"),
            permissions=("invocations.read_bodies",),
        ),
        Verbs("audit", "mcphub.features.compliance.command"),
    )

    def ready(self) -> None:
        from mcphub.features.compliance.frames import FRAMES  # where the feature is on

        for name in settings.MCPHUB_COMPLIANCE:
            if name not in FRAMES:
                raise ImproperlyConfigured(
                    f"MCPHUB_COMPLIANCE names {name!r}, and there is no such frame. Write some of {', '.join(FRAMES)}."
                )
