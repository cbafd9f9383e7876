"""Reads on the call path: one row a read, committed before the answer leaves; none, no answer."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from invocations.mapping.error_map import ErrorMap
from invocations.reading import Reading, ReadRequest, Reads
from invocations.recovery import interrupted
from invocations.redaction.policy import RedactionPolicy, RedactionRule
from invocations.subject import LONGEST_TARGET, RowSubject
from sessions_app.models import ServerProcess
from sessions_app.protocol.errors import AuditUnavailable, ResourceNotFound, ResultInvalid, ServerBusy, ToolTimeout
from tests.factories import ServerProcessFactory
from tests.invocations.calls.call_path import CallPath, envelopes, invocations, only_invocation, run, source
from tests.invocations.calls.flaky import Lock

pytestmark = pytest.mark.usefixtures("transactional_db")

NOTE = {"contents": [{"uri": "note://x", "text": "said"}]}


def request(work=None, *, is_static=False, seconds=20.0, uri="note://x", find=None, answer=None):
    async def said(context):
        return NOTE

    def found():
        return Reading(
            subject=RowSubject(method="resources/read", target=uri, digest="1" * 64, connection="up"),
            label=f"The resource {uri}",
            seconds=seconds,
            is_static=is_static,
            work=work or said,
            answer=answer or (lambda result: {"sent": result}),
        )

    return ReadRequest(
        method="resources/read", scope="tools:call", asked=uri, arguments={"uri": uri}, find=find or found, request_id=7
    )


def read(call_path, asked=None):
    return Reads(call_path.calls).read(asked or request(), call_path.exchange(source()))


def test_a_read_is_one_row_and_has_no_envelope():
    async def scenario():
        async with CallPath() as call_path:
            assert await read(call_path) == {"sent": NOTE}
        row = await only_invocation()
        assert (row.method, row.target, row.tool_name, row.connection) == ("resources/read", "note://x", "", "up")
        assert (row.arguments, row.result, row.status, row.request_id) == ({"uri": "note://x"}, NOTE, "ok", 7)
        assert (row.tool_digest, row.principal, row.duplicate_of) == ("1" * 64, "key:1", "")
        assert await envelopes() == []

    run(scenario)


def test_a_read_that_cannot_be_recorded_is_not_answered(patient_ledger, settings):
    settings.MCPHUB_LEDGER_TIMEOUT_SECONDS = 1

    async def scenario():
        lock = Lock()
        async with CallPath() as call_path:
            await sync_to_async(lock.take)()
            try:
                with pytest.raises(AuditUnavailable) as refused:
                    await read(call_path)
            finally:
                await sync_to_async(lock.release)()
        row = await only_invocation()
        assert row.invocation_id == refused.value.invocation_id

    run(scenario)


def test_where_every_intent_is_recorded_a_read_has_its_envelope_and_recovery_closes_it(settings):
    settings.MCPHUB_AUDIT_EVERY_INTENT = True
    entered = asyncio.Event()

    async def stay(context):
        entered.set()
        await asyncio.Event().wait()

    async def scenario():
        async with CallPath() as call_path:
            await sync_to_async(ServerProcessFactory)(
                process_id=call_path.process_id, last_seen_at=timezone.now() - timedelta(hours=1)
            )
            task = asyncio.create_task(read(call_path, request(stay)))
            await entered.wait()
            (envelope,) = await envelopes()
            assert (envelope.method, envelope.tool_name) == ("resources/read", "")
            assert await sync_to_async(interrupted.recover)("host", "own", ErrorMap()) == 1
            task.cancel()
            with pytest.raises((AuditUnavailable, asyncio.CancelledError)):
                await task
        row = await only_invocation()
        assert (row.method, row.target, row.connection) == ("resources/read", "note://x", "up")
        assert (row.error_code, row.arguments, row.tool_digest) == ("interrupted", {"uri": "note://x"}, "1" * 64)
        assert row.retryable
        assert await sync_to_async(ServerProcess.objects.filter(status="error").exists)()

    run(scenario)


def test_a_refused_read_is_a_row_and_a_flood_of_them_one():
    def find():
        raise ResourceNotFound("note://y", -32002)

    async def scenario():
        async with CallPath() as call_path:
            for _ in range(33):
                with pytest.raises(ResourceNotFound):
                    await read(call_path, request(find=find, uri="note://y"))
        rows = await invocations()
        assert {(row.method, row.error_code) for row in rows} == {("resources/read", "resource_not_found")}
        assert [row.occurrences for row in rows] == [1] * 30 + [3]
        assert {row.target for row in rows[:30]} == {"note://y"}

    run(scenario)


@pytest.mark.parametrize(
    ("work", "seconds", "error", "code"),
    [
        (lambda: asyncio.Event().wait(), 0.1, ToolTimeout, "timeout"),
        (lambda: asyncio.sleep(0, {"contents": [object()]}), 20, ResultInvalid, "result_invalid"),
    ],
)
def test_a_failed_read_is_a_row_with_its_error(work, seconds, error, code):
    async def scenario():
        async with CallPath() as call_path:
            with pytest.raises(error) as failed:
                await read(call_path, request(lambda context: work(), seconds=seconds))
        row = await only_invocation()
        assert (row.status, row.error_code, row.result) == ("error", code, None)
        assert failed.value.invocation_id == row.invocation_id

    run(scenario)


def test_a_read_whose_client_gives_up_is_recorded_as_cancelled():
    entered = asyncio.Event()

    async def stay(context):
        entered.set()
        await asyncio.Event().wait()

    async def scenario():
        async with CallPath() as call_path:
            task = asyncio.create_task(read(call_path, request(stay)))
            await entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (await only_invocation()).error_code == "cancelled"

    run(scenario)


def test_reads_take_places_of_calls(settings):
    settings.MCPHUB_MAX_CALLS_PER_CALLER = 1
    entered = asyncio.Event()

    async def stay(context):
        entered.set()
        await asyncio.Event().wait()

    async def scenario():
        async with CallPath() as call_path:
            task = asyncio.create_task(read(call_path, request(stay)))
            await entered.wait()
            with pytest.raises(ServerBusy):
                await read(call_path)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert await read(call_path) == {"sent": NOTE}
        assert [row.error_code for row in await invocations()] == ["server_busy", "cancelled", ""]

    run(scenario)


@pytest.mark.parametrize(("is_static", "kept"), [(True, False), (False, True)])
def test_of_a_long_text_that_the_hub_itself_holds_only_the_digest_is_recorded(is_static, kept):
    long = {"contents": [{"uri": "note://x", "text": "x" * 5000}]}

    async def work(context):
        return long

    async def scenario():
        async with CallPath() as call_path:
            assert await read(call_path, request(work, is_static=is_static)) == {"sent": long}
        row = await only_invocation()
        assert (row.result == long) is kept
        if not kept:
            assert row.result["head"] == ""
            assert row.left_out["result"]["sha256"] == row.result["sha256"]

    run(scenario)


def test_rules_hold_for_what_is_read(settings):
    policy = RedactionPolicy(
        [RedactionRule("", "result", "path", "$.contents[*].text")], settings.MCPHUB_ENCRYPTION_KEYS
    )

    async def scenario():
        async with CallPath(redaction=policy) as call_path:
            assert await read(call_path) == {"sent": NOTE}
        row = await only_invocation()
        assert row.result["contents"][0]["text"].startswith("redacted:")
        assert row.left_out == {"result": {"redacted": ["$.contents[0].text"]}}

    run(scenario)


def test_a_name_longer_than_its_column_is_cut_and_stands_whole_in_the_arguments():
    uri = "note://" + "\u20ac" * 1500

    async def scenario():
        async with CallPath() as call_path:
            await read(call_path, request(uri=uri))
        row = await only_invocation()
        assert row.target == uri[:LONGEST_TARGET]
        assert row.arguments == {"uri": uri}

    run(scenario)
