"""Metrics for Prometheus: the state of the process and of the sealing. Read at each scrape, never on a call."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from channels.db import database_sync_to_async
from django.db import connection
from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from invocations.chain.models import AuditBlock
from invocations.chain.service import log_on
from invocations.chain.watching import verdict
from invocations.shipping.service import Lag

if TYPE_CHECKING:
    from mcphub.process.runtime import Hub

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class _Gauges:
    """A collector of given values."""

    def __init__(self, found: Iterable[tuple[str, str, float]]) -> None:
        self._found = list(found)

    def collect(self) -> Iterator[Metric]:
        for name, words, value in self._found:
            yield GaugeMetricFamily(name, words, value=value)


class _ShippingLags:
    """A collector of how far each target of shipping is. Names are those of rows, of which there are few."""

    def __init__(self, lags: list[Lag]) -> None:
        self._lags = lags

    def collect(self) -> Iterator[Metric]:
        rows = GaugeMetricFamily(
            "mcphub_audit_shipping_lag_rows", "Sealed rows that a target has not got yet.", labels=["target"]
        )
        seconds = GaugeMetricFamily(
            "mcphub_audit_shipping_lag_seconds",
            "Since the oldest block was sealed that a target has not got; 0: it has all.",
            labels=["target"],
        )
        failures = GaugeMetricFamily(
            "mcphub_audit_shipping_failures", "Deliveries to a target that failed in a row.", labels=["target"]
        )
        delivered = CounterMetricFamily(
            "mcphub_audit_shipping_rows", "Rows that a target has got, repeated ones included.", labels=["target"]
        )
        for each in self._lags:
            rows.add_metric([each.name], each.rows)
            seconds.add_metric([each.name], each.seconds)
            failures.add_metric([each.name], each.failures)
            delivered.add_metric([each.name], each.delivered)
        yield from (rows, seconds, failures, delivered)


async def exposition(hub: Hub) -> bytes:
    """Give the metrics in Prometheus's text format. Where the database does not answer, its part is missing."""
    found = [
        ("mcphub_up", "The process serves; 0 while it drains.", float(not hub.is_draining)),
        ("mcphub_calls_running", "Calls under way in this process.", float(len(hub.calls.running))),
        ("mcphub_ledger_waiting", "Records that wait for their commit.", float(hub.ledger.waiting)),
        ("mcphub_ledger_failing", "1: the last commit of the ledger failed.", float(hub.ledger.failing is not None)),
        ("mcphub_tools", "Tools in the catalogue of this process.", float(len(hub.configuration.catalog.tools))),
        (
            "mcphub_tool_list_tokens",
            "About how many tokens tools/list is to a model: a quarter of its characters.",
            float(hub.configuration.catalog.tool_list.estimated_tokens),
        ),
        ("mcphub_audit_alarm", "1: the last verification is bad, or too old.", float(bool(hub.sealing.alarm))),
    ]
    found += [
        (f"mcphub_policy_{effect}", f"Calls that rules decided so since the process started: {effect}.", float(count))
        for effect, count in sorted(hub.calls.policing.decisions.items())
    ]
    if (free := hub.ledger.disk.free_bytes) is not None:
        found.append(("mcphub_disk_free_bytes", "Free on the disk of a SQLite database.", float(free)))
    try:
        found += await database_sync_to_async(_sealing)()
        found.append(("mcphub_database_up", "1: the database answered.", 1.0))
    except Exception:
        found.append(("mcphub_database_up", "1: the database answered.", 0.0))
    registry = CollectorRegistry()
    registry.register(_ShippingLags(hub.shipping.lags))
    registry.register(_Gauges(found))
    ProcessCollector(registry=registry)
    return bytes(generate_latest(registry))


def _sealing() -> list[tuple[str, str, float]]:
    log = log_on(connection)
    highest = log.highest()
    last = AuditBlock.objects.order_by("-number").defer("header", "nodes").first()
    through = dict.fromkeys(highest, 0)
    if last is not None:
        through = {
            "envelope": last.envelopes_through,
            "invocation": last.invocations_through,
            "event": last.events_through,
        }
    waiting = sum(max(0, highest[name] - through[name]) for name in highest)
    age = time.time() - last.sealed_at.timestamp() if last is not None and waiting else 0.0
    judged = verdict(log)
    verified = judged.verified_at.timestamp() if judged is not None else 0.0
    return [
        ("mcphub_audit_unsealed_rows", "Rows of the audit that are not sealed yet, about.", float(waiting)),
        ("mcphub_audit_seal_lag_seconds", "Since the last block was sealed, while rows wait; else 0.", max(0.0, age)),
        ("mcphub_audit_verified_seconds", "When the audit was verified last, as Unix time; 0: never.", verified),
        ("mcphub_audit_blocks", "Blocks of the audit.", float(last.number + 1 if last is not None else 0)),
    ]
