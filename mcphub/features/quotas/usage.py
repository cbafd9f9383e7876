"""Current quota usage, for the console, REST and the command line; and cleanup."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from django.contrib.auth.models import User
from django.db.models import F, FloatField, Q, QuerySet
from django.db.models.functions import Cast, Coalesce

from mcphub.features.quotas import amounts
from mcphub.features.quotas.amounts import MONEY
from mcphub.features.quotas.models import McpQuota, QuotaCount
from mcphub.features.quotas.quota import Charge, QuotaRule
from mcphub.features.quotas.windows import QuotaWindow, window_of
from sessions_app.caller import Caller, caller_of, caller_of_key
from sessions_app.keys.naming import names_of
from sessions_app.kit.database import delete_in_slices
from sessions_app.kit.fields import readable_rows
from sessions_app.models import ApiKey
from sessions_app.protocol.json import Json
from sessions_app.workspaces.models import open_to
from tools_catalog.models import McpToolDefinition, McpToolset, McpUpstreamTool
from tools_catalog.models.ruled import ruled
from tools_catalog.policy.scope import concerns

MOST_SHOWN = 500
MOST_OF_PERSON = 50
"""Keys of a person that are looked at, and sums that are shown of them."""
KEPT_SECONDS = 35 * 86400
"""A sum is kept this long after its window."""


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """One sum of the window that is open now."""

    quota: str
    subject: str
    label: str
    """The subject's name; empty if nobody has this name any more."""
    unit: str
    used: int
    """Of money millionths, as the limits."""
    soft: int | None
    hard: int | None
    window: QuotaWindow
    estimated: int = 0
    """Part of `used` that providers did not report."""
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
        """Return per cent of the limit; of one that was passed more than 100."""
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
    """Return the sums of now, those nearest to their limits first. `near`: only sums that warn or refuse.

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
    labels = names_of(row.subject for row in found) if is_named else {}
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
    """Return the quotas of a person and their keys, the fullest first, including current sums without usage."""
    rules = [row.compiled() for row in readable_rows(McpQuota.objects.filter(enabled=True))]
    rules = [rule for rule in rules if _concerns(rule, person)]
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
    labels = names_of(charge.subject for charge in charges.values())
    found = [_use(charge, now, rows.get(key), labels) for key, charge in charges.items()]
    return sorted(found, key=lambda use: (-use.used / use.limit, use.quota, use.subject))[:MOST_OF_PERSON]


def _concerns(rule: QuotaRule, person: User) -> bool:
    """Return whether a quota counts calls of a tool that the person sees: its name and words are for those alone."""
    if rule.applies_to == "all" or person.is_superuser:
        return True
    groups = person.groups.values_list("pk", flat=True)
    if rule.applies_to == "toolset":
        sets = McpToolset.objects.filter(open_to(groups), slug__in=rule.target.split(), enabled=True)
        return sets.exists()
    if rule.applies_to == "connection":
        slugs = McpUpstreamTool.objects.filter(open_to(groups, "tool__"), tool__enabled=True)
        named = slugs.order_by().values_list("connection__slug", flat=True).distinct()
        return any(fnmatchcase(slug, pattern) for slug in named for pattern in rule.target.split())
    tools = McpToolDefinition.objects.filter(open_to(groups), enabled=True).order_by().distinct()
    if rule.applies_to == "tool":
        names = list(tools.values_list("name", flat=True))
        return any(fnmatchcase(name, pattern) for name in names for pattern in rule.target.split())
    return any(_has_mark(rule, row) for row in tools.iterator(chunk_size=200))


def _has_mark(rule: QuotaRule, row: McpToolDefinition) -> bool:
    """Return whether a tool has the tag or the annotation that a quota names."""
    try:
        return concerns(rule.applies_to, rule.target, ruled(row), {})
    except ValueError:  # its configuration is broken, so it is not served
        return False


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
    """Return the sums of now that these would add to."""
    now = time.time()
    keys = {charge.key(charge.window(now)): charge for charge in charges}
    found = dict(QuotaCount.objects.filter(pk__in=keys).values_list("key", "used"))
    return {charge: found.get(key, 0) for key, charge in keys.items()}


def purge() -> int:
    """Delete sums of old windows; return the number."""
    return delete_in_slices(QuotaCount.objects.filter(ends__lt=int(time.time()) - KEPT_SECONDS))


def _of_now(now: float) -> QuerySet[QuotaCount]:
    moment = int(now)
    return QuotaCount.objects.filter(begins__lte=moment, ends__gt=moment, unit=F("quota__unit")).select_related("quota")


def _is_of(row: QuotaCount, now: float) -> bool:
    """Return whether the sum is one that the quota, as it is now, adds to: its period may have been another."""
    rule: QuotaRule = row.quota.compiled()
    return window_of(rule.period, now) == QuotaWindow(row.begins, row.ends)
