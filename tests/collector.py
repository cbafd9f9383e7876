"""A collector of traces: OTLP over HTTP on a real socket, decoded by OpenTelemetry's own messages."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

KINDS = {Span.SPAN_KIND_SERVER: "server", Span.SPAN_KIND_CLIENT: "client", Span.SPAN_KIND_INTERNAL: "internal"}


class Collector:
    """Enter it: it takes what is sent. `status` is what it answers; while `hangs` is set, it answers nothing.

    `unknown` are paths that it does not have, as backends have none for metrics that take traces alone.
    """

    def __init__(self, port: int = 0) -> None:
        self.spans: list[dict[str, Any]] = []
        self.durations: dict[str, list[dict[str, Any]]] = {}
        """Name of a histogram -> its points, as they came last."""
        self.status = 200
        self.unknown: set[str] = set()
        self.goes_on = threading.Event()
        """Cleared, the collector takes a request and answers when it is set again."""
        self.goes_on.set()
        self.asked = 0
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.asked += 1
                collector.goes_on.wait()
                status = 405 if self.path in collector.unknown else collector.status
                if status == 200:
                    collector.take(self.path, body)
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Collector:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.goes_on.set()
        self._server.shutdown()
        self._server.server_close()

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                resource = _plain(of_resource.resource.attributes)
                for scope in of_resource.scope_spans:
                    self.spans += [_span(each, resource) for each in scope.spans]
        elif path == "/v1/metrics":
            for measured in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope in measured.scope_metrics:
                    for metric in scope.metrics:
                        self.durations[metric.name] = [
                            {
                                "count": point.count,
                                "bounds": list(point.explicit_bounds),
                                "unit": metric.unit,
                                **_plain(point.attributes),
                            }
                            for point in metric.histogram.data_points
                        ]

    def of(self, trace_id: str) -> list[dict[str, Any]]:
        return [span for span in list(self.spans) if span["trace"] == trace_id]


def _span(span: Span, resource: dict[str, Any]) -> dict[str, Any]:
    return {
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "name": span.name,
        "kind": KINDS[span.kind],
        "failed": span.status.code == 2,
        "links": [link.trace_id.hex() for link in span.links],
        "state": span.trace_state,
        "attributes": _plain(span.attributes),
        "resource": resource,
    }


def _plain(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
