"""The filters of the lists of notices and of deliveries, for the console and for REST."""

from __future__ import annotations

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from mcphub.features.notifications.catalogue import KINDS
from mcphub.features.notifications.models import Delivery
from sessions_app.kit.lists.filters import Choices, During, ListFilter, OneOf, WholeNumber


def _kinds() -> Choices:
    return [(kind.name, kind.title) for kind in KINDS.values()]


def _in_state(state: str) -> Q:
    return Q(ended_at=None) if state == "open" else ~Q(ended_at=None)


NOTICE_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="kind", label="", choices=_kinds),
    OneOf(
        name="state",
        label=_("state"),
        choices=[("open", _("Ongoing")), ("over", _("Over, or happened once"))],
        meant=_in_state,
    ),
    During(name="first", column="first_at", label="", over_rest=False),
)

DELIVERY_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="state", label="", choices=Delivery.State.choices),
    WholeNumber(name="subscription", column="subscription_id", least=1, help_text="The number of a subscription."),
)
