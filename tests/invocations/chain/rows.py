"""Rows of the audit, made the way the ledger writes them, and ways to look at what became of them."""

from __future__ import annotations

import io
import time
from typing import Any

from invocations import statements
from invocations.chain import checking, events, exporting
from invocations.chain.records import Selection
from invocations.chain.verifier import Verifier, loads
from invocations.records import new_invocation_id
from sessions_app.database import Dedicated


def envelope(database: Dedicated, id_: str, tool: str = "echo") -> tuple[Any, ...]:
    return (
        id_, "session", "process", "7", "tools/call", f'{{"arguments":{{"text":"hi é"}},"name":"{tool}"}}', tool, "1",
        "0" * 64, "key:1", '{"client_name":"client"}', database.timestamp(time.time()),
    )  # fmt: skip


def invocation(database: Dedicated, id_: str, tool: str = "echo", failed: bool = False) -> tuple[Any, ...]:
    now = database.timestamp(time.time())
    outcome = (
        ("error", None, '{"code":-31033,"message":"No \\u0000","data":{}}', "execution_error", -31033, True)
        if failed
        else ("ok", '{"content":[{"text":"hi é","type":"text"}]}', None, "", None, None)
    )
    status, result, error, code, number, retryable = outcome
    return (
        id_, "session", "process", "7", tool, "1", "0" * 64, '{"text":"hi é"}', "0" * 64, status, result, error, code,
        number, retryable, now, now, now, 5, "", 1, None, None, "streamable-http", "2025-06-18", "key:1", "label\u202e",
        "client", "1", "127.0.0.1", "", "first" if failed else None,
        *(("turn", "call_1", 2) if failed else (None, None, None)), None,
    )  # fmt: skip


def ledger() -> Dedicated:
    """A connection as the ledger's writer has it."""
    return Dedicated(lambda raw, is_sqlite: statements.prepare(raw, is_sqlite, 20) and None)


def fill(database: Dedicated, calls: int = 5, tool: str = "echo") -> list[str]:
    """Record calls, every third of them failed; give their ids."""
    ids = [new_invocation_id() for _ in range(calls)]
    own = ledger()
    try:
        with statements.transaction(own):
            statements.insert(own, statements.ENVELOPE, [envelope(database, id_, tool) for id_ in ids])
            rows = [invocation(database, id_, tool, failed=at % 3 == 2) for at, id_ in enumerate(ids)]
            statements.insert(own, statements.INVOCATION, rows)
    finally:
        own.close()
    return ids


def event(kind: str = "tool.changed") -> Any:
    return events.record(kind, actor="user:1", label="echo", before={"enabled": True}, after={"enabled": False})


def verify(log: Any, keys: Any, checkpoints: Any = ()) -> Any:
    return checking.verify(log, keys, keys.publics(), checkpoints)


def exported(log: Any, keys: Any, **filters: str) -> list[dict[str, Any]]:
    out = io.BytesIO()
    exporting.write_jsonl(out, log, keys, Selection(**filters))
    return [loads(line) for line in out.getvalue().splitlines()]


def check(records: list[dict[str, Any]], keys: Any, checkpoints: Any = ()) -> Any:
    verifier = Verifier(keys.publics(), checkpoints)
    for record in records:
        verifier.feed(record)
    return verifier.finish()
