"""No audit, no side effect; no recorded outcome, no answer; and what is owed is paid when the database returns."""

from __future__ import annotations

import asyncio

import pytest
from asgiref.sync import sync_to_async

from invocations.ledger.records import Outcome, Touch
from invocations.ledger.writer import Ledger
from sessions_app.protocol.errors import AuditUnavailable, ToolNotFound
from tests.invocations.calls.call_path import (
    SAID,
    CallPath,
    Held,
    Script,
    envelopes,
    invocations,
    live_session,
    only_invocation,
    run,
    source,
    tool,
)
from tests.invocations.calls.flaky import Lock, Plan
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture
def short_bound(patient_ledger, settings):
    """For waits that a lock makes last as long as the bound. Commits beside them must keep to it on a busy machine."""
    settings.MCPHUB_LEDGER_TIMEOUT_SECONDS = 3


of_lock = pytest.mark.usefixtures("short_bound")


async def held_by(lock):
    await sync_to_async(lock.take)()
    return lock


async def released(lock):
    await sync_to_async(lock.release)()


async def paired():
    """Wait until each envelope has its one outcome; give the outcomes."""

    async def whole():
        rows = await invocations()
        return {row.invocation_id for row in await envelopes()} <= {row.invocation_id for row in rows}

    await until(whole)
    return await invocations()


@of_lock
def test_locked_database_keeps_the_tool_from_running_and_says_that_nothing_ran():
    async def scenario():
        script = Script()
        async with CallPath(tool(script)) as call_path:
            lock = await held_by(Lock())
            with pytest.raises(AuditUnavailable) as caught:
                await call_path.call()
            await released(lock)
            assert script.effects == []
            assert caught.value.message == AuditUnavailable.sentence
            assert not (await call_path.call()).is_error
            assert call_path.ledger.failing is None
        assert len(script.effects) == 1
        rows = await paired()
        assert {row.error_code for row in rows} <= {"", "audit_unavailable"}
        assert len(rows) == len(await envelopes())

    run(scenario)


@of_lock
def test_outcome_that_cannot_be_written_is_withheld_and_written_later():
    async def scenario():
        lock = Lock()

        async def play(arguments, context):
            await held_by(lock)
            return SAID

        async with CallPath(tool(Script(play))) as call_path:
            with pytest.raises(AuditUnavailable) as caught:
                await call_path.call()
            (envelope,) = await envelopes()
            assert caught.value.invocation_id == envelope.invocation_id
            assert "may have taken effect" in caught.value.message
            assert not await invocations()
            await released(lock)
            (row,) = await paired()
        assert (row.status, row.invocation_id) == ("ok", envelope.invocation_id)

    run(scenario)


@of_lock
def test_refusal_that_cannot_be_written_is_not_answered():
    async def scenario():
        async with CallPath() as call_path:
            lock = await held_by(Lock())
            with pytest.raises(AuditUnavailable):
                await call_path.call()
            await released(lock)
            await until(invocations)
        assert (await only_invocation()).error_code == "tool_not_found"

    run(scenario)


def test_failing_ledger_says_why_until_it_commits_again():
    async def scenario():
        plan = Plan(1, for_good=True)
        async with CallPath(tool(Script()), connect=plan.connect) as call_path:
            with pytest.raises(AuditUnavailable):
                await call_path.call()
            assert "the plan says so" in call_path.ledger.failing
            plan.heal()
            await call_path.call()
            assert call_path.ledger.failing is None
        assert len(await envelopes()) == 1

    run(scenario)


@of_lock
def test_full_queue_refuses_new_calls_and_takes_the_outcomes_of_old_ones(settings):
    settings.MCPHUB_LEDGER_QUEUE = 10

    async def scenario():
        script, held = Script(), Held()
        async with CallPath(tool(script), tool(held, "held")) as call_path:
            slow = call_path.start("held")
            await held.entered.wait()
            lock = await held_by(Lock())
            calls = [call_path.start() for _ in range(40)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            refused = [call for call in calls if call.done()]
            assert len(refused) >= 29
            assert all(type(call.exception()) is AuditUnavailable for call in refused)
            held.release.set()
            await asyncio.wait([slow, *calls])
            assert script.effects == []
            await released(lock)
            rows = await paired()
        assert [row.status for row in rows if row.invocation_id == held.contexts[0].invocation_id] == ["ok"]

    run(scenario)


@of_lock
def test_outcome_that_meets_a_full_queue_is_owed_and_said_to_be_unknown(settings):
    settings.MCPHUB_LEDGER_QUEUE = 10

    async def scenario():
        lock = Lock()

        async def play(arguments, context):
            await held_by(lock)
            for _ in range(40):
                await asyncio.sleep(0)
                try:
                    outcome = Outcome(refusal(call_path), "x")
                    outcomes.append(call_path.ledger.append(outcome))
                except AuditUnavailable:
                    break
            return SAID

        def refusal(call_path):
            from invocations.ledger.records import new_invocation_id

            rendered = {"code": 1, "message": "", "data": {"retryable": False}}
            return call_path.calls.rows.refusal(
                source(), "x", "{}", "0" * 64, None, 0, "server_error", rendered, invocation_id=new_invocation_id()
            )

        outcomes = []
        async with CallPath(tool(Script(play))) as call_path:
            with pytest.raises(AuditUnavailable) as caught:
                await call_path.call()
            assert "may have taken effect" in caught.value.message
            assert caught.value.invocation_id == (await envelopes())[0].invocation_id
            await asyncio.wait(outcomes)
            assert all(outcome.exception() for outcome in outcomes)
            await released(lock)
            assert caught.value.invocation_id in {row.invocation_id for row in await paired()}

    run(scenario)


def test_stopped_ledger_refuses_and_nothing_runs():
    async def scenario():
        script = Script()
        async with CallPath(tool(script), tool(script, "look", read_only=True)) as call_path:
            await call_path.ledger.stop()
            with pytest.raises(AuditUnavailable):
                await call_path.call()
            with pytest.raises(AuditUnavailable):
                await call_path.call("look")
            with pytest.raises(AuditUnavailable):
                await call_path.call("nobody")
        assert len(script.effects) == 1
        assert not await envelopes()

    run(scenario)


def test_stop_writes_what_is_queued_and_tells_who_still_waits():
    async def scenario():
        script = Script()
        async with CallPath(tool(script, read_only=True)) as call_path:
            calls = [call_path.start() for _ in range(5)]
            await asyncio.sleep(0)
            await call_path.ledger.stop()
            assert [call.is_error for call in await asyncio.gather(*calls)] == [False] * 5
        assert len(await invocations()) == 5

    run(scenario)


def test_stop_pays_what_is_owed():
    async def scenario():
        plan = Plan(0)

        async def play(arguments, context):
            plan.nth, plan.for_good = 1, True
            return SAID

        async with CallPath(tool(Script(play)), connect=plan.connect) as call_path:
            with pytest.raises(AuditUnavailable):
                await call_path.call()
            plan.heal()
        assert (await only_invocation()).status == "ok"

    run(scenario)


def test_stop_with_a_dead_database_ends_and_leaves_the_envelope_as_evidence():
    async def scenario():
        plan = Plan(0)

        async def play(arguments, context):
            plan.nth, plan.for_good = 1, True
            return SAID

        async with CallPath(tool(Script(play)), connect=plan.connect) as call_path:
            with pytest.raises(AuditUnavailable):
                await call_path.call()
        assert len(await envelopes()) == 1
        assert not await invocations()

    run(scenario)


@of_lock
def test_intent_that_was_committed_after_its_caller_was_refused_gets_its_outcome():
    async def scenario():
        script = Script()
        async with CallPath(tool(script)) as call_path:
            lock = await held_by(Lock())
            calls = [call_path.start() for _ in range(3)]
            await asyncio.wait(calls)
            await released(lock)
            await call_path.call()
            rows = await paired()
        assert len(script.effects) == 1
        assert sum(row.status == "ok" for row in rows) == 1
        assert len(rows) == len(await envelopes())

    run(scenario)


def test_poison_record_is_refused_alone_and_its_batch_is_written():
    async def scenario():
        script = Script()
        async with CallPath(tool(script)) as call_path:
            good = [call_path.start() for _ in range(5)]
            bad = []
            for spoilt in ({"session_id": None}, {"transport": ""}, {"jsonrpc_code": 10**30}, {"tool_name": "\ud800"}):
                rendered = {"code": 1, "message": "", "data": {"retryable": False}}
                row = list(
                    call_path.calls.rows.refusal(source(), "x", "{}", "0" * 64, None, 0, "server_error", rendered)
                )
                from invocations.ledger import statements

                for column, value in spoilt.items():
                    row[list(statements.INVOCATION.columns).index(column)] = value
                bad.append(call_path.ledger.append(Outcome(tuple(row), row[0])))
            await asyncio.wait([*good, *bad])
            assert all(type(record.exception()) is AuditUnavailable for record in bad)
            assert not any(call.result().is_error for call in good)
            assert call_path.ledger.failing is None
        assert len(await invocations()) == 5

    run(scenario)


def test_poison_among_what_is_owed_does_not_stop_the_rest():
    async def scenario():
        plan = Plan(1, for_good=True)
        async with CallPath(connect=plan.connect) as call_path:
            rendered = {"code": 1, "message": "", "data": {"retryable": False}}
            waits = []
            for transport in ("sse", "", "stdio"):
                row = list(
                    call_path.calls.rows.refusal(source(), "x", "{}", "0" * 64, None, 0, "server_error", rendered)
                )
                from invocations.ledger import statements

                row[list(statements.INVOCATION.columns).index("transport")] = transport
                waits.append(call_path.ledger.append(Outcome(tuple(row), row[0])))
            await asyncio.wait(waits)
            assert all(wait.exception() for wait in waits)
            plan.heal()

            async def both_there():
                return len(await invocations()) == 2

            await until(both_there)
        assert {row.transport for row in await invocations()} == {"sse", "stdio"}

    run(scenario)


def test_flood_whose_count_cannot_be_written_is_told_to_the_log(caplog):
    async def scenario():
        async with CallPath() as call_path:
            for _ in range(40):
                with pytest.raises(ToolNotFound):
                    await call_path.call()
            await call_path.ledger.stop()
        assert "10 refusals (tool_not_found) were counted and could not be recorded" in caplog.text

    run(scenario)


def test_interrupted_outcome_of_another_process_stands_and_the_answer_is_withheld():
    async def scenario():
        async def play(arguments, context):
            (envelope,) = await envelopes()

            def take_for_dead():
                from invocations.models import McpToolInvocation
                from tests.factories import McpToolInvocationFactory

                McpToolInvocationFactory.build()
                McpToolInvocation.objects.bulk_create(
                    [
                        McpToolInvocationFactory.build(
                            failed=True,
                            error_code="interrupted",
                            invocation_id=envelope.invocation_id,
                            session_id="s",
                            process_id="p",
                            session=None,
                            process=None,
                        )
                    ]
                )

            await sync_to_async(take_for_dead)()
            return SAID

        async with CallPath(tool(Script(play))) as call_path:
            with pytest.raises(AuditUnavailable) as caught:
                await call_path.call()
        row = await only_invocation()
        assert row.error_code == "interrupted"
        assert caught.value.invocation_id == row.invocation_id

    run(scenario)


def test_loop_that_was_closed_does_not_trouble_the_writer():
    async def begin():
        ledger.start()
        ledger.append(Touch(session))

    ledger, session = Ledger(), live_session()
    asyncio.run(begin())
    ledger._stopping = True
    ledger._wake.put(None)
    ledger._thread.join(PATIENCE_SECONDS)
    assert not ledger._thread.is_alive()


@pytest.mark.parametrize("level", ["durable", "not durable"])
def test_ledger_knows_whether_its_commits_survive_a_crash(level):
    from invocations.ledger import statements
    from sessions_app.kit.database import Dedicated

    database = Dedicated()
    raw = database.raw
    if level == "not durable":
        raw.execute("PRAGMA synchronous=NORMAL" if database.is_sqlite else "SET synchronous_commit = off")
    told = statements.prepare(raw, database.is_sqlite, 1)
    database.close()
    assert (told is None) == (level == "durable")
