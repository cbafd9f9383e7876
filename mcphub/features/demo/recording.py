"""Writes the invented calls of `history.py` as the ledger writes rows, with their sessions, for the hub to seal."""

from __future__ import annotations

import hashlib
import json as plain
import random
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction

from invocations.columns import ENVELOPE, INVOCATION, AuditTable
from mcphub.features.demo.history import READS, DemoCaller, PastCall
from mcphub.features.demo.serving import BROKEN
from sessions_app.models import ApiKey, McpSession, ServerProcess
from sessions_app.protocol import json
from tools_catalog.models import McpToolDefinition

PROCESS: Final = "demo-history"
_JSONRPC: Final = {"upstream_error": -31032, "invalid_arguments": -32602, "timeout": -31012}
_MESSAGES: Final = {
    "upstream_error": f"The service answered with status 502: {plain.dumps({'error': BROKEN})}",
    "invalid_arguments": "The arguments do not match the tool's input schema.",
    "timeout": "The tool did not answer within 30 s.",
}


def write(calls: Iterable[PastCall], keys: Mapping[str, ApiKey], moment: datetime) -> int:
    """Append the calls and return their number. `keys` by holder; `moment` is that of the demo."""
    tools = McpToolDefinition.objects.in_bulk(field_name="name")
    lots = random.Random(11)  # noqa: S311 - the same demo each time
    sessions: dict[tuple[str, str], McpSession] = {}
    envelopes, invocations = [], []
    for call in calls:
        session = _session(sessions, call, keys[call.caller.holder], lots)
        row = _row(call, session, keys[call.caller.holder], tools[call.tool], lots)
        invocations.append(_values(INVOCATION, row))
        if call.tool not in READS and call.error != "invalid_arguments":
            params = json.canonical({"arguments": call.arguments, "name": call.tool})
            envelopes.append(_values(ENVELOPE, row | {"method": "tools/call", "params": params, "context": "{}"}))
    with transaction.atomic():
        ServerProcess.objects.create(
            process_id=PROCESS,
            version="1.0.0",
            status=ServerProcess.Status.STOPPED,
            host="demo",
            pid=1,
            started_at=moment - timedelta(days=31),
            last_seen_at=moment,
            stopped_at=moment,
        )
        McpSession.objects.bulk_create(sessions.values(), batch_size=500)
        for table, rows in ((ENVELOPE, envelopes), (INVOCATION, invocations)):
            names = [column.name for column in table.written]
            places = ", ".join(["%s"] * len(names))
            statement = f"INSERT INTO {table.table} ({', '.join(names)}) VALUES ({places})"  # noqa: S608 - our own names
            with connection.cursor() as cursor:
                cursor.executemany(statement, rows)
    return len(invocations)


def _session(
    sessions: dict[tuple[str, str], McpSession], call: PastCall, key: ApiKey, lots: random.Random
) -> McpSession:
    """Return the session of a caller's day, which lasts as long as its calls."""
    at, ended = call.received_at, call.received_at + timedelta(milliseconds=call.milliseconds)
    caller = call.caller
    found = sessions.get((caller.holder, f"{at:%Y-%m-%d}"))
    if found is None:
        found = sessions[caller.holder, f"{at:%Y-%m-%d}"] = McpSession(
            session_id=f"{lots.getrandbits(128):032x}",
            transport=caller.transport,
            state=McpSession.State.CLOSED,
            protocol_version=caller.revision,
            client_name=caller.program,
            client_version=caller.version,
            principal=key.principal,
            caller_label=key.caller_label,
            created_at=at,
            initialized_at=at,
            end_reason="closed by the client",
        )
    found.created_at = found.initialized_at = min(found.created_at, at)
    found.last_activity_at = found.ended_at = max(found.last_activity_at if found.ended_at else ended, ended)
    return found


def _row(
    call: PastCall, session: McpSession, key: ApiKey, tool: McpToolDefinition, lots: random.Random
) -> dict[str, Any]:
    """Return the columns of a call that are not blank."""
    received, caller = call.received_at, call.caller
    arguments = json.canonical(call.arguments)
    identity = str(
        uuid.UUID(int=int(received.timestamp() * 1000) << 80 | 0x7 << 76 | 0b10 << 62 | lots.getrandbits(62))
    )
    row: dict[str, Any] = {
        "invocation_id": identity,
        "session_id": session.session_id,
        "process_id": PROCESS,
        "request_id": str(lots.randint(1, 900)),
        "tool_name": tool.name,
        "tool_version": str(tool.version),
        "tool_digest": tool.digest(),
        "arguments": arguments,
        "arguments_digest": hashlib.sha256(arguments.encode()).hexdigest(),
        "status": "error" if call.error else "ok",
        "error_code": call.error,
        "received_at": _moment(received),
        "started_at": _moment(received),
        "finished_at": _moment(received + timedelta(milliseconds=call.milliseconds)),
        "duration_ms": call.milliseconds,
        "occurrences": 1,
        "transport": caller.transport,
        "protocol_version": caller.revision,
        "principal": key.principal,
        "caller_label": key.caller_label,
        "client_name": caller.program,
        "client_version": caller.version,
        "client_address": _address(caller),
        "workspace": caller.workspace or None,
        "connection": "tracker" if tool.backend == "upstream" else None,
    }
    if not call.error:
        return row | {"result": json.canonical({"content": [{"text": call.text, "type": "text"}]})}
    data = {"errorCode": call.error, "invocationId": identity, "retryable": False}
    error = {"code": _JSONRPC[call.error], "data": data, "message": _MESSAGES[call.error]}
    return row | {"error": json.canonical(error), "jsonrpc_code": _JSONRPC[call.error], "retryable": False}


def _values(table: AuditTable, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(column.name, None if column.is_optional else "") for column in table.written)


def _moment(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")


def _address(caller: DemoCaller) -> str:
    return f"10.20.{len(caller.holder)}.{len(caller.program)}"
