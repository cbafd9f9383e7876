"""Writes notices: each once over all workers, with a delivery for every subscription that wants it.

A unique row for kind and subject decides which worker was first. A recurrence within the settling time increments the
existing notice without another delivery: a flapping upstream is one message.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.db import IntegrityError, transaction
from django.db.models import CharField, F, Q, QuerySet
from django.db.models.functions import Cast
from django.utils import timezone

from mcphub.features.notifications.catalogue import KINDS, MOST_FACT_CHARACTERS
from mcphub.features.notifications.models import Delivery, Notice, Reader, Subscription
from mcphub.parts import NoticeFollower
from sessions_app import bus
from sessions_app.history.models import WaitingChange
from sessions_app.kit.database import delete_in_slices
from sessions_app.kit.features import declared, loaded
from sessions_app.kit.shown import visible
from sessions_app.protocol.json import Json

NOTICED = "noticed"
"""Subject of the change bus: there is a new notice. Payload: the notice's number."""
MOST_AN_HOUR = 60
"""New notices of one kind that are sent; further ones are in the list, and one notice together is sent."""
MOST_KEPT_AN_HOUR = 2000
"""New notices of one kind in the list; further ones are counted only."""
MOST_WAITING = 1000
"""Waiting deliveries of one subscription; further notices appear only in the list."""
BEGAN, ENDED, HAPPENED = "began", "ended", "happened"
"""States of which a `NoticeFollower` is notified; the last of kinds that have no end."""
_TOUCH_SECONDS = 10


def note(
    kind: str, subject: str = "", facts: dict[str, Json] | None = None, *, person: User | None = None
) -> Notice | None:
    """Write a notice; None where it is one that is there."""
    subject, facts = subject[:200], {name: _plain(fact) for name, fact in (facts or {}).items()}
    if _is_repeated(kind, subject, facts):
        return None
    now = timezone.now()
    try:
        with transaction.atomic():
            new = Notice.objects.filter(kind=kind, first_at__gt=now - timedelta(hours=1)).count()
            if new < MOST_AN_HOUR:
                return _send(_write(kind, subject, facts, person, now))
            if new < MOST_KEPT_AN_HOUR:
                _write(kind, subject, facts, person, now)
            return None if _is_repeated("more", kind, {}) else _send(_write("more", kind, {"kind": kind}, None, now))
    except IntegrityError:
        return None  # another worker was first


def test(subscription: Subscription, by: str) -> Delivery | None:
    """Write a test notice for one subscription alone, due at once; None for the console, which needs no delivery."""
    now = timezone.now()
    with transaction.atomic():
        notice = Notice.objects.create(
            kind="test", facts={"by": _plain(by)}, person=subscription.person, is_current=False, ended_at=now
        )
        delivery = None
        if subscription.way != Subscription.Way.CONSOLE:
            delivery = Delivery.objects.create(notice=notice, subscription=subscription, due_at=now)
        bus.publish(NOTICED, str(notice.pk))
    return delivery


def end(notices: QuerySet[Notice]) -> int:
    """Mark these states as over; return the number."""
    count, now = 0, timezone.now()
    for row in notices.filter(ended_at=None):
        if row.described is not None and row.described.outcome:
            row.facts = {**row.facts, **loaded(row.described.outcome)(row.subject)}
        with transaction.atomic():
            if Notice.objects.filter(pk=row.pk, ended_at=None).update(ended_at=now, facts=row.facts):
                count += 1
                _follow(row, ENDED)
    return count


def visible_to(person: User, notices: QuerySet[Notice] | None = None) -> QuerySet[Notice]:
    """Return the notices that a person may read."""
    rows = Notice.objects.all() if notices is None else notices
    names = [kind.name for kind in KINDS.values() if kind.permission and person.has_perm(kind.permission)]
    return rows.filter(Q(kind__in=names) | Q(person_id=person.pk))


def may_read(person: User, notice: Notice) -> bool:
    kind = notice.described
    if not person.is_active or kind is None:
        return False
    return notice.person_id == person.pk or bool(kind.permission and person.has_perm(kind.permission))


def managed_by(person: User) -> Q:
    """Return the subscriptions that a person sees and edits: their own and those of their groups."""
    shared = Q(group__isnull=False) if person.is_superuser else Q(group__in=person.groups.all())
    return Q(person_id=person.pk) | shared


def is_permitted(subscription: Subscription, notice: Notice) -> bool:
    """Return True if the subscription's person, or its group as such, may read the notice."""
    if subscription.person is not None:
        return may_read(subscription.person, notice)
    kind = notice.described
    if kind is None or notice.kind == "test":
        return kind is not None
    app, _, codename = kind.permission.partition(".")
    rows = Permission.objects.filter(group=subscription.group_id, content_type__app_label=app, codename=codename)
    return bool(kind.permission) and rows.exists()


def live_for(person: User) -> QuerySet[Notice]:
    """Return the notices for the person's badge and toasts: all they may read, or those they chose.

    Without the person's own proposals, which wait for others.
    """
    own = WaitingChange.objects.filter(proposed_by=f"user:{person.pk}").order_by()
    rows = visible_to(person).exclude(kind="change.waits", subject__in=own.values_list(Cast("pk", CharField())))
    chosen = Subscription.objects.filter(person=person, way=Subscription.Way.CONSOLE).first()
    if chosen is None:
        return rows
    if not chosen.enabled:
        return rows.filter(kind="test")
    return rows.filter(kind__in=[*chosen.kinds, "test", "more"]) if chosen.kinds else rows


def seen_upto(person: User) -> int:
    return Reader.objects.filter(person=person).values_list("seen_upto", flat=True).first() or 0


def see(person: User, upto: int) -> None:
    """Note that the person has seen the notices up to this number; never goes back."""
    newest = Notice.objects.order_by("-id").values_list("id", flat=True).first() or 0
    upto = min(upto, newest)
    Reader.objects.get_or_create(person=person)
    Reader.objects.filter(person=person, seen_upto__lt=upto).update(seen_upto=upto)


def replay(deliveries: QuerySet[Delivery]) -> int:
    """Send abandoned or sent ones again; return the number. The receiver sees the same message id."""
    now = timezone.now()
    with transaction.atomic():
        count = deliveries.exclude(state=Delivery.State.WAITING).update(
            state=Delivery.State.WAITING, tries=0, due_at=now, error="", ended_at=None
        )
        if count:
            bus.publish(NOTICED, "")
    return count


def purge() -> int:
    """Remove notices that are old, with their deliveries; give the count."""
    horizon = timezone.now() - timedelta(days=settings.MCPHUB_NOTICE_DAYS)
    old = Notice.objects.filter(last_at__lt=horizon).exclude(ended_at=None, kind__in=_ENDING)
    return delete_in_slices(old)


_ENDING = [kind.name for kind in KINDS.values() if kind.ends]


def _is_repeated(kind: str, subject: str, facts: dict[str, Json]) -> bool:
    """Count up the notice that is there. False where there is none, or one that was over for long."""
    row = Notice.objects.filter(kind=kind, subject=subject, is_current=True).first()
    if row is None:
        return False
    now, of_row = timezone.now(), Notice.objects.filter(pk=row.pk, is_current=True)
    if kind == "more" and now - row.last_at < timedelta(hours=1):
        return bool(of_row.update(last_at=now, count=F("count") + 1))
    if kind != "more" and kind not in _ENDING:
        return True  # it happened once; the history was read a second time
    if row.ended_at is None:
        if (now - row.last_at).total_seconds() > _TOUCH_SECONDS:
            of_row.update(last_at=now, facts=facts or row.facts)
        return True
    if (now - row.ended_at).total_seconds() < settings.MCPHUB_NOTICE_SETTLE_SECONDS:
        row.facts = facts or row.facts
        with transaction.atomic():
            if of_row.filter(ended_at=row.ended_at).update(
                ended_at=None, last_at=now, count=F("count") + 1, facts=row.facts
            ):
                _follow(row, BEGAN)
        return True
    of_row.update(is_current=False)
    return False


def _write(kind: str, subject: str, facts: dict[str, Json], person: User | None, now: datetime) -> Notice:
    notice = Notice.objects.create(
        kind=kind,
        subject=subject,
        facts=facts,
        person=person,
        first_at=now,
        last_at=now,
        ended_at=None if kind in _ENDING else now,
    )
    _follow(notice, BEGAN if kind in _ENDING else HAPPENED)
    return notice


def _follow(notice: Notice, state: str) -> None:
    for part in declared(NoticeFollower):
        loaded(part.function)(notice, state)


def _send(notice: Notice) -> Notice:
    described = KINDS[notice.kind]
    Delivery.objects.bulk_create(
        Delivery(notice=notice, subscription=each, due_at=each.due_at(notice.first_at, is_alarm=described.is_alarm))
        for each in _wanting(notice)
    )
    bus.publish(NOTICED, str(notice.pk))
    return notice


def _wanting(notice: Notice) -> Iterable[Subscription]:
    rows = Subscription.objects.filter(enabled=True).exclude(way=Subscription.Way.CONSOLE).select_related("person")
    proposers = _proposers(notice)
    for each in rows.exclude(person__is_active=False):
        if each.wants(notice.kind) and is_permitted(each, notice) and each.person_id not in proposers:
            waiting = each.deliveries.filter(state=Delivery.State.WAITING)
            if waiting.count() < MOST_WAITING:
                yield each


def _proposers(notice: Notice) -> list[int]:
    """Return the people behind a change that waits: none of them can confirm it."""
    if notice.kind != "change.waits" or not notice.subject.isdecimal():
        return []
    return list(WaitingChange.objects.filter(pk=notice.subject).values_list("people", flat=True).first() or [])


def _plain(fact: Json) -> Json:
    return visible(fact, one_line=True)[:MOST_FACT_CHARACTERS] if isinstance(fact, str) else fact
