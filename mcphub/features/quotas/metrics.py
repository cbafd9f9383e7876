"""Refusals of this process, for /metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily

from mcphub.features.quotas.spending import Spending

if TYPE_CHECKING:
    from mcphub.process.runtime import Hub


def refusals(hub: Hub) -> list[Metric]:
    refused = CounterMetricFamily(
        "mcphub_quota_refusals", "Calls and turns of the chat that a quota refused, by the quota.", labels=["quota"]
    )
    for quota, count in sorted(hub.calls.stages.one(Spending).refusals.items()):
        refused.add_metric([quota], count)
    return [refused]
