"""How far an embedding model is: how many of the tools that searches find have a vector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone

from mcphub.features.embeddings import cache
from mcphub.features.embeddings.models import EmbeddingSource, EmbeddingUse
from mcphub.features.embeddings.sent import texts_of
from mcphub.process import runtime
from mcphub.process.doctor import Finding
from tools_catalog.catalog.snapshot import Catalog

_RECENT = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class EmbeddingCoverage:
    """Tools that are sent to the provider, and those of them that have a vector."""

    tools: int
    embedded: int


def coverage_of(row: EmbeddingSource) -> EmbeddingCoverage | None:
    """Return how far the model is; None for one that is off."""
    if not (row.enabled and row.provider.enabled):
        return None
    texts = texts_of(cache.model_of(row), current_catalog())
    return EmbeddingCoverage(len(texts), len(texts) - len(cache.missing(texts)))


def use_of(row: EmbeddingSource) -> EmbeddingUse:
    """Return what a model has used; one that was never asked has used nothing."""
    found: EmbeddingUse | None = getattr(row, "use", None)
    return EmbeddingUse(source=row) if found is None else found


def current_catalog() -> Catalog:
    """Return the catalogue of this process's hub; that of the database where it runs none."""
    hub = runtime.current()
    return Catalog.load() if hub is None else hub.configuration.catalog


def check() -> Iterator[Finding]:
    """Look for a model that searches do without, for `mcphub doctor`."""
    row = EmbeddingSource.objects.filter(enabled=True).select_related("provider", "use").first()
    if row is None:
        return
    use, coverage = use_of(row), coverage_of(row)
    if coverage is None:
        yield Finding(
            "hint",
            f"Searches go by words alone: {row.provider.slug}, the provider of {row}, is disabled.",
            "Enable the provider, or disable the model in the console under Embeddings.",
        )
        return
    if use.failed_at is not None and use.failed_at > timezone.now() - _RECENT:
        yield Finding(
            "hint",
            f"{row} failed within the last hour: {use.failure}",
            f"`mcphub embedding test {row}` tries it. Until it answers, searches go by words alone.",
        )
    if coverage.embedded < coverage.tools:
        yield Finding(
            "hint",
            f"{row} has vectors of {coverage.embedded} of {coverage.tools} tools; searches find the others by words.",
            "A running hub asks for the rest by itself; `mcphub embedding refresh` does it now.",
        )
