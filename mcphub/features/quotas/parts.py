"""Parts that a feature may add to quotas, listed in its `FeatureConfig`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CountedModels:
    """Models whose tokens and money quotas count: a function that returns the provider of a model's id, or None."""

    provider: str
