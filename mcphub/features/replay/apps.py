from django.utils.translation import gettext_lazy as _

from mcphub.parts import PageRoutes, RestAction
from sessions_app.kit.features import FeatureConfig


class ReplayConfig(FeatureConfig):
    name = "mcphub.features.replay"
    label = "replay"
    verbose_name = _("Replay")
    parts = (
        PageRoutes("mcphub.features.replay.pages", below="admin/"),
        RestAction(
            r"^invocations/(?P<invocation_id>[^/]+)/replay/?$",
            "mcphub.features.replay.rest:ReplayViewSet",
            {"post": "replay"},
        ),
    )
