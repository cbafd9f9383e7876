"""Calls that are not made: each is a row, nothing runs, and a flood cannot fill the disk."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from invocations.call import refusals
from sessions_app.caller import Caller
from sessions_app.protocol import json
from sessions_app.protocol.errors import (
    Forbidden,
    HeaderMismatch,
    InvalidParams,
    RateLimited,
    ServerBusy,
    SessionNotFound,
    ToolDisabled,
    ToolNotFound,
)
from sessions_app.protocol.lifecycle import SessionEvent
from sessions_app.store import end
from tests.invocations.calls.call_path import (
    CALLER,
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

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def refused(kind, *tools, name="act", caller=CALLER, **more):
    """Make a call that must be refused with `kind`; give the error and the one row."""

    async def scenario():
        async with CallPath(*tools) as call_path:
            with pytest.raises(kind) as caught:
                await call_path.call(name, caller=caller, **more)
        assert not await envelopes()
        return caught.value, await only_invocation()

    error, row = run(scenario)
    assert type(error) is kind
    assert (row.status, row.error_code, row.occurrences) == ("error", kind.code, 1)
    assert row.error["data"]["errorCode"] == kind.code
    assert error.invocation_id == row.invocation_id
    return error, row


def test_arguments_that_break_the_schema_are_explained_to_the_model_and_recorded():
    async def scenario():
        script = Script()
        async with CallPath(tool(script, schema=NUMBER)) as call_path:
            answer = await call_path.call(arguments={"n": "one"}, request_id=3)
        assert script.effects == []
        return answer, await only_invocation(), await envelopes()

    answer, row, written = run(scenario)
    assert answer.is_error
    assert "n" in answer.wire["content"][0]["text"]
    assert answer.wire["_meta"]["mcphub/error"]["details"]["violations"]
    assert (row.error_code, row.arguments, row.request_id, row.duration_ms) == ("invalid_arguments", {"n": "one"}, 3, 0)
    assert row.invocation_id == answer.invocation_id
    assert written == []


@pytest.mark.parametrize(
    "name", ["nobody", "é🦊", 'quo"ted\\', "a\x00b", "\ud800", "x" * 5000, "{tool}", "ACT", "act "]
)
def test_unknown_tool_of_any_name_is_refused_and_recorded(name):
    _, row = refused(ToolNotFound, tool(Script()), name=name)
    assert len(row.tool_name) <= 128
    assert "\x00" not in row.tool_name


@pytest.mark.parametrize(("name", "arguments"), [("", {}), (None, {}), (7, {}), ("act", [1]), ("act", "text")])
def test_malformed_call_is_refused_and_recorded(name, arguments):
    script = Script()
    _, row = refused(InvalidParams, tool(script), name=name, arguments=arguments)
    assert row.error_code == "invalid_params"
    if isinstance(arguments, dict):
        assert row.arguments == {}
    else:
        assert row.arguments["not_an_object"].startswith("redacted:")
    assert script.effects == []


def test_hidden_tool_answers_like_a_missing_one():
    hidden = tool(Script(), "secret", groups=frozenset({1}))
    error, row = refused(ToolNotFound, hidden, name="secret")
    assert error.message == 'There is no tool named "secret". Ask tools/list for the names.'
    assert row.tool_version == ""


def test_disabled_tool_is_refused_and_says_so():
    refused(ToolDisabled, tool(Script(), enabled=False))


def test_caller_without_the_scope_is_refused_before_anything_is_looked_up():
    refused(
        Forbidden, name="nobody", caller=Caller(principal="key:2", label="lister", scopes=frozenset({"tools:list"}))
    )


def test_check_of_the_door_refuses_the_call():
    def check(found):
        raise HeaderMismatch(f"Mcp-Param-X disagrees with {found.name}.")

    refused(HeaderMismatch, tool(Script()), check=check)


def test_check_of_the_door_lets_the_call_pass():
    async def scenario():
        async with CallPath(tool(Script())) as call_path:
            assert not (await call_path.call(check=lambda found: None)).is_error

    run(scenario)


def test_hub_at_its_limit_of_calls_is_busy(settings):
    settings.MCPHUB_MAX_CALLS = 1

    async def scenario():
        held = Held()
        async with CallPath(tool(held)) as call_path:
            first = call_path.start()
            await held.entered.wait()
            with pytest.raises(ServerBusy) as caught:
                await call_path.call()
            held.release.set()
            await first
        assert caught.value.retry_after_seconds == 1
        assert len(held.effects) == 1
        assert sorted(row.error_code for row in await invocations()) == ["", "server_busy"]

    run(scenario)


def test_a_caller_with_all_its_places_taken_leaves_those_of_others(settings):
    settings.MCPHUB_MAX_CALLS, settings.MCPHUB_MAX_CALLS_PER_CALLER = 5, 0
    other = Caller(principal="key:2", label="", scopes=CALLER.scopes)

    async def scenario():
        held = Held()
        async with CallPath(tool(held)) as call_path:
            first = call_path.start()
            await held.entered.wait()
            with pytest.raises(ServerBusy, match="places of this caller"):
                await call_path.call()
            second = call_path.start(caller=other)
            held.release.set()
            assert not (await first).is_error
            assert not (await second).is_error
            assert not (await call_path.call()).is_error

    run(scenario)


def filled_since(began: float, calls_per_minute: int) -> float:
    """Return how many tokens a bucket gets at most meanwhile: on a slow machine calls take longer than one needs."""
    return (time.monotonic() - began) * calls_per_minute / 60


@pytest.mark.parametrize("whose", ["caller", "tool"])
def test_limit_of_calls_holds_across_processes(whose):
    caller = Caller(
        principal="key:1", label="", scopes=CALLER.scopes, calls_per_minute=3 if whose == "caller" else None
    )

    async def scenario():
        script = Script()
        limited = tool(script, calls_per_minute=3 if whose == "tool" else None)
        began = time.monotonic()
        async with CallPath(limited) as one, CallPath(limited) as other:

            async def call_on() -> None:
                while len(script.effects) <= 3 + filled_since(began, 3):
                    await other.call(caller=caller)

            for call_path in (one, other, one):
                await call_path.call(caller=caller)
            with pytest.raises(RateLimited) as caught:
                await call_on()
        assert 3 <= len(script.effects) <= 3 + filled_since(began, 3)
        assert 1 <= caught.value.retry_after_seconds <= 21
        assert caught.value.details["retry_after_seconds"] == caught.value.retry_after_seconds
        assert [row.error_code for row in await invocations()] == ["" for _ in script.effects] + ["rate_limited"]

    run(scenario)


def test_many_drawing_at_once_from_two_processes_get_exactly_the_limit():
    caller = Caller(principal="key:1", label="", scopes=CALLER.scopes, calls_per_minute=10)

    async def scenario():
        script = Script()
        limited = tool(script, calls_per_minute=1000)
        began = time.monotonic()
        async with CallPath(limited) as one, CallPath(limited) as other:
            outcomes = await asyncio.gather(
                *(call_path.call(caller=caller) for _ in range(15) for call_path in (one, other)),
                return_exceptions=True,
            )
        assert 10 <= len(script.effects) <= 10 + filled_since(began, 10)
        assert sum(isinstance(outcome, RateLimited) for outcome in outcomes) == 30 - len(script.effects)

    run(scenario)


@pytest.mark.parametrize("read_only", [False, True])
def test_ended_session_is_refused_on_record_without_an_envelope(read_only):
    session = live_session()
    end([session], SessionEvent.CLOSE, "test")

    async def scenario():
        script = Script()
        async with CallPath(tool(script, read_only=read_only)) as call_path:
            with pytest.raises(SessionNotFound) as caught:
                await call_path.call(session=session, request_id=1)
        row = await only_invocation()
        assert read_only or script.effects == []
        assert not await envelopes()
        assert (row.error_code, row.session_id) == ("session_not_found", session)
        assert caught.value.invocation_id == row.invocation_id

    run(scenario)


def test_session_of_which_nobody_heard_is_refused():
    _, row = refused(SessionNotFound, tool(Script()), session="nobody", request_id=1)
    assert row.request_id == 1


def test_call_counts_as_activity_of_its_session():
    from sessions_app.models import McpSession

    session = live_session()
    McpSession.objects.update(expires_at=McpSession.objects.get().created_at + timedelta(days=30_000))

    async def scenario():
        async with CallPath(tool(Script())) as call_path:
            await call_path.call(session=session, request_id=1)

    run(scenario)
    row = McpSession.objects.get()
    assert row.last_activity_at > row.created_at
    assert row.expires_at < row.created_at + timedelta(days=29_000)


def test_arguments_of_a_refused_call_are_kept_small():
    async def scenario():
        async with CallPath() as call_path:
            with pytest.raises(ToolNotFound):
                await call_path.call(arguments={"numbers": [123_456_789] * 10_000})
        row = await only_invocation()
        assert row.arguments["truncated"] is True
        assert row.arguments["bytes"] > 100_000

    run(scenario)


def test_of_large_arguments_of_a_refused_call_no_text_is_kept_and_only_the_first_members_are_read():
    async def scenario():
        async with CallPath(tool(Script(), schema={"type": "object", "additionalProperties": False})) as call_path:
            texts = [f"very secret {number}" for number in range(20_000)]
            result = await call_path.call(arguments={"a": 1, "texts": texts, "very secret name": "x"})
        assert result.code == "invalid_arguments"
        row = await only_invocation()
        assert (row.arguments["truncated"], row.arguments["bytes"] > 300_000) == (True, True)
        assert row.arguments["head"].startswith('{"a":1,"texts":["redacted:')
        assert "very secret 1" not in json.canonical([row.arguments, row.error, row.result])
        assert row.left_out["arguments"]["truncated"] is True

    run(scenario)


def test_flood_of_refusals_is_counted_in_one_row_and_nothing_is_lost():
    async def scenario():
        async with CallPath() as call_path:
            for _ in range(refusals.SINGLE_ROWS + 50):
                with pytest.raises(ToolNotFound):
                    await call_path.call()
            assert len(await invocations()) == refusals.SINGLE_ROWS
        rows = await invocations()
        assert len(rows) == refusals.SINGLE_ROWS + 1
        assert sum(row.occurrences for row in rows) == refusals.SINGLE_ROWS + 50
        assert (rows[-1].occurrences, rows[-1].error_code, rows[-1].principal) == (50, "tool_not_found", "key:1")

    run(scenario)


def test_flood_of_one_caller_leaves_the_refusals_of_another_single():
    other = Caller(principal="key:2", label="", scopes=CALLER.scopes)

    async def scenario():
        async with CallPath() as call_path:
            for _ in range(refusals.SINGLE_ROWS + 1):
                with pytest.raises(ToolNotFound):
                    await call_path.call()
            with pytest.raises(ToolNotFound):
                await call_path.call(caller=other)
        assert [row.occurrences for row in await invocations() if row.principal == "key:2"] == [1]

    run(scenario)


@pytest.mark.parametrize("age", [0, 10**6])
def test_flood_is_written_when_its_window_is_over_and_not_before(age):
    async def scenario():
        async with CallPath() as call_path:
            for _ in range(refusals.SINGLE_ROWS + 5):
                with pytest.raises(ToolNotFound):
                    await call_path.call()
            (flood,) = call_path.calls.refusals._floods.values()
            flood.since -= age
            await call_path.calls.refusals._flush(time.monotonic() - refusals.WINDOW_SECONDS)
            assert len(await invocations()) == refusals.SINGLE_ROWS + bool(age)
            with pytest.raises(ToolNotFound):
                await call_path.call()
        assert sum(row.occurrences for row in await invocations()) == refusals.SINGLE_ROWS + 6

    run(scenario)
