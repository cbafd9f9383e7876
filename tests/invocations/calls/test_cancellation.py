"""Deadlines, cancellations and clients that go: whatever cuts a call short, its records are whole."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from channels.db import database_sync_to_async

from invocations.ledger.records import Intent
from sessions_app.protocol.lifecycle import SessionEvent
from sessions_app.store import end
from tests.invocations.calls.call_path import (
    CALLER,
    SAID,
    CallPath,
    Held,
    Script,
    envelopes,
    invocations,
    live_session,
    only_invocation,
    run,
    tool,
)

pytestmark = pytest.mark.usefixtures("transactional_db")


def test_call_over_its_deadline_is_stopped_and_says_that_it_may_take_effect():
    async def scenario():
        held = Held()
        async with CallPath(tool(held, timeout_seconds=0.1)) as call_path:
            answer = await call_path.call()
            assert asyncio.current_task().cancelling() == 0
        row = await only_invocation()
        assert answer.is_error
        assert (row.error_code, row.error["data"]["details"]) == ("timeout", {"timeout_seconds": 0.1})
        assert row.duration_ms >= 100

    run(scenario)


def test_hubs_ceiling_is_below_the_tools_own_deadline(settings):
    settings.MCPHUB_CALL_TIMEOUT_SECONDS = 0.1

    async def scenario():
        async with CallPath(tool(Held(), timeout_seconds=600)) as call_path:
            assert (await call_path.call()).is_error
        assert (await only_invocation()).error_code == "timeout"

    run(scenario)


def test_cancellation_by_the_client_stops_the_backend_and_is_recorded():
    async def scenario():
        held = Held()
        async with CallPath(tool(held)) as call_path:
            call = call_path.start(session=session, request_id="r")
            await held.entered.wait()
            assert not call_path.calls.running.cancel_request(session, '"other"')
            assert not call_path.calls.running.cancel_request("foreign", '"r"')
            assert call_path.calls.running.cancel_request(session, '"r"')
            answer = await call
            assert not call_path.calls.running.cancel_request(session, '"r"')
        assert answer.is_error
        assert (await only_invocation()).error_code == "cancelled"

    session = live_session()
    run(scenario)


def test_a_read_that_is_stopped_because_its_session_ended_is_recorded_as_cancelled():
    """Here the end of the session is written first."""

    async def scenario():
        held = Held()
        async with CallPath(tool(held, read_only=True)) as call_path:
            call = call_path.start(session=session, request_id=1)
            await held.entered.wait()
            await database_sync_to_async(end)([session], SessionEvent.CLOSE, "test")
            call_path.calls.running.cancel_of({CALLER.principal})
            answer = await call
        assert answer.is_error
        assert (await only_invocation()).error_code == "cancelled"

    session = live_session()
    run(scenario)


def test_cancellation_before_the_backend_runs_keeps_it_from_running():
    async def scenario():
        script = Script()
        async with CallPath(tool(script)) as call_path:
            call = call_path.start(session=session, request_id=1)
            await asyncio.sleep(0)
            assert not call_path.calls.running.cancel_request(session, "1")
            await call
        assert script.effects == []
        assert (await only_invocation()).error_code == "cancelled"
        assert len(await envelopes()) == 1

    session = live_session()
    run(scenario)


def test_backend_that_finishes_although_cancelled_is_believed():
    async def scenario():
        entered = asyncio.Event()

        async def play(arguments, context):
            entered.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return SAID

        async with CallPath(tool(Script(play))) as call_path:
            call = call_path.start(session=session, request_id=1)
            await entered.wait()
            call_path.calls.running.cancel_request(session, "1")
            assert not (await call).is_error
        assert (await only_invocation()).status == "ok"

    session = live_session()
    run(scenario)


def test_client_that_goes_cancels_where_the_door_watches_it():
    async def scenario():
        gone, held = asyncio.Event(), Held()
        async with CallPath(tool(held)) as call_path:
            call = call_path.start(watch=gone.wait)
            await held.entered.wait()
            gone.set()
            assert (await call).is_error
        assert (await only_invocation()).error_code == "cancelled"

    run(scenario)


def test_watcher_of_a_call_that_ends_is_ended_too():
    async def scenario():
        watched, ended, held = asyncio.Event(), asyncio.Event(), Held()

        async def watch():
            watched.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with CallPath(tool(held)) as call_path:
            call = call_path.start(watch=watch)
            await watched.wait()
            held.release.set()
            assert not (await call).is_error
            await ended.wait()

    run(scenario)


def test_door_that_gives_up_while_the_backend_runs_hears_of_it_after_the_record():
    async def scenario():
        held = Held()
        async with CallPath(tool(held)) as call_path:
            call = call_path.start()
            await held.entered.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert (await only_invocation()).error_code == "cancelled"

    run(scenario)


def test_door_that_gives_up_while_the_outcome_is_written_loses_nothing():
    async def scenario():
        async def play(arguments, context):
            asyncio.get_running_loop().call_soon(call.cancel)
            return SAID

        async with CallPath(tool(Script(play))) as call_path:
            call = call_path.start()
            with pytest.raises(asyncio.CancelledError):
                await call
        row = await only_invocation()
        assert (row.status, row.invocation_id) == ("ok", (await envelopes())[0].invocation_id)

    run(scenario)


@pytest.mark.parametrize("turns", range(12))
def test_door_that_gives_up_at_any_moment_leaves_each_intent_with_one_outcome(turns):
    """Every turn of the loop is another moment: before the commit, in the turn of its verdict, after."""

    async def scenario():
        script = Script()
        async with CallPath(tool(script)) as call_path:
            call = call_path.start()
            for _ in range(turns):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
        written = [row.invocation_id for row in await envelopes()]
        assert [row.invocation_id for row in await invocations()] == written
        assert len(script.effects) <= len(written)

    run(scenario)


def test_door_that_gives_up_in_the_turn_of_the_verdict_leaves_no_open_intent():
    async def scenario():
        script = Script()
        async with CallPath(tool(script)) as call_path:
            call = call_path.start()
            await asyncio.sleep(0)
            (intent,) = [record for record in call_path.ledger._waiting if type(record) is Intent]
            while not intent.future.done():  # noqa: ASYNC110 - an event would come a turn later
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert script.effects == []
        assert (await only_invocation()).error_code == "cancelled"
        assert len(await envelopes()) == 1

    run(scenario)


def test_backend_that_cancels_itself_is_recorded_as_cancelled_and_answered():
    async def scenario():
        async def play(arguments, context):
            raise asyncio.CancelledError

        async with CallPath(tool(Script(play))) as call_path:
            assert (await call_path.call()).is_error
        assert (await only_invocation()).error_code == "cancelled"

    run(scenario)


def test_call_that_is_cancelled_twice_is_cancelled_once():
    async def scenario():
        held = Held()
        async with CallPath(tool(held)) as call_path:
            call = call_path.start(session=session, request_id=1)
            await held.entered.wait()
            (running,) = call_path.calls.running._calls.values()
            running.cancel("timeout")
            running.cancel("cancelled")
            assert (await call).is_error
            assert call.cancelling() == 0
        assert (await only_invocation()).error_code == "timeout"

    session = live_session()
    run(scenario)


def test_watcher_that_never_returns_is_made_once():
    async def scenario():
        began, held, calls = [], Held(), []
        more = asyncio.Event()

        async def watch(number):
            began.append(number)
            more.set()
            await asyncio.Event().wait()

        async with CallPath(tool(held)) as call_path:
            for number in range(4):  # each later watcher is made in a later round of the supervisor
                more.clear()
                calls.append(call_path.start(watch=partial(watch, number)))
                await more.wait()
            held.release.set()
            await asyncio.gather(*calls)
        assert began == [0, 1, 2, 3]

    run(scenario)


def test_desk_that_never_started_stops():
    async def scenario():
        call_path = CallPath()
        await call_path.calls.stop()
        await call_path.ledger.stop()

    run(scenario)
