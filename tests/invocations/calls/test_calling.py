"""What comes of a call that is made: the answer, and the two records that agree with it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from datetime import timedelta

import pytest

from invocations.exchange import CallRequest
from invocations.mapping.error_map import ErrorMap, ErrorRule
from sessions_app.protocol import json
from sessions_app.protocol.errors import (
    ConnectionFailed,
    ExecutionError,
    HubError,
    MissingClientCapability,
    ServerError,
    UpstreamError,
)
from tests.invocations.calls.call_path import (
    SAID,
    CallPath,
    Held,
    Script,
    envelopes,
    gives,
    invocations,
    live_session,
    only_invocation,
    run,
    source,
    tool,
)
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.backends.context import Context
from tools_catalog.call.base import ToolResult

pytestmark = pytest.mark.usefixtures("transactional_db")

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_call_leaves_envelope_and_outcome_and_answers_what_is_recorded():
    async def scenario():
        script = Script()
        async with CallPath(tool(script)) as call_path:
            answer = await call_path.call(arguments={"b": 1, "a": "é\x00"}, request_id=7)
        (envelope,) = await envelopes()
        row = await only_invocation()
        assert script.effects == [{"b": 1, "a": "é\x00"}]
        assert not answer.is_error
        assert envelope.invocation_id == row.invocation_id == answer.invocation_id
        assert (envelope.method, envelope.session_id) == ("tools/call", row.session_id)
        assert envelope.request_id == 7
        assert envelope.params == {"name": "act", "arguments": {"a": "é\x00", "b": 1}}
        assert (row.status, row.error, row.error_code, row.request_id) == ("ok", None, "", 7)
        assert row.result == answer.wire == SAID.wire()
        assert row.arguments == {"a": "é\x00", "b": 1}
        assert row.arguments_digest == json.digest(json.canonical({"a": "é\x00", "b": 1}))
        assert row.received_at <= row.started_at <= row.finished_at
        assert row.duration_ms == pytest.approx((row.finished_at - row.started_at) / timedelta(milliseconds=1), abs=1)
        assert (row.principal, row.caller_label, row.process_id) == ("key:1", "tester", call_path.process_id)

    run(scenario)


def test_intent_is_committed_before_the_backend_runs_and_outcome_before_the_answer():
    async def scenario():
        seen = []

        async def play(arguments, context):
            seen.extend(await envelopes())
            assert not await invocations()
            return SAID

        async with CallPath(tool(Script(play))) as call_path:
            answer = await call_path.call()
            assert (await only_invocation()).invocation_id == answer.invocation_id
        assert [row.invocation_id for row in seen] == [answer.invocation_id]

    run(scenario)


def test_every_intent_is_recorded_where_the_hub_is_told_so(settings):
    settings.MCPHUB_AUDIT_EVERY_INTENT = True

    async def scenario():
        script = Script()
        async with CallPath(tool(script, read_only=True)) as call_path:
            first = await call_path.call(idempotency_key="k")
            again = await call_path.call(idempotency_key="k")
        assert [each.invocation_id for each in await envelopes()] == [first.invocation_id]
        assert again.duplicate_of == first.invocation_id
        assert len(script.effects) == 1

    run(scenario)


def test_read_only_tool_is_recorded_once_with_its_outcome():
    async def scenario():
        async with CallPath(tool(Script(), read_only=True)) as call_path:
            answer = await call_path.call(session=session, request_id="a")
        assert not await envelopes()
        assert (await only_invocation()).invocation_id == answer.invocation_id

    session = live_session()
    run(scenario)


def test_error_that_the_tool_tells_of_is_an_error_row_and_keeps_the_tools_own_words():
    async def scenario():
        told = ToolResult(content=[{"type": "text", "text": "no such city"}, {"type": "image"}], is_error=True)
        async with CallPath(tool(gives(told))) as call_path:
            answer = await call_path.call()
        row = await only_invocation()
        assert answer.is_error
        assert answer.wire["content"][0]["text"] == "no such city"
        assert row.result == answer.wire
        assert (row.status, row.error_code, row.error["message"]) == ("error", "execution_error", "no such city")

    run(scenario)


def test_error_without_words_gets_the_general_sentence():
    async def scenario():
        async with CallPath(tool(gives(ToolResult(content=[], is_error=True)))) as call_path:
            assert (await call_path.call()).is_error
        assert (await only_invocation()).error["message"] == ExecutionError.sentence

    run(scenario)


@pytest.mark.parametrize("failure", [UpstreamError("It said 500.", status=500), ConnectionFailed()])
def test_failure_a_model_can_act_on_is_a_result_and_the_row_holds_the_json_rpc_error(failure):
    async def scenario():
        async with CallPath(tool(gives(failure))) as call_path:
            answer = await call_path.call(request_id=1)
        row = await only_invocation()
        assert answer.is_error
        assert answer.wire["_meta"]["mcphub/error"]["errorCode"] == failure.code == row.error_code
        assert row.result == answer.wire
        assert row.error["code"] == row.jsonrpc_code == ErrorMap().rule(failure.code).json_rpc_code
        assert row.error["data"]["invocationId"] == answer.invocation_id
        assert row.retryable is ErrorMap().rule(failure.code).retryable

    run(scenario)


@pytest.mark.parametrize("retry_safe", [False, True])
def test_retry_safe_tool_may_be_called_again(retry_safe):
    async def scenario():
        async with CallPath(tool(gives(UpstreamError()), retry_safe=retry_safe)) as call_path:
            answer = await call_path.call(request_id=1)
        assert answer.wire["_meta"]["mcphub/error"]["retryable"] is retry_safe
        assert (await only_invocation()).retryable is retry_safe

    run(scenario)


@pytest.mark.parametrize(
    ("failure", "raised"),
    [(MissingClientCapability({"sampling": {}}), MissingClientCapability), (OSError(), ServerError)],
)
def test_failure_that_is_no_tool_failure_is_recorded_and_then_raised(failure, raised):
    async def scenario():
        async with CallPath(tool(gives(failure))) as call_path:
            with pytest.raises(raised) as caught:
                await call_path.call()
        row = await only_invocation()
        assert (row.status, row.result, row.error_code) == ("error", None, raised.code)
        assert caught.value.invocation_id == row.invocation_id

    run(scenario)


def test_mapping_in_force_gives_number_words_and_retryability():
    async def scenario():
        rule = ErrorRule("execution_error", -31050, "{tool}: {message} ({invocation_id})", True, {})
        async with CallPath(tool(gives(ExecutionError("broken"))), errors=ErrorMap([rule])) as call_path:
            answer = await call_path.call()
        row = await only_invocation()
        assert (row.jsonrpc_code, row.retryable) == (-31050, True)
        assert answer.wire["content"][0]["text"] == f"act: broken ({answer.invocation_id})"

    run(scenario)


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(content=[], structured={"n": float("nan")}),
        ToolResult(content=[], structured={"n": b"raw"}),
        ToolResult(content=[], structured={1: "name"}),
        ToolResult(content=["no block"]),
        ToolResult(content=[{"type": "text"}], is_error=True),
        ToolResult(content=[{"type": "text", "text": 5}]),
        ToolResult(content=[], structured=__import__("functools").reduce(lambda inner, _: [inner], range(257), 1)),
        None,
    ],
)
def test_result_that_is_no_json_is_refused_and_still_recorded(result):
    """A backend that breaks its promise must not leave an intent without an outcome."""

    async def scenario():
        async with CallPath(tool(gives(result))) as call_path:
            answer = await call_path.call()
        row = await only_invocation()
        assert answer.is_error
        assert row.error_code == "result_invalid"
        assert row.invocation_id == (await envelopes())[0].invocation_id

    run(scenario)


@pytest.mark.parametrize("value", ["\x00", "\ud800", 10**30, [[[1]]], None, [[] for _ in range(300)]])
def test_odd_json_survives_the_way_into_the_audit_and_back(value):
    async def scenario():
        async with CallPath(tool(gives(ToolResult(content=[], structured={"v": value})))) as call_path:
            answer = await call_path.call()
        assert not answer.is_error
        assert (await only_invocation()).result == {"content": [], "structuredContent": {"v": value}}

    run(scenario)


def test_details_that_are_no_json_are_left_out_of_the_error():
    async def scenario():
        async with CallPath(tool(gives(UpstreamError(None, body=b"raw")))) as call_path:
            assert (await call_path.call()).is_error
        assert (await only_invocation()).error["data"]["details"] == {}

    run(scenario)


@pytest.mark.parametrize(
    ("result", "is_error"),
    [
        (ToolResult(content=[], structured={"n": 1}), False),
        (ToolResult(content=[], structured={"n": "one"}), True),
        (ToolResult(content=[]), True),
    ],
)
def test_result_is_held_against_the_output_schema(result, is_error):
    async def scenario():
        async with CallPath(tool(gives(result), output=NUMBER)) as call_path:
            assert (await call_path.call()).is_error is is_error
        row = await only_invocation()
        assert row.error_code == ("result_invalid" if is_error else "")
        assert row.result is not None

    run(scenario)


def test_error_result_owes_nothing_to_the_output_schema():
    async def scenario():
        async with CallPath(tool(gives(ToolResult(content=[], is_error=True)), output=NUMBER)) as call_path:
            assert (await call_path.call()).is_error
        assert (await only_invocation()).error_code == "execution_error"

    run(scenario)


@pytest.mark.slow
def test_huge_arguments_and_results_are_recorded_whole(settings):
    async def scenario():
        settings.MCPHUB_AUDIT_BODY_CHARACTERS = 4_000_000
        text = "x" * 3_000_000
        echo = gives(ToolResult(content=[{"type": "text", "text": text}]))
        async with CallPath(tool(echo)) as call_path:
            await asyncio.gather(*(call_path.call(arguments={"text": text}) for _ in range(4)))
        rows = await invocations()
        assert [len(row.arguments["text"]) for row in rows] == [3_000_000] * 4
        assert [len(row.result["content"][0]["text"]) for row in rows] == [3_000_000] * 4

    run(scenario)


def test_many_calls_at_once_are_all_recorded_exactly_once(settings):
    settings.MCPHUB_MAX_CALLS_PER_CALLER = 700

    async def scenario():
        script = Script()
        async with CallPath(tool(script)) as call_path:
            answers = await asyncio.gather(*(call_path.call(arguments={"n": n}) for n in range(700)))
        ids = [answer.invocation_id for answer in answers]
        assert len(set(ids)) == 700 == len(script.effects)
        assert sorted(row.invocation_id for row in await invocations()) == sorted(ids)
        assert sorted(row.invocation_id for row in await envelopes()) == sorted(ids)

    run(scenario)


def test_supervisor_counts_the_calls_under_way_and_waits_for_them():
    async def scenario():
        held = Held()
        async with CallPath(tool(held)) as call_path:
            call = call_path.start()
            await held.entered.wait()
            assert len(call_path.calls.running) == 1
            assert not await call_path.calls.running.drained(0.01)
            held.release.set()
            assert await call_path.calls.running.drained(PATIENCE_SECONDS)
            await call

    run(scenario)


def test_context_tells_the_tool_of_its_call_and_falls_silent_after_it():
    async def scenario():
        script, heard = Script(), []

        class Listener:
            async def notify(self, method, params):
                heard.append((method, params))

        async with CallPath(tool(script)) as call_path:
            exchange = call_path.exchange(
                source(client_capabilities={"sampling": {}}), channel=Listener(), progress_token="t", log_level="info"
            )
            answer = await call_path.calls.call_tool(CallRequest(name="act", arguments={}), exchange)
        (given,) = script.contexts
        context = Context(given)
        assert (context.invocation_id, context.tool_name, context.caller_label) == (
            answer.invocation_id,
            "act",
            "tester",
        )
        assert context.client_capabilities == {"sampling": {}}
        await context.progress(1)
        await context.log("error", "late")
        assert heard == []

    run(scenario)


class Referred(dict):
    """What weak references can be had of."""


@pytest.mark.parametrize(
    "raises",
    [None, ExecutionError, ServerError, ConnectionFailed, "is unknown", "is invalid", "is cancelled", "takes too long"],
)
def test_what_a_failed_call_held_goes_with_it(raises):
    """Answers of upstreams may be large, and the collector comes rarely."""
    kept = []
    entered = asyncio.Event()

    async def play(arguments, context):
        script.effects.clear()
        script.contexts.clear()
        answer = Referred(large=True)
        kept.append(weakref.ref(answer))
        entered.set()
        if raises in ("is cancelled", "takes too long"):
            await asyncio.Event().wait()
        try:
            answer["nothing"]
        except KeyError as error:
            if isinstance(raises, type):
                raise raises("It failed.") from error
        return SAID

    script = Script(play)

    async def scenario():
        seconds = 0.1 if raises == "takes too long" else 20
        async with CallPath(tool(script, schema=NUMBER, timeout_seconds=seconds)) as call_path:
            arguments = Referred(n="one" if raises == "is invalid" else 1)
            kept.append(weakref.ref(arguments))
            task = asyncio.create_task(call_path.call("nobody" if raises == "is unknown" else "act", arguments))
            if raises == "is cancelled":
                await entered.wait()
                task.cancel()
            with contextlib.suppress(HubError, asyncio.CancelledError):
                await task
            del arguments, task
            await asyncio.sleep(0)
            return [each() for each in kept]

    gc.collect()
    gc.disable()
    try:
        assert not any(run(scenario))
    finally:
        gc.enable()
