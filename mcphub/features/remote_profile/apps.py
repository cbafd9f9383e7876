from django.utils.translation import gettext_lazy as _

from mcphub.parts import TransportEndpoints
from sessions_app.kit.features import FeatureConfig


class RemoteProfileConfig(FeatureConfig):
    name = "mcphub.features.remote_profile"
    label = "remote_profile"
    verbose_name = _("Remote profile")
    parts = (TransportEndpoints("sessions_app.transports:REMOTE", "mcphub.features.remote_profile.endpoints:SERVED"),)
