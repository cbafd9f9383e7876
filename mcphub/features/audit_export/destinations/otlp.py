"""Log records of OpenTelemetry over OTLP/HTTP with protobuf (the extra `mcphub[otel]`).

Only the messages of the protocol are used. The SDK's exporter drops records that it could not send in a minute,
without reporting it; here a delivery counts once the receiver has responded.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from mcphub.features.audit_export.reading import Shipment
from tools_catalog.egress.sending import HttpSender, NotDelivered

MISSING = "OTLP needs opentelemetry-proto, which is not installed here. Install mcphub[otel]."
_ATTRIBUTES = {
    "method": "mcp.method.name",
    "tool_name": "gen_ai.tool.name",
    "session_id": "mcp.session.id",
    "request_id": "jsonrpc.request.id",
    "protocol_version": "mcp.protocol.version",
    "error_code": "error.type",
    "client_address": "client.address",
    "principal": "mcphub.principal",
    "status": "mcphub.status",
    "invocation_id": "mcphub.invocation.id",
    "kind": "mcphub.event.kind",
    "actor": "mcphub.event.actor",
    "duration_ms": "mcphub.duration_ms",
}
"""Column -> attribute: the names of the semantic conventions where there are such."""


def is_there() -> bool:
    from importlib.util import find_spec

    try:
        return find_spec("opentelemetry.proto.collector.logs.v1.logs_service_pb2") is not None
    except ModuleNotFoundError:
        return False


class OtlpTarget:
    def __init__(self, sender: HttpSender, url: str, header: str, secret: str, version: str) -> None:
        self._sender, self._url, self._version = sender, url, version
        self._headers = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
        if secret:
            self._headers[header or "Authorization"] = secret

    def deliver(self, shipment: Shipment) -> int:
        """Return the number of records that the receiver rejected: they must not be sent again."""
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

        body = gzip.compress(request_of(shipment, self._version), 4)
        answer = self._sender.send("POST", self._url, self._headers, body)
        try:
            partial = ExportLogsServiceResponse.FromString(answer.body).partial_success
        except DecodeError:
            raise NotDelivered("its answer is none of OTLP over HTTP with protobuf") from None
        return int(partial.rejected_log_records)

    def close(self) -> None:
        self._sender.close()


def request_of(shipment: Shipment, version: str) -> bytes:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
    from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs, ScopeLogs
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource

    named = {"service.name": "mcphub", "service.version": version}
    resource = Resource(attributes=list(_pairs(named)))
    records = [_record(record, line) for record, line in shipment.records]
    scope = ScopeLogs(scope=InstrumentationScope(name="mcphub.audit", version=version), log_records=records)
    request = ExportLogsServiceRequest(resource_logs=[ResourceLogs(resource=resource, scope_logs=[scope])])
    return bytes(request.SerializeToString())


def _record(record: dict[str, Any], line: bytes) -> Any:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

    values = record.get("values", {})
    kind = next(name for name in ("row", "block", "tombstone", "export", "test") if name in record)
    is_bad = values.get("status") == "error" or "problem" in record
    attributes = {
        attribute: values[name] for name, attribute in _ATTRIBUTES.items() if values.get(name) not in (None, "")
    }
    for name in ("position", "hash"):
        if name in record:
            attributes[f"mcphub.audit.{name}"] = record[name]
    found = LogRecord(
        observed_time_unix_nano=time.time_ns(),
        severity_number=SeverityNumber.SEVERITY_NUMBER_WARN if is_bad else SeverityNumber.SEVERITY_NUMBER_INFO,
        severity_text="WARN" if is_bad else "INFO",
        event_name=f"mcphub.audit.{record['row'] if kind == 'row' else kind}",
        body=AnyValue(string_value=line.decode(errors="replace").rstrip("\n")),
        attributes=list(_pairs(attributes)),
    )
    if moment := values.get("finished_at") or values.get("received_at") or values.get("happened_at"):
        found.time_unix_nano = int(datetime.fromisoformat(moment).timestamp() * 1_000_000) * 1000
    trace = values.get("trace_id")
    if isinstance(trace, str) and len(trace) == 32 and set(trace) <= set("0123456789abcdef"):
        found.trace_id = bytes.fromhex(trace)
    return found


def _pairs(attributes: dict[str, Any]) -> Iterator[Any]:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

    for name, value in attributes.items():
        if isinstance(value, int):
            yield KeyValue(key=name, value=AnyValue(int_value=value))
        else:
            yield KeyValue(key=name, value=AnyValue(string_value=str(value).encode(errors="replace").decode()))
