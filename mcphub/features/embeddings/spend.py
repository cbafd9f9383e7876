"""The usage of requests for vectors: sums of each model, and money by minute and caller, for alerts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from mcphub.features.chat.engine.metering import RoundUse
from mcphub.features.embeddings.endpoint import EmbeddingModel
from mcphub.features.embeddings.models import EmbeddingSource, EmbeddingSpend, EmbeddingUse
from mcphub.parts import SpendQuery
from sessions_app.kit.database import TookTooLong, delete_in_slices

MOST_MINUTES = 200_000
"""Rows that one query reads."""
KEPT = timedelta(days=35)
"""As sums of quotas."""


@dataclass(frozen=True, slots=True)
class MadeRequest:
    """The usage of one request, until it is written."""

    model: EmbeddingModel
    principal: str
    """Empty: the hub's own request."""
    moment: datetime
    use: RoundUse


@transaction.atomic
def record(made: Sequence[MadeRequest]) -> None:
    """Add the usage of requests to the sums, of all of them or none.

    Those of a model that was deleted meanwhile stay with its provider.
    """
    there = set(EmbeddingSource.objects.values_list("pk", flat=True))
    sums: dict[int, list[int]] = {}
    spent: dict[tuple[datetime, str, str], int] = {}
    for each in made:
        cost = each.use.cost or 0
        if each.model.pk in there:
            known = sums.setdefault(each.model.pk, [0, 0])
            known[0] += each.use.usage.total_tokens
            known[1] += cost
        if cost:
            key = _minute_of(each.moment), each.principal, each.model.provider.slug
            spent[key] = spent.get(key, 0) + cost
    for pk, (tokens, cost) in sums.items():
        row, _ = EmbeddingUse.objects.get_or_create(source_id=pk)
        EmbeddingUse.objects.filter(pk=row.pk).update(
            tokens=F("tokens") + tokens, cost_millionths=F("cost_millionths") + cost
        )
    for (minute, principal, provider), cost in spent.items():
        minutes, _ = EmbeddingSpend.objects.get_or_create(minute=minute, principal=principal, provider=provider)
        EmbeddingSpend.objects.filter(pk=minutes.pk).update(cost_millionths=F("cost_millionths") + cost)


def note_failure(model: EmbeddingModel, failure: str) -> None:
    """Keep the last failure of a model."""
    if not EmbeddingSource.objects.filter(pk=model.pk).exists():
        return
    EmbeddingUse.objects.get_or_create(source_id=model.pk)
    EmbeddingUse.objects.filter(pk=model.pk).update(failure=failure, failed_at=timezone.now())


def spent(query: SpendQuery) -> Iterator[tuple[datetime, int]]:
    """Yield minutes with the cost of their requests. Raises `TookTooLong` where there are too many."""
    rows = EmbeddingSpend.objects.filter(minute__gte=_minute_of(query.after), minute__lt=query.before)
    if query.provider:
        rows = rows.filter(provider=query.provider)
    found = rows.order_by("-minute").values_list("principal", "minute", "cost_millionths")
    for number, (principal, minute, cost) in enumerate(found.iterator(chunk_size=2000)):
        if number >= MOST_MINUTES:
            raise TookTooLong
        if query.principals is None or principal in query.principals:
            yield max(minute, query.after), cost


def providers() -> list[str]:
    """Return no names: all providers are the chat's."""
    return []


def purge() -> None:
    """Remove minutes that no alert reads any more."""
    delete_in_slices(EmbeddingSpend.objects.filter(minute__lt=timezone.now() - KEPT))


def _minute_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(second=0, microsecond=0)
