"""Decisions of guardrails in this process, for /metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily

from mcphub.features.guardrails.stage import Guarding

if TYPE_CHECKING:
    from mcphub.process.runtime import Hub


def decisions(hub: Hub) -> list[Metric]:
    decided = CounterMetricFamily(
        "mcphub_guardrail_decisions", "What guardrails did, by guardrail.", labels=["guardrail", "action"]
    )
    for labels, count in sorted(hub.calls.stages.one(Guarding).decisions.items()):
        decided.add_metric(labels, count)
    return [decided]
