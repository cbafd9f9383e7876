"""What of a call's bodies reaches the database: redacted and cut short before any row is made, on every way out."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from invocations.lists.jsonpath import parse
from invocations.mapping.error_map import ErrorMap
from invocations.models import McpIdempotencyKey, McpToolInvocation
from invocations.recovery import interrupted
from invocations.redaction.hiding import tag
from invocations.redaction.policy import RedactionPolicy, RedactionRule
from sessions_app.models import ServerProcess
from sessions_app.protocol.errors import DuplicateRequest, ExecutionError, InvalidParams, ToolNotFound
from tests.factories import ServerProcessFactory
from tests.invocations.calls.call_path import (
    CallPath,
    Held,
    envelopes,
    gives,
    invocations,
    live_session,
    only_invocation,
    run,
    tool,
)
from tools_catalog.call.base import ToolResult

pytestmark = pytest.mark.usefixtures("transactional_db")

SECRET = "correct-horse-battery"
ARGUMENTS = {"user": "ann", "password": SECRET}


@pytest.fixture
def policy(settings):
    return RedactionPolicy([RedactionRule("", "both", "path", "$.password")], settings.MCPHUB_ENCRYPTION_KEYS)


def says(text):
    return gives(ToolResult(content=[{"type": "text", "text": text}]))


def assert_nowhere(secret=SECRET):
    """The secret stands in no column of any table."""
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'SELECT * FROM "{table}"')
            assert not [row for row in cursor.fetchall() if secret in repr(row)], table


@pytest.mark.parametrize("read_only", [False, True])
def test_tool_gets_everything_and_no_row_holds_the_secret(settings, policy, read_only):
    async def scenario():
        script = says(f"hello {SECRET}")
        async with CallPath(tool(script, read_only=read_only), redaction=policy) as call_path:
            answer = await call_path.call(arguments=ARGUMENTS)
        assert script.effects == [ARGUMENTS]
        assert answer.wire["content"][0]["text"] == f"hello {SECRET}"
        row = await only_invocation()
        mark = tag(SECRET, settings.MCPHUB_ENCRYPTION_KEYS)
        assert row.arguments == {"user": "ann", "password": mark}
        assert row.result["content"][0]["text"] == f"hello {mark}"
        assert row.left_out == {
            "arguments": {"redacted": ["$.password"]},
            "result": {"redacted": ["$.content[0].text"]},
        }
        assert [each.params["arguments"] for each in await envelopes()] == ([] if read_only else [row.arguments])

    run(scenario)
    assert_nowhere()


def test_annotated_schema_needs_no_rule(settings):
    schema = {"type": "object", "properties": {"password": {"type": "string", "writeOnly": True}}}

    async def scenario():
        policy = RedactionPolicy([], settings.MCPHUB_ENCRYPTION_KEYS)
        async with CallPath(tool(says("done"), schema=schema), redaction=policy) as call_path:
            await call_path.call(arguments=ARGUMENTS)

    run(scenario)
    assert_nowhere()


def test_failure_that_quotes_the_arguments(policy):
    async def scenario():
        async with CallPath(tool(gives(ExecutionError(f"wrong password {SECRET}"))), redaction=policy) as call_path:
            answer = await call_path.call(arguments=ARGUMENTS)
        assert SECRET in answer.wire["content"][0]["text"]
        row = await only_invocation()
        assert set(row.left_out) == {"arguments", "result", "error"}

    run(scenario)
    assert_nowhere()


@pytest.mark.parametrize(
    ("name", "arguments", "calls"),
    [
        ("act", {"password": SECRET, "n": SECRET}, 31),  # the last one is counted in a row of its own
        ("act", {"password": [SECRET]}, 1),
        ("aktt", ARGUMENTS, 1),
        ("act", [SECRET], 1),
    ],
)
def test_refused_calls_are_redacted_too(policy, name, arguments, calls):
    schema = {"type": "object", "properties": {"password": {"type": "string"}, "n": {"enum": [1]}}}

    async def scenario():
        async with CallPath(tool(says(""), schema=schema), redaction=policy) as call_path:
            for _ in range(calls):
                with contextlib.suppress(ToolNotFound, InvalidParams):
                    await call_path.call(name, arguments)
        assert len(await invocations()) == calls

    run(scenario)
    assert_nowhere()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("Act", {"password": SECRET}), ("act", {"passwort": SECRET}), ("nothing", {"text": SECRET}), ("act", {"user": 5})],
)
def test_misspelt_tool_or_argument_leaves_no_marked_value(name, arguments):
    """No rule: only the schema marks, and what it does not describe is kept as digests."""
    schema = {
        "type": "object",
        "properties": {"password": {"type": "string", "writeOnly": True}, "user": {"type": "string"}},
        "additionalProperties": False,
    }

    async def scenario():
        async with CallPath(tool(says("done"), schema=schema)) as call_path:
            with contextlib.suppress(ToolNotFound):
                await call_path.call(name, arguments)
        row = await only_invocation()
        assert row.status == "error"
        assert (row.arguments == arguments) is (SECRET not in repr(arguments))

    run(scenario)
    assert_nowhere()


def test_text_of_refused_arguments_is_kept_where_the_setting_says_so(settings):
    settings.MCPHUB_AUDIT_REFUSED_TEXT = True

    async def scenario():
        async with CallPath() as call_path:
            with pytest.raises(ToolNotFound):
                await call_path.call("nothing", {"text": "in clear"})
        assert (await only_invocation()).arguments == {"text": "in clear"}

    run(scenario)


def test_accepted_call_with_a_misspelt_argument_hides_it_too(policy):
    async def scenario():
        async with CallPath(tool(says("done")), redaction=policy) as call_path:
            await call_path.call(arguments={"Passwort": SECRET})

    run(scenario)
    assert_nowhere()


def test_equal_values_are_found_by_condition(policy):
    async def scenario():
        async with CallPath(tool(says("done")), redaction=policy) as call_path:
            await call_path.call(arguments=ARGUMENTS)
            await call_path.call(arguments={"password": "another"})

    run(scenario)
    found = parse(f'$.password="{SECRET}"')
    assert SECRET not in found.recorded()
    assert McpToolInvocation.objects.filter(found.on(McpToolInvocation._meta.db_table, "arguments")).count() == 1


def test_repeat_with_a_whole_answer_gets_it_though_arguments_are_redacted(policy):
    session = live_session()

    async def scenario():
        script = says("done")
        async with CallPath(tool(script), redaction=policy) as call_path:
            first = await call_path.call(arguments=ARGUMENTS, session=session, request_id=1)
            again = await call_path.call(arguments=ARGUMENTS, session=session, request_id=1)
            with pytest.raises(DuplicateRequest, match=r"different|other"):
                await call_path.call(arguments={**ARGUMENTS, "password": "x"}, session=session, request_id=1)
        assert again.wire == first.wire
        assert len(script.effects) == 1
        assert SECRET not in repr([row async for row in McpIdempotencyKey.objects.values_list()])

    run(scenario)


def test_repeat_whose_answer_is_not_kept_whole_is_told_so(policy):
    async def scenario():
        script = says(f"hello {SECRET}")
        async with CallPath(tool(script), redaction=policy) as call_path:
            first = await call_path.call(arguments=ARGUMENTS, idempotency_key="k")
            with pytest.raises(DuplicateRequest, match="does not keep it whole") as refused:
                await call_path.call(arguments=ARGUMENTS, idempotency_key="k")
        assert (refused.value.details["first"], refused.value.details["status"]) == (first.invocation_id, "ok")
        assert "redaction rule marks" in refused.value.message
        assert refused.value.details["redacted"] == ["$.content[0].text"]
        assert len(script.effects) == 1
        assert [row.duplicate_of for row in await invocations()] == ["", first.invocation_id]

    run(scenario)
    assert_nowhere()


def test_repeated_failure_is_told_with_its_words_redacted(policy):
    async def scenario():
        async with CallPath(tool(gives(ExecutionError(f"not {SECRET}"))), redaction=policy) as call_path:
            await call_path.call(arguments=ARGUMENTS, idempotency_key="k")
            again = await call_path.call(arguments=ARGUMENTS, idempotency_key="k")
        assert again.is_error
        assert "not redacted:" in again.wire["content"][0]["text"]

    run(scenario)


def test_long_bodies_are_cut_and_the_client_gets_them_whole(settings):
    settings.MCPHUB_AUDIT_BODY_CHARACTERS = 2000
    long = "x" * 5000

    async def scenario():
        async with CallPath(tool(says(long))) as call_path:
            answer = await call_path.call(arguments={"text": long})
        assert answer.wire["content"][0]["text"] == long
        row = await only_invocation()
        assert row.left_out["arguments"]["truncated"] is True
        assert row.arguments["bytes"] == row.left_out["arguments"]["bytes"] == len(long) + len('{"text":""}')
        assert row.arguments_digest == row.arguments["sha256"]
        assert len(row.result["head"]) == 2000

    run(scenario)


def test_interrupted_call_keeps_its_marks(policy):
    ServerProcessFactory(process_id="gone")

    async def scenario():
        held = Held()
        async with CallPath(tool(held), redaction=policy) as call_path:
            call_path.calls.rows.process_id = "gone"
            call_path.start(arguments=ARGUMENTS)
            await held.entered.wait()
            await ServerProcess.objects.filter(pk="gone").aupdate(last_seen_at="2020-01-01T00:00:00Z")
            assert await sync_to_async(interrupted.recover)("elsewhere", call_path.process_id, ErrorMap()) == 1
            row = await only_invocation()
            held.release.set()
            await asyncio.gather(*call_path.started, return_exceptions=True)
        assert row.error_code == "interrupted"
        assert row.left_out == {"arguments": {"redacted": ["$.password"]}}
        (envelope,) = await envelopes()
        assert row.arguments == envelope.params["arguments"]

    run(scenario)
    assert_nowhere()
