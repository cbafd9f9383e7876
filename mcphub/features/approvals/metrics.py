"""Approvals of this process, for /metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from mcphub.features.approvals.releasing import Approvals

if TYPE_CHECKING:
    from mcphub.process.runtime import Hub


def outcomes(hub: Hub) -> list[Metric]:
    approvals = hub.calls.stages.one(Approvals)
    asked = CounterMetricFamily("mcphub_approvals", "Calls that wanted a yes, by what came of it.", labels=["outcome"])
    for outcome, count in sorted(approvals.outcomes.items()):
        asked.add_metric([outcome], count)
    return [asked, GaugeMetricFamily("mcphub_approvals_held", "Calls held until somebody decides.", approvals.held)]
