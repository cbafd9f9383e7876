"""Rows of the audit, made the way the ledger writes them, and ways to look at what became of them."""

from __future__ import annotations

import io
import time
from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from invocations.chain import checking, exporting, retention, service
from invocations.chain.models import AuditPolicy
from invocations.chain.records import RowSelection
from invocations.chain.sealer import Sealer
from invocations.chain.verifier import Verifier, loads
from invocations.ledger import statements
from invocations.ledger.records import new_invocation_id
from sessions_app.history import events
from sessions_app.kit.database import Dedicated


def envelope(database: Dedicated, id_: str, tool: str = "echo", **more: Any) -> tuple[Any, ...]:
    values = {
        "invocation_id": id_,
        "session_id": "session",
        "process_id": "process",
        "request_id": "7",
        "method": "tools/call",
        "params": f'{{"arguments":{{"text":"hi é"}},"name":"{tool}"}}',
        "tool_name": tool,
        "tool_version": "1",
        "tool_digest": "0" * 64,
        "principal": "key:1",
        "context": '{"client_name":"client"}',
        "received_at": database.timestamp(time.time()),
        **more,
    }
    return tuple(values[name] for name in statements.ENVELOPE.columns)


def invocation(database: Dedicated, id_: str, tool: str = "echo", failed: bool = False, **more: Any) -> tuple[Any, ...]:
    now = database.timestamp(time.time())
    values: dict[str, Any] = {
        "invocation_id": id_,
        "session_id": "session",
        "process_id": "process",
        "request_id": "7",
        "tool_name": tool,
        "tool_version": "1",
        "tool_digest": "0" * 64,
        "arguments": '{"text":"hi é"}',
        "arguments_digest": "0" * 64,
        "status": "ok",
        "result": '{"content":[{"text":"hi é","type":"text"}]}',
        "error_code": "",
        "received_at": now,
        "started_at": now,
        "finished_at": now,
        "duration_ms": 5,
        "duplicate_of": "",
        "occurrences": 1,
        "transport": "streamable-http",
        "protocol_version": "2025-06-18",
        "principal": "key:1",
        "caller_label": "label\u202e",
        "client_name": "client",
        "client_version": "1",
        "client_address": "127.0.0.1",
        "trace_id": "",
    }
    if failed:
        values |= {
            "status": "error",
            "result": None,
            "error": '{"code":-31033,"message":"No \\u0000","data":{}}',
            "error_code": "execution_error",
            "jsonrpc_code": -31033,
            "retryable": True,
            "continues": "first",
            "turn_id": "turn",
            "tool_call_id": "call_1",
            "turn_round": 2,
        }
    values |= more
    return tuple(values.get(name) for name in statements.INVOCATION.columns)


def ledger() -> Dedicated:
    """A connection as the ledger's writer has it."""
    return Dedicated(lambda raw, is_sqlite: statements.prepare(raw, is_sqlite, 20) and None)


def fill(database: Dedicated, calls: int = 5, tool: str = "echo") -> list[str]:
    """Record calls, every third of them failed; give their ids."""
    ids = [new_invocation_id() for _ in range(calls)]
    own = ledger()
    try:
        with own.transaction():
            statements.insert(own, statements.ENVELOPE, [envelope(database, id_, tool) for id_ in ids])
            rows = [invocation(database, id_, tool, failed=at % 3 == 2) for at, id_ in enumerate(ids)]
            statements.insert(own, statements.INVOCATION, rows)
    finally:
        own.close()
    return ids


def event(kind: str = "tool.changed") -> Any:
    return events.record(
        kind, actor=events.Actor("user:1"), label="echo", before={"enabled": True}, after={"enabled": False}
    )


def verify(log: Any, keys: Any, checkpoints: Any = ()) -> Any:
    return checking.verify(log, keys, keys.publics(), checkpoints)


def exported(log: Any, keys: Any, **filters: str) -> list[dict[str, Any]]:
    out = io.BytesIO()
    exporting.write_jsonl(out, log, keys, RowSelection(**filters))
    return [loads(line) for line in out.getvalue().splitlines()]


def check(records: list[dict[str, Any]], keys: Any, checkpoints: Any = ()) -> Any:
    verifier = Verifier(keys.publics(), checkpoints)
    for record in records:
        verifier.feed(record)
    return verifier.finish()


def retain(**days: int) -> None:
    """Seal what there is as of forty days ago, and apply a policy of so many days once."""
    log, keys = service.log_on(connection), service.keys()
    Sealer(log, keys, now=lambda: timezone.now() - timedelta(days=40)).seal()
    AuditPolicy(**days).save()
    try:
        retention.apply(log, keys)
    finally:
        AuditPolicy().save()
