"""Vectors in the database, by digest: what one process asked for, no other asks for again."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from datetime import timedelta

from django.utils import timezone

from mcphub.features.chat.providers.snapshot import provider_of
from mcphub.features.embeddings.endpoint import EmbeddingModel
from mcphub.features.embeddings.models import CachedVector, EmbeddingSource
from mcphub.features.embeddings.vectors import Vector, VectorInvalid

logger = logging.getLogger(__name__)

MOST_KEPT = 50_000
KEPT = timedelta(days=30)
"""After the last use."""
_SLICE = 500


def enabled_model() -> EmbeddingModel | None:
    rows = EmbeddingSource.objects.filter(enabled=True, provider__enabled=True).select_related("provider")
    row = rows.first()
    return None if row is None else model_of(row)


def model_of(row: EmbeddingSource) -> EmbeddingModel:
    return EmbeddingModel(
        pk=row.pk,
        provider=provider_of(row.provider),
        name=row.model,
        dimensions=row.dimensions,
        timeout_seconds=row.timeout_seconds,
    )


def provider_of_model(name: str) -> str | None:
    """Return the provider of a model by its name, `PROVIDER/MODEL`; None for no such model of embeddings."""
    provider, _, model = name.partition("/")
    found = EmbeddingSource.objects.filter(provider__slug=provider, model=model)
    return provider if found.exists() else None


def load(digests: Collection[str]) -> dict[str, Vector]:
    """Return the vectors that are there, and note that they are used."""
    found: dict[str, Vector] = {}
    wanted, yesterday = list(digests), timezone.now() - timedelta(days=1)
    for at in range(0, len(wanted), _SLICE):
        rows = CachedVector.objects.filter(digest__in=wanted[at : at + _SLICE])
        for digest, stored in rows.values_list("digest", "vector"):
            try:
                found[digest] = Vector.read(bytes(stored))
            except VectorInvalid as error:
                logger.warning("A cached vector cannot be read, and is asked for again: %s", error)
        rows.filter(used_at__lt=yesterday).update(used_at=timezone.now())
    return found


def missing(digests: Collection[str]) -> list[str]:
    """Return those of some digests that have no vector."""
    known: set[str] = set()
    wanted = list(digests)
    for at in range(0, len(wanted), _SLICE):
        rows = CachedVector.objects.filter(digest__in=wanted[at : at + _SLICE])
        known.update(rows.values_list("digest", flat=True))
    return [digest for digest in wanted if digest not in known]


def save(vectors: Mapping[str, Vector]) -> None:
    """Write vectors. Those that another process wrote meanwhile stay."""
    rows = [CachedVector(digest=digest, vector=vector.stored()) for digest, vector in vectors.items()]
    CachedVector.objects.bulk_create(rows, batch_size=100, ignore_conflicts=True)


def purge() -> None:
    """Remove vectors that nobody has used for long, and the oldest beyond the bound."""
    CachedVector.objects.filter(used_at__lt=timezone.now() - KEPT).delete()
    beyond = CachedVector.objects.order_by("-used_at").values_list("used_at", flat=True)[MOST_KEPT : MOST_KEPT + 1]
    if oldest := list(beyond):
        CachedVector.objects.filter(used_at__lte=oldest[0]).delete()
