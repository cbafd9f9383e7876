"""Starts reviews, decides about their rows, and closes them: one set of rules for the console, REST and the command."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _t

from mcphub.console_access import keep_console
from mcphub.ending import is_last_superuser
from mcphub.features.access_review import reach
from mcphub.features.access_review.models import LONGEST_REASON, AccessReview, ReviewedGrant, refuse_reviewers
from mcphub.features.signin.models import Consent
from sessions_app import accountable, people
from sessions_app.history import events
from sessions_app.models import ApiKey
from sessions_app.protocol import json
from sessions_app.workspaces.scope import current, whole_hub

MOST_AT_ONCE: Final = 500
"""Rows of one decision."""
_TAKES: Final = {
    ReviewedGrant.Kind.ACCOUNT: "auth.change_user",
    ReviewedGrant.Kind.MEMBERSHIP: "auth.change_user",
    ReviewedGrant.Kind.KEY: "sessions_app.change_apikey",
    ReviewedGrant.Kind.APP: "signin.delete_consent",
}
"""Kind -> the permission with which the console takes such a grant away."""


class NotDecided(Exception):
    """A decision about one row that is refused; its words are for the reviewer."""


@dataclass(frozen=True, slots=True)
class DecidedRow:
    """The outcome for one row; `problem` is empty where it is decided."""

    row: ReviewedGrant
    problem: str = ""


def start(review: AccessReview, reviewers: Iterable[User], user: Any, reason: str = "") -> AccessReview:
    """Save a new review with the access of this moment. Raises ValidationError, by field."""
    chosen = list(reviewers)
    if (scope := current()) is not None and review.workspace_id is None:
        review.workspace_id = scope.workspace
    review.full_clean()
    with whole_hub():
        refuse_reviewers(chosen, review.workspace_id)
    rows = reach.rows_of(review)
    digest = hashlib.sha256()
    review.started_by, review.change_reason = events.actor_of(user).label[:150], reason[:LONGEST_REASON]
    with transaction.atomic():
        review.save()
        review.reviewers.set(chosen)
        for row in rows:
            row.review = review
            digest.update(json.canonical([row.kind, row.principal, row.subject, row.tool_count]).encode() + b"\n")
        ReviewedGrant.objects.bulk_create(rows, batch_size=500)
        after = {"rows": len(rows), "sha256": digest.hexdigest()}
        _record("started", review, user, after=after, reason=reason)
    return review


def close(review: AccessReview, user: Any, reason: str = "") -> None:
    """End a review; rows without a decision stay so. Raises ValidationError where it is closed."""
    with transaction.atomic():
        row = AccessReview.objects.select_for_update(of=("self",)).filter(pk=review.pk, closed_at=None).first()
        if row is None:
            raise ValidationError(_t("This review is closed already."))
        review.closed_at, review.closed_by = timezone.now(), events.actor_of(user).label[:150]
        review.change_reason = reason[:LONGEST_REASON]
        review.save(update_fields=["closed_at", "closed_by"])


def decide(review: AccessReview, rows: Sequence[ReviewedGrant], word: str, reason: str, user: Any) -> list[DecidedRow]:
    """Decide about rows one by one. `user`: None for whoever runs the machine.

    Raises ValidationError where nothing of it can be decided: the review is over, or not the person's.
    """
    review.refresh_from_db()
    reason = " ".join(reason.split())[:LONGEST_REASON]
    _refuse(review, rows, word, reason, user)
    done = []
    for row in rows:
        try:
            done.append(DecidedRow(_decided(review, row.pk, word, reason, user)))
        except (NotDecided, ValidationError) as problem:
            words = problem.messages if isinstance(problem, ValidationError) else [str(problem)]
            done.append(DecidedRow(row, " ".join(words)))
    return done


def _refuse(review: AccessReview, rows: Sequence[ReviewedGrant], word: str, reason: str, user: Any) -> None:
    if review.state == "closed":
        raise ValidationError(_t("This review is closed: nothing more is decided in it."))
    if review.state == "overdue":
        raise ValidationError(_t("This review is overdue. Move its due date to decide on the remaining grants."))
    if word not in ReviewedGrant.Decision.values:
        raise ValidationError({"decision": _t("Choose keep or take_away.")})
    if word == ReviewedGrant.Decision.TAKE_AWAY and not reason:
        raise ValidationError({"reason": _t("Enter the reason for taking access away.")})
    if len(rows) > MOST_AT_ONCE:
        raise ValidationError(_t("Decide about at most %(most)d rows at once.") % {"most": MOST_AT_ONCE})
    if user is not None and not review.is_reviewed_by(user):
        raise ValidationError(_t("You are not a reviewer of this review. Ask one of its reviewers."))


def _decided(review: AccessReview, pk: int, word: str, reason: str, user: Any) -> ReviewedGrant:
    with transaction.atomic():
        row: ReviewedGrant = ReviewedGrant.objects.select_for_update(of=("self",)).get(pk=pk, review=review)
        if row.decision == word:
            return row
        if row.decision == ReviewedGrant.Decision.TAKE_AWAY:
            raise NotDecided(_t("This access was already taken away. To restore it, grant it again."))
        if user is not None and accountable.is_one_person(accountable.party_of(user), row.party):
            raise NotDecided(_t("Nobody decides about their own access: another reviewer must."))
        if word == ReviewedGrant.Decision.TAKE_AWAY:
            _take_away(row, reason, user)
        row.decision, row.reason = word, reason
        row.decided_by, row.decided_at = events.actor_of(user).label[:150], timezone.now()
        row.save(update_fields=["decision", "reason", "decided_by", "decided_at"])
        after = {"row": row.pk, "principal": row.principal, "who": row.label, "kind": row.kind, "by": row.grant}
        _record(
            "kept" if word == ReviewedGrant.Decision.KEEP else "took_away", review, user, after=after, reason=reason
        )
    return row


# Taking away, as the console does --------------------------------------------------------------------------


def _take_away(row: ReviewedGrant, reason: str, user: Any) -> None:
    needed = _TAKES[ReviewedGrant.Kind(row.kind)]
    if user is not None and not user.has_perm(needed):
        words = _t("To take it away you need the permission %(permission)s. Let a reviewer with it decide.")
        raise NotDecided(words % {"permission": needed})
    if row.kind == ReviewedGrant.Kind.KEY:
        ApiKey.objects.filter(pk=row.subject).revoke(reason)
    elif row.kind == ReviewedGrant.Kind.APP:
        Consent.objects.filter(pk=row.subject).revoke(by=user, reason=reason)
    else:
        _from_person(row, reason, user)


def _from_person(row: ReviewedGrant, reason: str, user: Any) -> None:
    person = User.objects.select_for_update().filter(pk=row.principal.partition(":")[2]).first()
    if person is None:
        return  # nothing is left of it
    if user is not None and not people.is_within(user, person):
        raise NotDecided(_t("This person has rights that you lack. Let a superuser decide."))
    person.change_reason = reason  # type: ignore[attr-defined]  # the history reads it
    if row.kind == ReviewedGrant.Kind.MEMBERSHIP:
        groups = list(Group.objects.filter(pk=row.subject, user=person))
        person.groups.remove(*groups)
        keep_console(person, given=(), lost=groups)
        return
    if is_last_superuser(person):
        raise NotDecided(_t("This is the last superuser who can log in. Create another one first."))
    person.is_active = False
    person.save(update_fields=["is_active"])


def _record(deed: str, review: AccessReview, user: Any, *, after: dict[str, Any], reason: str) -> None:
    actor = events.actor_of(user)
    label, kind = str(review), f"access_review.{deed}"
    events.record(kind, actor=actor, model=AccessReview, subject=review.pk, label=label, after=after, reason=reason)
