"""The stage of stopped writes: which calls it refuses, what is on record, and that nothing pays for it otherwise."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from invocations.call.checking import CallerPermissions
from invocations.stages import EMPTY
from mcphub.features.writes.in_force import StopInForce, Stops
from mcphub.features.writes.rules import SUBJECT
from sessions_app.caller import Caller
from sessions_app.protocol.errors import WritesStopped
from sessions_app.workspaces.belonging import Workspace
from tests.invocations.calls.call_path import CALLER, CallPath, Script, live_session, only_invocation, run, source, tool

pytestmark = pytest.mark.usefixtures("transactional_db")

SINCE = datetime(2026, 11, 28, 17, 40, tzinfo=UTC)
ALL = StopInForce("A leak is looked into.", SINCE)
RED = Workspace(7, "red", frozenset())
OF_RED = StopInForce("Reds only", SINCE, "red")
BY_RED: Caller = replace(CALLER, workspace=RED.key, workspace_slug=RED.slug, sources={})


@pytest.fixture(autouse=True)
def patient_ledger(settings: Any) -> None:
    settings.MCPHUB_LEDGER_TIMEOUT_SECONDS = 20


def stop(path: CallPath, stops: Stops) -> None:
    path.configuration = replace(path.configuration, additions={SUBJECT: stops})


def refused(tools: Any, stops: Stops, **more: Any) -> str:
    """Return with which words a call is refused; empty where it is made."""

    async def scenario() -> str:
        async with CallPath(*tools) as path:
            stop(path, stops)
            result = await path.call(**more)
            return "" if not result.is_error else str(result.wire["content"][0]["text"])

    return str(run(scenario))


def test_a_write_is_refused_and_recorded_with_code_reason_and_advice() -> None:
    backend = Script()

    async def scenario() -> None:
        async with CallPath(tool(backend)) as path:
            stop(path, {None: ALL})
            result = await path.call()
            error = result.wire["_meta"]["mcphub/error"]
            assert (error["code"], error["errorCode"], error["retryable"]) == (-31039, "writes_stopped", False)
            assert error["details"] == {"since": "2026-11-28T17:40:00+00:00", "workspace": None}
            words = result.wire["content"][0]["text"]
            assert "for everybody, since 2026-11-28 17:40 UTC: A leak is looked into. " in words
            assert "Do not retry" in words
            row = await only_invocation()
            assert (row.status, row.error_code, row.tool_name) == ("error", "writes_stopped", "act")

    run(scenario)
    assert not backend.effects


def test_read_only_tools_are_called_all_the_same() -> None:
    assert refused([tool(Script(), read_only=True)], {None: ALL}) == ""


def test_a_stop_of_a_workspace_refuses_its_callers_and_calls_of_its_tools_alone() -> None:
    stops = {RED.key: OF_RED}
    assert "in the workspace red" in refused([tool(Script())], stops, caller=BY_RED)
    theirs = tool(Script(), workspace=RED)
    everything = replace(CALLER, sees_everything=True, sources={})
    assert "Reds only." in refused([theirs], stops, caller=everything)
    assert refused([tool(Script())], stops) == ""


def test_describe_tool_checks_a_tool_as_a_call_would_find_it() -> None:
    async def scenario() -> list[Any]:
        tools = [tool(Script(), name="writes"), tool(Script(), name="reads", read_only=True)]
        async with CallPath(*tools) as path:
            found = []
            for stops in ({}, {None: ALL}, {RED.key: OF_RED}):
                stop(path, stops)
                for caller in (CALLER, BY_RED):
                    permissions = CallerPermissions(source(caller=caller), path.configuration, path.calls.stages)
                    found.append([each.get("code", each["verdict"]) for each in await permissions.of(tools)])
            return found

    stopped = ["writes_stopped", "yes"]
    assert run(scenario) == [["yes", "yes"], ["yes", "yes"], stopped, stopped, ["yes", "yes"], stopped]


def test_a_repeat_of_a_call_that_was_made_is_answered_as_that_was() -> None:
    backend, session = Script(), live_session()

    async def scenario() -> None:
        async with CallPath(tool(backend)) as path:
            first = await path.call(session=session, request_id=1)
            stop(path, {None: ALL})
            again = await path.call(session=session, request_id=1)
            assert again.wire["content"] == first.wire["content"]
            assert again.duplicate_of == first.invocation_id
            assert (await path.call(session=session, request_id=2)).code == WritesStopped.code

    run(scenario)
    assert len(backend.effects) == 1


def test_calls_have_no_stage_of_it_while_nothing_is_stopped() -> None:
    async def scenario() -> None:
        act = tool(Script())
        async with CallPath(act) as path:
            assert path.calls.stages.of(act, path.configuration) is EMPTY
            stop(path, {None: ALL})
            assert path.calls.stages.of(act, path.configuration).stages
            stop(path, {})
            assert path.calls.stages.of(act, path.configuration) is EMPTY

    run(scenario)
