from django.utils.translation import gettext_lazy as _

from mcphub.parts import Endpoints
from sessions_app.kit.features import FeatureConfig


class CardsConfig(FeatureConfig):
    name = "mcphub.features.cards"
    label = "cards"
    verbose_name = _("Server cards")
    parts = (Endpoints("mcphub.features.cards.endpoints"),)
