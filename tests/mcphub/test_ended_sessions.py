"""A session that has ended leaves nothing behind in the process that served it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from invocations.ledger.batches import Batches
from mcphub.server.exchange import session_source
from sessions_app.caller import Caller
from sessions_app.store import SessionView


def _caller() -> Caller:
    return Caller(principal="key:1", label="a", scopes=frozenset({"tools:call"}))


def _view(session_id: str) -> SessionView:
    return SessionView(
        session_id=session_id,
        principal="key:1",
        transport="streamable_http",
        initialized=True,
        protocol_version="2025-11-25",
        client_name="a",
        client_version="1",
        client_capabilities={},
        log_level="",
    )


def test_the_source_of_a_sessions_calls_goes_with_the_session() -> None:
    caller, session = _caller(), _view("one")
    source = session_source(session, caller, "192.0.2.1")
    assert session_source(session, caller, "192.0.2.1") is source
    assert session_source(session, caller, "192.0.2.2").client_address == "192.0.2.2"
    later = _caller()  # as the next snapshot of keys makes it
    assert session_source(session, later, "192.0.2.1").caller is later
    assert len(session.sources) == 1
    assert not caller.sources
    assert not later.sources


def test_the_ledger_forgets_when_it_saw_sessions_that_are_quiet() -> None:
    batches = Batches(lambda prepare: cast(Any, SimpleNamespace(is_sqlite=True)), 1.0)
    for second in range(10_000):
        batches._touched_now({f"session {second}"}, float(second))
    assert len(batches._touched) <= 1_000
    assert batches._stale({"session 0", "session 9999"}, 10_000.0) == {"session 0"}
