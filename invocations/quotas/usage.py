"""Who has used how much of which quota now, for the console, REST and the command line; and what may go."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.db.models import CharField, F, FloatField, Q, QuerySet, Value
from django.db.models.functions import Cast, Coalesce

from invocations.models import McpQuota, QuotaCount
from invocations.quotas import amounts
from invocations.quotas.amounts import MONEY
from invocations.quotas.quota import Charge, QuotaRule
from invocations.quotas.windows import QuotaWindow, window_of
from sessions_app.caller import Caller, caller_of, caller_of_key
from sessions_app.kit.database import delete_in_slices
from sessions_app.kit.fields import readable_rows
from sessions_app.models import ApiKey
from sessions_app.protocol.json import Json

MOST_SHOWN = 500
MOST_OF_PERSON = 50
"""Keys of a person that are looked at, and sums that are shown of them."""
KEPT_SECONDS = 35 * 86400
"""After its window a sum stays so long, for who looks back."""


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """One sum of the window that is open now."""

    quota: str
    subject: str
    label: str
    """Whom the subject names; empty where nobody has this name any more."""
    unit: str
    used: int
    """Of money millionths, as the limits."""
    soft: int | None
    hard: int | None
    window: QuotaWindow
    estimated: int = 0
    """Part of `used` that providers did not tell."""
    unpriced: int = 0
    """Requests to models without a price, which count nothing."""
    quota_id: int = 0
    words: str = ""
    """Of the quota, for whoever it refuses."""

    @property
    def limit(self) -> int:
        return self.hard or self.soft or 1

    @property
    def share(self) -> int:
        """Give per cent of the limit; of one that was passed more than 100."""
        return 100 * self.used // self.limit

    @property
    def state(self) -> str:
        if self.hard is not None and self.used >= self.hard:
            return "refuses"
        return "warns" if self.soft is not None and self.used >= self.soft else "open"

    @property
    def ends_at(self) -> datetime:
        return datetime.fromtimestamp(self.window.ends, UTC)

    def told(self) -> dict[str, Json]:
        return {
            "quota": self.quota,
            "subject": self.subject,
            "name": self.label,
            "unit": self.unit,
            "used": self.used,
            "soft_limit": self.soft,
            "hard_limit": self.hard,
            "currency": amounts.currency() if self.unit == MONEY else None,
            "estimated": self.estimated,
            "unpriced": self.unpriced,
            "state": self.state,
            "begins_at": datetime.fromtimestamp(self.window.begins, UTC).isoformat(),
            "resets_at": self.ends_at.isoformat(),
        }


def uses(*, quota: str = "", near: bool = False, most: int = MOST_SHOWN, is_named: bool = True) -> list[QuotaUse]:
    """Give the sums of now, those nearest to their limits first. `near`: only what warns or refuses.

    `is_named`: with their labels, which is a statement more.
    """
    now = time.time()
    rows = _of_now(now).filter(quota__enabled=True)
    if quota:
        rows = rows.filter(quota__name=quota)
    if near:
        rows = rows.filter(Q(used__gte=F("quota__soft_limit")) | Q(used__gte=F("quota__hard_limit")))
    limit = Coalesce("quota__hard_limit", "quota__soft_limit")
    rows = rows.annotate(share=Cast("used", FloatField()) / Cast(limit, FloatField()))
    found = [row for row in rows.order_by("-share", "key")[:most] if _is_of(row, now)]
    labels = labels_of(row.subject for row in found) if is_named else {}
    return [
        QuotaUse(
            row.quota.name,
            row.subject,
            labels.get(row.subject, ""),
            row.unit,
            row.used,
            row.quota.soft_limit,
            row.quota.hard_limit,
            QuotaWindow(row.begins, row.ends),
            row.estimated,
            row.unpriced,
            row.quota.pk,
            row.quota.words,
        )
        for row in found
    ]


def of_person(person: User) -> list[QuotaUse]:
    """Give what concerns a person and their keys, the fullest first: sums of now, of which nothing is used yet too."""
    rules = [row.compiled() for row in readable_rows(McpQuota.objects.filter(enabled=True))]
    if not rules:
        return []
    now = time.time()
    charges: dict[str, Charge] = {}
    for caller in _callers(person):
        for rule in rules:
            if rule.is_about(caller):
                made = (Charge(rule, subject, 0) for subject in rule.subjects(caller))
                charges |= {charge.key(charge.window(now)): charge for charge in made}
    rows = QuotaCount.objects.in_bulk(charges)
    labels = labels_of(charge.subject for charge in charges.values())
    found = [_use(charge, now, rows.get(key), labels) for key, charge in charges.items()]
    return sorted(found, key=lambda use: (-use.used / use.limit, use.quota, use.subject))[:MOST_OF_PERSON]


def _callers(person: User) -> Iterator[Caller]:
    yield caller_of(person)
    keys = ApiKey.objects.filter(owner=person, revoked_at=None).select_related("owner").prefetch_related("groups")
    yield from (caller_of_key(key) for key in keys.order_by("-pk")[:MOST_OF_PERSON] if key.is_usable())


def _use(charge: Charge, now: float, row: QuotaCount | None, labels: Mapping[str, str]) -> QuotaUse:
    quota = charge.quota
    used, estimated, unpriced = (row.used, row.estimated, row.unpriced) if row is not None else (0, 0, 0)
    return QuotaUse(
        quota.name,
        charge.subject,
        labels.get(charge.subject, ""),
        quota.unit,
        used,
        quota.soft,
        quota.hard,
        charge.window(now),
        estimated,
        unpriced,
        quota.key,
        quota.words,
    )


def used_of(charges: Iterable[Charge]) -> dict[Charge, int]:
    """Give the sums of now that these would add to."""
    now = time.time()
    keys = {charge.key(charge.window(now)): charge for charge in charges}
    found = dict(QuotaCount.objects.filter(pk__in=keys).values_list("key", "used"))
    return {charge: found.get(key, 0) for key, charge in keys.items()}


def labels_of(subjects: Iterable[str]) -> Mapping[str, str]:
    """Give the names of people, keys and groups that subjects stand for, in one statement."""
    numbers: dict[str, set[int]] = {"user": set(), "key": set(), "group": set()}
    for subject in subjects:
        kind, _, number = subject.partition(":")
        if kind in numbers and number.isdecimal() and len(number) < 19:
            numbers[kind].add(int(number))
    named: dict[str, tuple[QuerySet[Any], str]] = {
        "user": (get_user_model()._default_manager.all(), "username"),
        "key": (ApiKey.objects.all(), "name"),
        "group": (Group.objects.all(), "name"),
    }
    parts = [
        rows.filter(pk__in=numbers[kind])
        .order_by()
        .annotate(kind=Value(kind, output_field=CharField()))
        .values_list("kind", "pk", column)
        for kind, (rows, column) in named.items()
        if numbers[kind]
    ]
    if not parts:
        return {}
    return {f"{kind}:{pk}": name for kind, pk, name in parts[0].union(*parts[1:], all=True)}


def purge() -> int:
    """Remove sums whose windows ended long ago; give the count."""
    return delete_in_slices(QuotaCount.objects.filter(ends__lt=int(time.time()) - KEPT_SECONDS))


def _of_now(now: float) -> QuerySet[QuotaCount]:
    moment = int(now)
    return QuotaCount.objects.filter(begins__lte=moment, ends__gt=moment, unit=F("quota__unit")).select_related("quota")


def _is_of(row: QuotaCount, now: float) -> bool:
    """Whether the sum is one that the quota, as it is now, adds to: its period may have been another."""
    rule: QuotaRule = row.quota.compiled()
    return window_of(rule.period, now) == QuotaWindow(row.begins, row.ends)
