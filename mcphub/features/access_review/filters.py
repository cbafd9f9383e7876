"""Filters of the lists of reviews and of their grants, in the console and over REST."""

from __future__ import annotations

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcphub.features.access_review.models import AccessReview, ReviewedGrant
from sessions_app.kit.lists.filters import Choices, ListFilter, OneOf, WholeNumber, YesOrNo

_MOST_OFFERED = 50


def _in_state(state: str) -> Q:
    if state == "closed":
        return Q(closed_at__isnull=False)
    late = Q(due_at__lte=timezone.now())
    return Q(closed_at=None) & (late if state == "overdue" else ~late)


def _decided(state: str) -> Q:
    return Q(decision="" if state == "undecided" else state)


def _reviews() -> Choices:
    rows = AccessReview.objects.order_by("-started_at", "-pk").values_list("pk", "name")[:_MOST_OFFERED]
    return [(str(pk), name) for pk, name in rows]


def _of_review(number: str) -> Q:
    return Q(review=int(number)) if number.isascii() and number.isdecimal() and len(number) < 19 else Q(pk__in=())


STATES = (("open", _("Open")), ("overdue", _("Overdue")), ("closed", _("Closed")))
REVIEW_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="state", label=_("state"), parameter="state", choices=STATES, meant=_in_state),
)
_REVIEW = OneOf(
    name="review", label=_("access review"), parameter="review", choices=_reviews, is_open=True, meant=_of_review
)
_OTHERS: tuple[ListFilter, ...] = (
    OneOf(
        name="decision",
        label=_("decision"),
        parameter="decision",
        choices=(("undecided", _("Undecided")), *ReviewedGrant.Decision.choices),
        meant=_decided,
    ),
    YesOrNo(name="is_unused", label=_("unused for 90 days"), yes=_("Unused"), no=_("Used")),
    OneOf(name="kind", choices=ReviewedGrant.Kind.choices),
)
PAGE_FILTERS: tuple[ListFilter, ...] = (_REVIEW, *_OTHERS)
GRANT_FILTERS: tuple[ListFilter, ...] = (WholeNumber(name="review", least=1), *_OTHERS)
