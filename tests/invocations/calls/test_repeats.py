"""A request id that was used before in its session: one run, one answer, a row for each attempt."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from sessions_app.protocol.errors import AuditUnavailable, DuplicateRequest, InvalidParams, MissingClientCapability
from tests.invocations.calls.call_path import (
    CALLER,
    SAID,
    CallPath,
    Held,
    Script,
    envelopes,
    gives,
    invocations,
    live_session,
    run,
    tool,
)
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture
def session(transactional_db):
    return live_session()


@pytest.fixture(params=[1, 2], ids=["one process", "two processes"])
def processes(request):
    return request.param


async def desks(stack, processes, *tools):
    first = await stack.enter_async_context(CallPath(*tools))
    return first, first if processes == 1 else await stack.enter_async_context(CallPath(*tools))


@pytest.mark.parametrize("read_only", [False, True])
def test_finished_call_is_answered_again_as_it_was(session, processes, read_only):
    async def scenario():
        from contextlib import AsyncExitStack

        script = Script()
        async with AsyncExitStack() as stack:
            one, other = await desks(stack, processes, tool(script, read_only=read_only))
            first = await one.call(session=session, request_id="r", arguments={"a": 1, "b": 2})
            again = await other.call(session=session, request_id="r", arguments={"b": 2, "a": 1})
        assert len(script.effects) == (2 if read_only else 1)
        assert (again.wire, again.is_error, again.duplicate_of) == (first.wire, False, first.invocation_id)
        assert len(await envelopes()) == (0 if read_only else 1)
        rows = await invocations()
        assert [row.duplicate_of for row in rows] == ["", first.invocation_id]
        assert rows[1].invocation_id == again.invocation_id
        assert rows[1].result == rows[0].result

    run(scenario)


def test_failed_call_is_not_run_again_either(session, processes):
    async def scenario():
        from contextlib import AsyncExitStack

        script = gives(MissingClientCapability({"sampling": {}}))
        async with AsyncExitStack() as stack:
            one, other = await desks(stack, processes, tool(script))
            for call_path in (one, other):
                with pytest.raises(MissingClientCapability) as caught:
                    await call_path.call(session=session, request_id=1)
        assert caught.value.spec_data == {"requiredCapabilities": {"sampling": {}}}
        assert len(script.effects) == 1
        assert [row.error_code for row in await invocations()] == ["missing_client_capability"] * 2

    run(scenario)


def test_repeat_of_an_interrupted_call_is_told_so_in_a_result(session):
    from asgiref.sync import sync_to_async

    from invocations.mapping.error_map import ErrorMap
    from invocations.recovery import interrupted
    from tests.factories import ServerProcessFactory

    async def scenario():
        held = Held()
        async with CallPath(tool(held)) as dead, CallPath(tool(held)) as call_path:
            await sync_to_async(ServerProcessFactory)(
                process_id=dead.process_id, last_seen_at=timezone.now() - timedelta(1)
            )
            first = dead.start(session=session, request_id=1)
            await held.entered.wait()
            assert await sync_to_async(interrupted.recover)("host", call_path.process_id, ErrorMap()) == 1
            again = await call_path.call(session=session, request_id=1)
            held.release.set()
            with pytest.raises(AuditUnavailable):
                await first
        assert again.is_error
        assert again.wire["_meta"]["mcphub/error"]["errorCode"] == "interrupted"
        rows = await invocations()
        assert [row.error_code for row in rows] == ["interrupted", "interrupted"]
        assert rows[1].result == again.wire

    run(scenario)


def test_repeat_of_a_running_call_waits_for_its_answer(session, processes):
    async def scenario():
        from contextlib import AsyncExitStack

        held = Held()
        async with AsyncExitStack() as stack:
            one, other = await desks(stack, processes, tool(held))
            first = one.start(session=session, request_id=1)
            await held.entered.wait()
            again = other.start(session=session, request_id=1)
            await until(lambda: len(other.calls.running) == 3 - processes)
            held.release.set()
            answers = await asyncio.gather(first, again)
        assert len(held.effects) == 1
        assert answers[1].duplicate_of == answers[0].invocation_id
        assert answers[0].wire == answers[1].wire == SAID.wire()

    run(scenario)


def test_many_at_once_run_the_tool_once(session, processes):
    async def scenario():
        from contextlib import AsyncExitStack

        script = Script()
        async with AsyncExitStack() as stack:
            pair = await desks(stack, processes, tool(script))
            answers = await asyncio.gather(*(pair[n % 2].call(session=session, request_id=1) for n in range(20)))
        assert len(script.effects) == 1 == len(await envelopes())
        assert sum(answer.duplicate_of == "" for answer in answers) == 1
        assert len({answer.invocation_id for answer in answers}) == 20 == len(await invocations())

    run(scenario)


@pytest.mark.parametrize("change", [{"name": "other"}, {"arguments": {"a": 2}}])
@pytest.mark.parametrize("read_only", [False, True])
def test_same_id_for_another_request_is_refused_and_says_which_was_first(session, processes, change, read_only):
    async def scenario():
        from contextlib import AsyncExitStack

        script = Script()
        async with AsyncExitStack() as stack:
            tools = tool(script, read_only=read_only), tool(script, "other", read_only=read_only)
            one, other = await desks(stack, processes, *tools)
            first = await one.call(session=session, request_id=1)
            with pytest.raises(DuplicateRequest) as caught:
                await other.call(**{"session": session, "request_id": 1, **change})
        assert read_only or len(script.effects) == 1
        assert caught.value.details["first"] == first.invocation_id
        rows = await invocations()
        assert [row.error_code for row in rows] == ["", "duplicate_request"]
        assert rows[1].duplicate_of == first.invocation_id

    run(scenario)


def test_repeat_that_waits_too_long_is_told_that_the_first_still_runs(session, processes, settings):
    settings.MCPHUB_CALL_TIMEOUT_SECONDS = 0.5

    async def scenario():
        from contextlib import AsyncExitStack

        held = Held()
        async with AsyncExitStack() as stack:
            one, other = await desks(stack, processes, tool(held))

            async def stubborn(arguments, context):
                held.entered.set()
                while not held.release.is_set():
                    try:
                        await held.release.wait()
                    except asyncio.CancelledError:
                        continue
                return SAID

            held._play = stubborn
            first = one.start(session=session, request_id=1)
            await held.entered.wait()
            again = await other.call(session=session, request_id=1)
            held.release.set()
            await first
        assert again.is_error
        assert [row.error_code for row in await invocations()] == ["timeout", ""]

    run(scenario)


def test_ids_of_other_sessions_and_other_types_are_other_requests(session):
    async def scenario():
        script = Script()
        async with CallPath(tool(script)) as call_path:
            for own, request_id in ((session, 1), (session, "1"), (second, 1), (session, -1)):
                assert (await call_path.call(session=own, request_id=request_id)).duplicate_of == ""
        assert len(script.effects) == 4

    second = live_session()
    run(scenario)


def test_long_ids_that_differ_at_their_end_are_different_requests(session):
    async def scenario():
        script = Script()
        async with CallPath(tool(script)) as call_path:
            for end in ("a", "b", "a"):
                await call_path.call(session=session, request_id="x" * 5000 + end)
        assert len(script.effects) == 2

    run(scenario)


def test_stateless_callers_and_calls_without_an_id_never_repeat(session):
    async def scenario():
        script = Script()
        async with CallPath(tool(script)) as call_path:
            for _ in range(2):
                await call_path.call(request_id=1)
                await call_path.call(session=session)
        assert len(script.effects) == 4
        assert {row.duplicate_of for row in await invocations()} == {""}

    run(scenario)


def test_repeat_whose_first_cannot_be_read_is_audit_unavailable(session):
    from asgiref.sync import sync_to_async
    from django.db import connection

    def rename(a, b):
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {a} RENAME TO {b}")
        connection.close()

    async def scenario():
        script = Script()
        async with CallPath(tool(script)) as call_path:
            await call_path.call(session=session, request_id=1)
            await sync_to_async(rename)("invocations_mcptoolinvocation", "away")
            try:
                with pytest.raises(AuditUnavailable):
                    await call_path.call(session=session, request_id=1)
            finally:
                await sync_to_async(rename)("away", "invocations_mcptoolinvocation")
        assert len(script.effects) == 1

    run(scenario)


KEY = "7f1c-of-the-client"


@pytest.mark.parametrize("handshake", [False, True], ids=["stateless", "handshake"])
def test_idempotency_key_makes_a_repeat_of_any_request(session, processes, handshake):
    """A client that heard no answer asks again, with another request id, perhaps of another process."""

    async def scenario():
        from contextlib import AsyncExitStack

        script = Script()
        where = session if handshake else None
        async with AsyncExitStack() as stack:
            one, other = await desks(stack, processes, tool(script))
            first = await one.call(session=where, request_id=1, arguments={"a": 1}, idempotency_key=KEY)
            again = await other.call(session=where, request_id=2, arguments={"a": 1}, idempotency_key=KEY)
            with pytest.raises(DuplicateRequest):
                await other.call(session=where, request_id=3, arguments={"a": 2}, idempotency_key=KEY)
        assert len(script.effects) == 1
        assert (again.wire, again.duplicate_of) == (first.wire, first.invocation_id)
        assert [row.duplicate_of for row in await invocations()] == ["", first.invocation_id, first.invocation_id]

    run(scenario)


def test_running_call_is_joined_under_its_key(processes):
    async def scenario():
        from contextlib import AsyncExitStack

        held = Held()
        async with AsyncExitStack() as stack:
            one, other = await desks(stack, processes, tool(held))
            first = one.start(idempotency_key=KEY)
            await held.entered.wait()
            again = other.start(idempotency_key=KEY)
            await until(lambda: len(other.calls.running) == (2 if other is one else 1))
            held.release.set()
            assert (await again).duplicate_of == (await first).invocation_id
        assert len(held.effects) == 1

    run(scenario)


def test_keys_of_two_callers_have_nothing_to_do_with_each_other():
    async def scenario():
        script = Script()
        stranger = replace(CALLER, principal="key:stranger")
        async with CallPath(tool(script)) as call_path:
            await call_path.call(idempotency_key=KEY)
            other = await call_path.call(idempotency_key=KEY, caller=stranger)
        assert other.duplicate_of == ""
        assert len(script.effects) == 2

    run(scenario)


@pytest.mark.parametrize("key", ["", " ", "two words", "schlüssel", "x" * 256, "line\n"])
def test_key_that_is_none_is_refused_before_anything_runs(key):
    async def scenario():
        script = Script()
        async with CallPath(tool(script)) as call_path:
            with pytest.raises(InvalidParams, match="1 to 255 visible ASCII characters"):
                await call_path.call(idempotency_key=key)
        assert script.effects == []

    run(scenario)
