"""The audit export as a service of the hub: it starts the exporting process, and reports each
destination's progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from mcphub.features.audit_export.service import Lag, Shipping
from mcphub.process.runtime import Hub
from mcphub.process.services import BackgroundService


class AuditExport(BackgroundService):
    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self._shipping = Shipping()

    def look(self) -> None:
        self._shipping.look()

    def health(self) -> dict[str, str]:
        return {"shipping": f"behind: {words}"} if (words := self._shipping.behind) else {}

    def metrics(self) -> list[Metric]:
        return _lags(self._shipping.lags)

    async def stop(self) -> None:
        await asyncio.to_thread(self._shipping.stop)


def _lags(lags: Iterable[Lag]) -> list[Metric]:
    """Return how far each target of shipping is. Names are those of rows, of which there are few."""
    labels = ["target"]
    rows = GaugeMetricFamily(
        "mcphub_audit_shipping_lag_rows", "Sealed rows that a target has not got yet.", None, labels
    )
    seconds = GaugeMetricFamily(
        "mcphub_audit_shipping_lag_seconds",
        "Since the oldest block was sealed that a target has not got; 0: it has all.",
        labels=labels,
    )
    failures = GaugeMetricFamily(
        "mcphub_audit_shipping_failures", "Deliveries to a target that failed in a row.", labels=labels
    )
    delivered = CounterMetricFamily(
        "mcphub_audit_shipping_rows", "Rows that a target has got, repeated ones included.", labels=labels
    )
    for each in lags:
        rows.add_metric([each.name], each.rows)
        seconds.add_metric([each.name], each.seconds)
        failures.add_metric([each.name], each.failures)
        delivered.add_metric([each.name], each.delivered)
    return [rows, seconds, failures, delivered]
