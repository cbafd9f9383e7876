"""Traces and durations to a collector by OTLP over HTTP, with OpenTelemetry's SDK (the extra `mcphub[otel]`).

Threads of the SDK send; a call only queues. A collector that is away or hangs costs spans, which are counted and
logged once. Headers, certificates and the resource come from OpenTelemetry's own OTEL_* variables.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import re
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.utils.translation import gettext_noop

from invocations.ledger.counting import BUCKETS
from sessions_app.kit import tracing
from sessions_app.kit.tracing import Attribute, Kind, TraceContext

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.sampling import Sampler
    from opentelemetry.trace import Span

logger = logging.getLogger(__name__)

MEND: Final = gettext_noop("Run `pip install 'mcphub[otel]'`, or unset MCPHUB_OTLP_ENDPOINT.")
MISSING: Final = f"MCPHUB_OTLP_ENDPOINT is set, and OpenTelemetry's SDK is not installed. {MEND}"
QUEUE: Final = 4096
"""Spans that wait to be sent; beyond it they are lost."""
BATCH: Final = 512
SEND_SECONDS: Final = 5
_EVERY_SECONDS: Final = 2
_DURATIONS_EVERY_SECONDS: Final = 30
_STOP_SECONDS: Final = 3
_LONGEST_ATTRIBUTE: Final = 16 * 1024
_SCOPE: Final = "mcphub"
_NO_SUCH_ADDRESS: Final = re.compile(r"\bcode: (404|405|501)\b")
"""The exporters' log text for a backend that does not accept this kind of data."""


class SpanDeliveries:
    """The delivery state of data for the collector. Written by the SDK's threads."""

    def __init__(self) -> None:
        self.ended = self.sent = self.lost = 0
        self.failing: str | None = None
        """Why the last batch did not arrive; None while all is well."""
        self._lock = threading.Lock()
        self._takes_durations = True

    def take(self) -> bool:
        """Count a span that ended; False where it has no place any more."""
        with self._lock:
            self.ended += 1
            if self.ended - self.sent - self.lost > QUEUE:
                self.lost += 1
                return False
            return True

    def arrived(self, spans: int) -> None:
        with self._lock:
            self.sent += spans
            was, self.failing = self.failing, None
        if was is not None:
            logger.warning("The collector of traces takes what is sent again")

    def failed(self, spans: int, why: str) -> None:
        with self._lock:
            self.lost += spans
            was, self.failing = self.failing, why
        if was is None:
            logger.warning(
                "The collector of traces at %s takes nothing: %s. Calls go on; spans are lost until it does.",
                settings.MCPHUB_OTLP_ENDPOINT,
                why,
            )

    def durations_failed(self, why: str) -> None:
        """Note undelivered durations; for the many backends that accept traces alone, logged once."""
        if not _NO_SUCH_ADDRESS.search(why):
            self.failed(0, why)
        elif self._takes_durations:
            self._takes_durations = False
            logger.warning(
                "What takes traces at %s takes no metrics: %s. Traces are sent; durations are in /metrics alone.",
                settings.MCPHUB_OTLP_ENDPOINT,
                why,
            )


class Telemetry:
    """One a process. Without MCPHUB_OTLP_ENDPOINT it does nothing."""

    def __init__(self) -> None:
        self.deliveries: SpanDeliveries | None = None
        """None where nothing is sent."""
        self._ends: list[Callable[[], object]] = []

    def start(self, process_id: str) -> None:
        if not settings.MCPHUB_OTLP_ENDPOINT:
            return
        if not is_installed():
            raise RuntimeError(MISSING)
        self.deliveries = SpanDeliveries()
        recorder, self._ends = _sdk(self.deliveries, process_id)
        tracing.record_with(recorder)

    async def stop(self) -> None:
        """Send waiting data, for a few seconds at most."""
        tracing.record_with(None)
        ends, self._ends = self._ends, []
        if not ends:
            return
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def end() -> None:
            for each in ends:
                try:
                    each()
                except Exception as error:
                    logger.warning("The last traces were not sent: %s", type(error).__name__)
            with contextlib.suppress(RuntimeError):  # the loop has ended, as nobody waited so long
                loop.call_soon_threadsafe(done.set)

        # A daemon, or the process would wait for a collector that hangs.
        threading.Thread(target=end, daemon=True, name="mcphub-telemetry-end").start()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await done.wait()
        except TimeoutError:
            logger.warning("The collector of traces did not take the last spans in time; they are lost")


def is_installed() -> bool:
    try:
        import opentelemetry.exporter.otlp.proto.http
        import opentelemetry.sdk.trace
    except ImportError:
        return False
    return bool(opentelemetry.sdk.trace and opentelemetry.exporter.otlp.proto.http)


def unreachable() -> str:
    """Send the collector an empty message, and return the reason if it was not accepted; empty otherwise. For `mcphub
    doctor`.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    words = _LastWords("trace")
    exporter = OTLPSpanExporter(endpoint=_endpoint("traces"), timeout=SEND_SECONDS)
    try:
        return "" if exporter.export([]) is SpanExportResult.SUCCESS else words.said
    finally:
        words.close()
        exporter.shutdown()  # type: ignore[no-untyped-call]


def _endpoint(signal: str) -> str:
    return f"{settings.MCPHUB_OTLP_ENDPOINT.rstrip('/')}/v1/{signal}"


class _LastWords(logging.Handler):
    """Keeps an exporter's last log message, the only place of its reason for a failure. It goes to no log by itself."""

    def __init__(self, signal: str) -> None:
        super().__init__(logging.WARNING)
        self.said = "no answer"
        self._exporter = f"{signal}_exporter"
        self._loggers = [logging.getLogger(name) for name in ("opentelemetry.exporter", "opentelemetry.sdk")]
        for each in self._loggers:
            each.addHandler(self)
            each.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("opentelemetry.exporter") and self._exporter in record.name:
            self.said = record.getMessage().partition("\n")[0][:300]

    def close(self) -> None:
        for each in self._loggers:
            each.removeHandler(self)
        super().close()


def _sampler() -> Sampler:
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, TraceIdRatioBased

    # Traces that the hub begins are drawn before the SDK is asked, whose refusal of one costs 20 µs.
    if settings.MCPHUB_TRACE_FOLLOW_CLIENTS:
        return ParentBased(ALWAYS_ON)
    share = TraceIdRatioBased(settings.MCPHUB_TRACE_SHARE)
    return ParentBased(ALWAYS_ON, remote_parent_sampled=share, remote_parent_not_sampled=share)


def _sdk(deliveries: SpanDeliveries, process_id: str) -> tuple[tracing.Recorder, list[Callable[[], object]]]:
    """Return a recorder by OpenTelemetry's SDK, and its shutdown function."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    words, words_on_durations = _LastWords("trace"), _LastWords("metric")
    resource = Resource.create({"service.version": settings.MCPHUB_VERSION, "service.instance.id": process_id})
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):  # OTEL_SERVICE_NAME is not set
        resource = resource.merge(Resource({"service.name": "mcphub"}))

    class CountedSpans(SpanExporter):
        def __init__(self) -> None:
            self._exporter = OTLPSpanExporter(endpoint=_endpoint("traces"), timeout=SEND_SECONDS)

        def export(self, spans: Any) -> SpanExportResult:
            result = self._exporter.export(spans)
            if result is SpanExportResult.SUCCESS:
                deliveries.arrived(len(spans))
            else:
                deliveries.failed(len(spans), words.said)
            return result

        def shutdown(self) -> None:
            self._exporter.shutdown()  # type: ignore[no-untyped-call]

    class BoundedQueue(BatchSpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            if deliveries.take():
                super().on_end(span)

    class CountedDurations(OTLPMetricExporter):
        def export(self, *given: Any, **named: Any) -> MetricExportResult:
            result = super().export(*given, **named)
            if result is MetricExportResult.SUCCESS:
                deliveries.arrived(0)
            else:
                deliveries.durations_failed(words_on_durations.said)
            return result

    tracer_provider = TracerProvider(
        sampler=_sampler(),
        resource=resource,
        shutdown_on_exit=False,
        span_limits=SpanLimits(max_attribute_length=_LONGEST_ATTRIBUTE, max_links=1),
    )
    tracer_provider.add_span_processor(
        BoundedQueue(
            CountedSpans(),
            max_queue_size=QUEUE + BATCH,
            max_export_batch_size=BATCH,
            schedule_delay_millis=_EVERY_SECONDS * 1000,
        )
    )
    reader = PeriodicExportingMetricReader(
        CountedDurations(endpoint=_endpoint("metrics"), timeout=SEND_SECONDS),
        export_interval_millis=_DURATIONS_EVERY_SECONDS * 1000,
        export_timeout_millis=SEND_SECONDS * 1000,
    )
    meter_provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    recorder = _SdkRecorder(tracer_provider.get_tracer(_SCOPE), meter_provider.get_meter(_SCOPE))
    return recorder, [tracer_provider.shutdown, meter_provider.shutdown, words.close, words_on_durations.close]


class _SdkRecorder(tracing.Recorder):
    def __init__(self, tracer: Any, meter: Any) -> None:
        from opentelemetry import context, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.holds_bodies = settings.MCPHUB_TRACE_BODIES
        self._share: float = settings.MCPHUB_TRACE_SHARE
        self._follows = settings.MCPHUB_TRACE_FOLLOW_CLIENTS
        self._tracer = tracer
        self._trace = trace
        self._empty = context.Context()
        """A library's additions to a task's context are not taken for the hub's own."""
        self._read = TraceContextTextMapPropagator().extract
        self._kinds = {
            "server": trace.SpanKind.SERVER,
            "client": trace.SpanKind.CLIENT,
            "internal": trace.SpanKind.INTERNAL,
        }
        self._operations, self._sessions = (
            {
                kind: meter.create_histogram(
                    f"mcp.{kind}.{what}.duration",
                    "s",
                    f"How long {words} took, seen from the {kind}.",
                    explicit_bucket_boundaries_advisory=BUCKETS,
                )
                for kind in ("server", "client")
            }
            for what, words in (("operation", "requests of MCP"), ("session", "sessions of MCP"))
        )

    def begin(
        self,
        name: str,
        kind: Kind,
        attributes: Mapping[str, Attribute],
        *,
        under: Span | TraceContext | None,
        link: TraceContext | None = None,
    ) -> Span | None:
        if under is None and random.random() >= self._share:  # noqa: S311 - which traces are kept is no secret
            return None
        if isinstance(under, TraceContext) and self._follows and not under.is_sampled:
            return None
        trace = self._trace
        links: tuple[Any, ...] = ()
        if isinstance(under, TraceContext):
            context = self._extracted(under)
        else:
            context = trace.set_span_in_context(under or trace.INVALID_SPAN, self._empty)
        if link is not None:
            links = (trace.Link(trace.get_current_span(self._extracted(link)).get_span_context()),)
        found = self._tracer.start_span(name, context, self._kinds[kind], attributes, links)
        return found if found.is_recording() else None

    def took(self, kind: Kind, seconds: float, labels: Mapping[str, Attribute]) -> None:
        self._operations[kind].record(seconds, labels, self._empty)

    def session_took(self, kind: Kind, seconds: float, labels: Mapping[str, Attribute]) -> None:
        self._sessions[kind].record(seconds, labels, self._empty)

    def _extracted(self, given: TraceContext) -> Any:
        carrier = {"traceparent": given.parent, **({"tracestate": given.state} if given.state else {})}
        return self._read(carrier, self._empty)
