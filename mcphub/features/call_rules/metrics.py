"""Decisions of call rules in this process, for /metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily

from mcphub.features.call_rules.stage import Policing

if TYPE_CHECKING:
    from mcphub.process.runtime import Hub


def decisions(hub: Hub) -> list[Metric]:
    ruled = CounterMetricFamily("mcphub_policy_decisions", "Calls by what rules said of them.", labels=["effect"])
    for effect, count in sorted(hub.calls.stages.one(Policing).decisions.items()):
        ruled.add_metric([effect], count)
    return [ruled]
