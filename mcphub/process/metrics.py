"""Metrics for Prometheus: process, calls by tool and outcome, sealing. Read at each scrape.

Each process reports about itself, under the label `worker`; the one that is scraped asks the others of its `mcphub
serve`, so a scrape has them all, and counters never jump from one process to another.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from channels.db import database_sync_to_async
from django.db import connection
from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from invocations.chain.models import AuditBlock
from invocations.chain.service import log_on
from invocations.chain.watching import verdict
from invocations.ledger.counting import BUCKETS, CallCounts
from mcphub.parts import HubMetrics, RowMetrics
from mcphub.process import siblings
from sessions_app.kit.features import declared, loaded

if TYPE_CHECKING:
    from mcphub.process.runtime import Hub

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_SIBLING_SECONDS = 2
_BOUNDS = [*(f"{bound:g}" for bound in BUCKETS), "+Inf"]


class _GivenFamilies:
    """A collector of families that are there already, each sample under the label `worker` where one is named."""

    def __init__(self, families: Iterable[Metric], worker: str = "") -> None:
        self._families = list(families)
        self._worker = worker

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            if self._worker:
                family.samples = [
                    each._replace(labels={"worker": self._worker, **each.labels}) for each in family.samples
                ]
            yield family


async def exposition(hub: Hub) -> bytes:
    """Return the metrics of all workers in Prometheus's text format. Where the database does not answer, its part is
    missing."""
    found: list[Metric] = []
    try:
        found += await database_sync_to_async(_of_rows)()
        is_up = 1.0
    except Exception:
        is_up = 0.0
    found.append(GaugeMetricFamily("mcphub_database_up", "1: the database answered.", is_up))
    others = [number for number in range(len(siblings.PLACE.paths)) if number != siblings.PLACE.number]
    told = await asyncio.gather(*(_of_sibling(siblings.PLACE.paths[number]) for number in others))
    reached = GaugeMetricFamily("mcphub_worker_up", "1: the worker told of itself at this scrape.", labels=["worker"])
    reached.add_metric([str(siblings.PLACE.number)], 1.0)
    for number, text in zip(others, told, strict=True):
        reached.add_metric([str(number)], float(bool(text)))
    found.append(reached)
    found += [each for service in hub.services for each in service.metrics()]
    return _joined([_text(_GivenFamilies(found)), own(hub), *filter(None, told)])


def own(hub: Hub) -> bytes:
    """Return this process's own metrics."""
    worker = str(siblings.PLACE.number)
    families: list[Metric] = [
        GaugeMetricFamily(name, words, value)
        for name, words, value in (
            ("mcphub_up", "The process serves; 0 while it drains.", float(not hub.is_draining)),
            ("mcphub_calls_running", "Calls under way in this process.", float(len(hub.calls.running))),
            ("mcphub_ledger_waiting", "Records that wait for their commit.", float(hub.ledger.waiting)),
            (
                "mcphub_ledger_failing",
                "1: the last commit of the ledger failed.",
                float(hub.ledger.failing is not None),
            ),
            (
                "mcphub_change_in_force",
                "The newest change of configuration, counted for all processes, by which this process works.",
                float(hub.change_in_force),
            ),
            ("mcphub_tools", "Tools in the catalogue of this process.", float(len(hub.configuration.catalog.tools))),
            (
                "mcphub_tool_list_tokens",
                "About how many tokens tools/list is to a model: a quarter of its characters.",
                float(hub.configuration.catalog.tool_list.estimated_tokens),
            ),
            ("mcphub_audit_alarm", "1: the last verification is bad, or too old.", float(bool(hub.sealing.alarm))),
        )
    ]
    if (free := hub.ledger.disk.free_bytes) is not None:
        families.append(GaugeMetricFamily("mcphub_disk_free_bytes", "Free on the disk of a SQLite database.", free))
    if (sent := hub.telemetry.deliveries) is not None:
        failing = float(sent.failing is not None)
        families.append(GaugeMetricFamily("mcphub_traces_failing", "1: the collector took nothing last.", failing))
        spans = CounterMetricFamily("mcphub_spans", "Spans by what became of them.", labels=["outcome"])
        spans.add_metric(["sent"], sent.sent)
        spans.add_metric(["lost"], sent.lost)
        families.append(spans)
    families += [family for part in declared(HubMetrics) for family in loaded(part.function)(hub)]
    families += _calls(hub.calls.rows.counts)
    families += ProcessCollector(registry=None).collect()
    return _text(_GivenFamilies(families, worker))


def _calls(counts: CallCounts) -> list[Metric]:
    names = ["method", "tool", "connection"]
    outcomes = CounterMetricFamily(
        "mcphub_calls", "Calls and reads by what they came to.", labels=[*names, "outcome", "code"]
    )
    for (series, code), count in list(counts.outcomes.items()):
        outcomes.add_metric([*series, "error" if code else "ok", code], count)
    durations = HistogramMetricFamily("mcphub_call_duration_seconds", "How long what was called took.", labels=names)
    for series, buckets in list(counts.durations.items()):
        total, summed = 0, []
        for bound, count in zip(_BOUNDS, buckets, strict=True):
            total += count
            summed.append((bound, float(total)))
        durations.add_metric(list(series), summed, counts.seconds[series])
    return [outcomes, durations]


def _text(collector: _GivenFamilies) -> bytes:
    registry = CollectorRegistry()
    registry.register(collector)
    return bytes(generate_latest(registry))


def _joined(texts: Iterable[bytes]) -> bytes:
    """Return several expositions as one: a family's head stands once, before the samples of all."""
    families: dict[str, list[str]] = {}
    for text in texts:
        lines: list[str] = []
        for line in text.decode().splitlines():
            if line.startswith("# HELP "):
                name = line.split(" ", 3)[2]
                is_new = name not in families
                lines = families.setdefault(name, [])
                if is_new:
                    lines.append(line)
            elif not line.startswith("# TYPE ") or len(lines) == 1:
                lines.append(line)
    return "".join(f"{line}\n" for lines in families.values() for line in lines).encode()


async def _of_sibling(path: str) -> bytes:
    """Return another worker's metrics; nothing if it does not answer in time."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_SIBLING_SECONDS):
            reader, writer = await asyncio.open_unix_connection(path)
            try:
                return await reader.read()
            finally:
                writer.close()
    return b""


def _of_rows() -> list[Metric]:
    """Return the database's metrics, once for all workers and machines."""
    return [*_sealing(), *(each for part in declared(RowMetrics) for each in loaded(part.function)())]


def _sealing() -> list[Metric]:
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
        GaugeMetricFamily(name, words, value)
        for name, words, value in (
            ("mcphub_audit_unsealed_rows", "Rows of the audit that are not sealed yet, about.", float(waiting)),
            (
                "mcphub_audit_seal_lag_seconds",
                "Since the last block was sealed, while rows wait; else 0.",
                max(0.0, age),
            ),
            ("mcphub_audit_verified_seconds", "When the audit was verified last, as Unix time; 0: never.", verified),
            ("mcphub_audit_blocks", "Blocks of the audit.", float(last.number + 1 if last is not None else 0)),
        )
    ]
