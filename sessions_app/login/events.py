"""Logins in the history: successes, failures and their addresses. Never a password."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from sessions_app.history import events
from sessions_app.history.events import Actor
from sessions_app.kit.people_tables import PEOPLE
from sessions_app.login.limits import Attempt, Kind, pk_of
from sessions_app.login.models import LoginLimit

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

logger = logging.getLogger(__name__)

EVENTS_A_MINUTE = 30
"""Events of failures in one minute, of all names and addresses; of more there is one event with their number."""
_NOBODY = Actor("anonymous")


def succeeded(attempt: Attempt, user: User | AnonymousUser, by: str = "password", second_factor: str = "") -> None:
    """Record a login: by which way somebody came, and which second factor they had besides."""
    after = {"address": attempt.address[:64], "by": by, **({"second_factor": second_factor} if second_factor else {})}
    events.record("login.succeeded", actor=events.actor_of(user), label=str(user), after=after)
    logger.info("Somebody logged in", extra={"user": user.pk, "client_address": attempt.address})


def ended(user: User | AnonymousUser, address: str) -> None:
    events.record("login.ended", actor=events.actor_of(user), label=str(user), after={"address": address[:64]})


def failed(attempt: Attempt, user: User | None = None, by: str = "password") -> None:
    """Record a failure, and the pauses that it began: of `user` where a second factor was wrong.

    The name is included if an account has it. Another may be a password in the wrong field, and the history is for
    ever.
    """
    is_known = user is not None or _is_account(attempt.name)
    name = "" if not is_known else attempt.name if user is None else user.get_username()
    locked = [row for row in attempt.rows if row.blocked_until is not None]
    if is_known:
        kinds = (Kind.NAME, Kind.PAIR)
        LoginLimit.objects.filter(pk__in=[row.pk for row in attempt.rows if row.kind in kinds]).update(name=name[:150])
    logger.warning("A login failed", extra={"client_address": attempt.address, "account_exists": is_known})
    with transaction.atomic():
        if not _has_room():
            return
        after = {"address": attempt.address[:64], "account_exists": is_known}
        if by != "password":
            after["by"] = by
        events.record("login.failed", actor=_NOBODY, label=name, after=after)
        for row in locked:
            until = row.blocked_until.isoformat() if row.blocked_until else ""
            after = {"by": row.kind, "address": attempt.address[:64], "until": until, "failures": row.failures}
            events.record("login.locked", actor=_NOBODY, label="" if row.kind == Kind.ADDRESS else name, after=after)


def refused(provider: str, label: str, code: str, detail: str, address: str) -> None:
    """Record that a login by a provider did not go on. Counts into the minute's bound, like failures."""
    logger.warning("A login by a provider was refused", extra={"provider": provider, "code": code})
    with transaction.atomic():
        if _has_room():
            after = {"address": address[:64], "by": f"provider:{provider}", "code": code, "detail": detail}
            events.record("login.refused", actor=_NOBODY, label=label, after=after)


def sum_up() -> None:
    """Record how many guesses were refused in pauses that are over, and how many failures had no event of their own."""
    now = timezone.now()
    over = Q(blocked_until__lte=now) | Q(blocked_until=None)
    for row in LoginLimit.objects.filter(over, refused__gt=0).order_by("pk")[:EVENTS_A_MINUTE]:
        with transaction.atomic():
            same = LoginLimit.objects.filter(pk=row.pk, refused=row.refused)
            if row.kind == Kind.ALL:
                if row.failed_at is None or row.failed_at > now - timedelta(minutes=1):
                    continue
                same = same.filter(failed_at=row.failed_at)
            if same.update(refused=0):  # another process may have told it
                _tell(row)


def _is_account(name: str) -> bool:
    """Return whether an account has the name. Names with NUL are the hub's own, for counts besides passwords."""
    return "\x00" not in name and get_user_model().objects.filter(**{PEOPLE.name: name}).exists()


def _has_room() -> bool:
    """Return whether a failure of this minute has an event of its own. Counts it, in the caller's transaction."""
    now = timezone.now()
    key = pk_of(Kind.ALL, "", "")
    LoginLimit.objects.bulk_create([LoginLimit(id=key, kind=Kind.ALL)], ignore_conflicts=True)
    row = LoginLimit.objects.select_for_update().get(pk=key)
    if row.failed_at is None or now - row.failed_at >= timedelta(minutes=1):
        if row.refused:
            _tell(row)
        LoginLimit.objects.filter(pk=key).update(failures=1, failed_at=now, refused=0)
        return True
    has_room = row.failures < EVENTS_A_MINUTE
    LoginLimit.objects.filter(pk=key).update(failures=F("failures") + 1, refused=F("refused") + int(not has_room))
    return has_room


def _tell(row: LoginLimit) -> None:
    if row.kind == Kind.ALL:
        since = row.failed_at.isoformat() if row.failed_at else ""
        events.record("login.failed", actor=_NOBODY, after={"occurrences": row.refused, "since": since})
    else:
        after = {"by": row.kind, "address": row.address, "refused": row.refused}
        events.record("login.locked", actor=_NOBODY, label=row.name, after=after)
