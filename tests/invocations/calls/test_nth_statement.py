"""Fail the first statement of the ledger, the second, and so on until a call meets no failure (SQLite's method).

At each point: every effect has its envelope, every envelope its one outcome once the database is back, and an
answer was given only for what is on record.
"""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async

from invocations.calling import CallResult
from sessions_app.caller import Caller
from sessions_app.protocol.errors import AuditUnavailable
from tests.invocations.calls.call_path import CALLER, CallPath, Script, envelopes, invocations, live_session, run, tool
from tests.invocations.calls.flaky import Plan
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("transactional_db")

LIMITED = Caller(principal="key:1", label="", scopes=CALLER.scopes, calls_per_minute=1000)


@pytest.mark.parametrize("read_only", [False, True], ids=["acting", "read-only"])
@pytest.mark.parametrize("for_good", [False, True], ids=["once", "for good"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_invariants_hold_whichever_statement_fails(after, for_good, read_only):
    nth = 0
    while True:
        nth += 1
        plan = Plan(nth, after=after, for_good=for_good)
        _one_call(plan, read_only=read_only)
        if not plan.failed:
            break
    assert nth > 5


def _one_call(plan: Plan, *, read_only: bool) -> None:
    session = live_session()

    async def scenario():
        script = Script()
        answer = None
        before = {row.invocation_id for row in await envelopes()}, {row.invocation_id for row in await invocations()}
        async with CallPath(tool(script, read_only=read_only), connect=plan.connect) as call_path:
            try:
                answer = await call_path.call(session=session, request_id=1, caller=LIMITED)
            except AuditUnavailable as error:
                told = error.invocation_id
            if answer is not None:
                assert answer.invocation_id in {row.invocation_id for row in await invocations()}
            elif not told:
                assert read_only or script.effects == []
            plan.heal()
            # Who was told that nothing ran may use the same id again, and then it does run.
            is_unused = answer is None and not told
            again = await _answered(call_path, session=session, request_id=1 if is_unused else 2, caller=LIMITED)
            assert not again.is_error
            assert not again.duplicate_of

            async def settled():
                new = {row.invocation_id for row in await invocations()} - before[1]
                return {row.invocation_id for row in await envelopes()} - before[0] <= new and len(new) >= expected

            # A call that was refused before it ran may or may not have left a row of its own.
            expected = 1 + (answer is not None or (bool(script.effects[1:]) and bool(told)))
            await until(settled)
        rows = [row for row in await invocations() if row.invocation_id not in before[1]]
        written = [row.invocation_id for row in await envelopes() if row.invocation_id not in before[0]]
        assert len({row.invocation_id for row in rows}) == len(rows)
        if not read_only:
            ran = {context.invocation_id for context in script.contexts}
            assert ran <= set(written)
            assert all(row.status == "ok" for row in rows if row.invocation_id in ran)
            assert {row.error_code for row in rows if row.invocation_id not in ran} <= {"audit_unavailable"}

    run(scenario)


async def _answered(call_path: CallPath, **call: Any) -> CallResult:
    """Call until the hub can record it: what failed before may still be written."""
    found = []

    async def told():
        try:
            found.append(await call_path.call(**call))
        except AuditUnavailable:
            return False
        return True

    await until(told)
    return found[0]


def test_session_that_ends_between_two_statements_is_noticed_in_the_next_call():
    from sessions_app.protocol.errors import SessionNotFound
    from sessions_app.protocol.lifecycle import SessionEvent
    from sessions_app.store import end

    session = live_session()

    async def scenario():
        script = Script()
        async with CallPath(tool(script)) as call_path:
            await call_path.call(session=session, request_id=1)
            await sync_to_async(end)([session], SessionEvent.EXPIRE, "test")
            with pytest.raises(SessionNotFound):
                await call_path.call(session=session, request_id=1)
        assert len(script.effects) == 1

    run(scenario)
