from django.utils.translation import gettext_lazy as _

from sessions_app.kit.features import FeatureConfig


class ProgramsConfig(FeatureConfig):
    name = "mcphub.features.programs"
    label = "programs"
    verbose_name = _("Programs that call tools")
    parts = ()
