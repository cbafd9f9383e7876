"""Stopped writes at every door of a hub, calls that wait or are under way meanwhile, and a hub that is killed."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from tests import operations
from tests.features.chat.conftest import ENVIRONMENT, KEYS, set_up
from tests.features.chat.running import ScriptedProvider
from tests.features.writes import operations as writes
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire import approving
from tests.wire.conftest import TOOLBOX, make_keys
from tests.wire.piped import beside
from tests.wire.speech import Speaker
from tests.wire.test_guarded_doors import (
    SCOPES,
    Doors,
    as_a_replay,
    as_a_task_of_2025,
    as_a_task_of_2026,
    by_a_completion,
    by_a_query,
    by_a_response,
    in_a_session,
    over_http_sse,
    over_stdio,
    over_the_remote_profile,
    stateless,
)
from tests.wire.toolbox import Apart, Box, text_of
from tests.wire.workers import anew, attempts

pytestmark = pytest.mark.program

REASON = "A leak is looked into."
DOORS = [
    stateless,
    in_a_session,
    over_http_sse,
    over_the_remote_profile,
    over_stdio,
    as_a_task_of_2025,
    as_a_task_of_2026,
    as_a_replay,
    by_a_query,
    by_a_completion,
    by_a_response,
]


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with contextlib.ExitStack() as stack:
        provider = stack.enter_context(ScriptedProvider(KEYS["openai"]))
        environment = {**ENVIRONMENT, "MCPHUB_LIMITS": f"{ENVIRONMENT['MCPHUB_LIMITS']}, approval_hold_seconds=0.05"}
        hub = stack.enter_context(Hub(tmp_path_factory.mktemp("doors"), environment=environment, **TOOLBOX))
        set_up(hub, {"openai": provider})
        key = hub.operate(operations.issue_key, "doors", SCOPES)
        hub.operate(writes.make_writing_tools)
        speaker = stack.enter_context(Speaker(hub.url, key))
        until(lambda: "say_task" in speaker.modern("tools/list").text)
        api = stack.enter_context(
            httpx2.Client(base_url=hub.url, headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE_SECONDS)
        )
        piped = stack.enter_context(beside(hub, MCPHUB_API_KEY=key))
        piped.shake_hands()
        yield Doors(hub, key, speaker, api, provider, piped)


def is_stopped(speaker: Speaker) -> bool:
    return REASON in speaker.modern_call("say", {"text": "?"}).text


def until_both(doors: Doors, *, are_stopped: bool) -> None:
    """Wait for the hub, and for the program beside it: what one works by says nothing of the other."""
    both = (are_stopped, are_stopped)
    until(lambda: (is_stopped(doors.speaker), REASON in over_stdio(doors, "say", "?")) == both)


@pytest.fixture
def stopped(doors: Doors) -> Iterator[Doors]:
    made = doors.speaker.modern_call("say", {"text": "before"}).json()
    doors.earlier["say"] = made["result"]["_meta"]["mcphub/invocationId"]
    doors.hub.operate(writes.stop, REASON)
    until_both(doors, are_stopped=True)
    yield doors
    doors.hub.operate(writes.allow)
    until_both(doors, are_stopped=False)


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_a_write_is_refused_alike_at_each_door(stopped: Doors, door: Callable[..., str]) -> None:
    tool = "say_task" if door is as_a_task_of_2026 else "say"
    assert REASON in door(stopped, tool, uuid.uuid4().hex)
    # Of the refusals of one caller only the first in a minute have rows of their own.
    assert stopped.hub.rows(error_code="writes_stopped")


def test_reads_and_lists_go_on(stopped: Doors) -> None:
    assert text_of(stopped.speaker.modern_call("echo", {"text": "here"})) == "here"
    assert "say_task" in stopped.speaker.modern("tools/list").text


def test_a_call_that_waits_for_a_yes_is_refused_when_it_comes_and_one_under_way_finishes(doors: Doors) -> None:
    box = Box(doors.hub)
    doors.hub.operate(approving.demand, "say")
    asked = {"text": uuid.uuid4().hex}
    try:
        waiting = until(
            lambda: doors.speaker.modern_call("say", asked).json()["result"]["_meta"].get("mcphub/approval")
        )
        with anew(doors.speaker) as other:
            held = Apart(lambda: other.modern_call("hold", {"name": box.name}))
            until(lambda: box.has("began"))
            doors.hub.operate(writes.stop, REASON)
            until(lambda: REASON in doors.speaker.modern_call("count", {"name": box.name}).text)
            assert doors.hub.operate(approving.decide, waiting["approvalId"], True) == "approved"
            assert REASON in doors.speaker.modern_call("say", asked).text
            box.release()
            assert not held.answer().json()["result"].get("isError")
    finally:
        doors.hub.operate(writes.allow)
        doors.hub.operate(operations.delete, "invocations.McpToolApproval")
    until_both(doors, are_stopped=False)


def test_a_stop_outlasts_a_hub_that_is_killed(tmp_path: Path) -> None:
    hub = Hub(tmp_path, packs=["starter"])
    hub.__enter__()
    hub.operate(writes.make_writing_tools)
    key = hub.operate(operations.issue_key, "killed", ["tools:list", "tools:call"])
    hub.operate(writes.stop, REASON)
    hub.kill()
    with Hub(tmp_path) as again, Speaker(again.url, key) as speaker:
        until(lambda: speaker.modern("server/discover").status_code == 200)
        assert is_stopped(speaker)  # the first call


@pytest.mark.rig
def test_both_workers_on_postgresql_stop_and_allow(pair: Hub) -> None:
    box = Box(pair)

    def told_by_both(is_stop: bool) -> bool:
        with Speaker(pair.url, key) as speaker:
            for _ in attempts(pair, client=speaker.name):
                with anew(speaker) as one:
                    if (REASON in one.modern_call("count", {"name": box.name}).text) is not is_stop:
                        return False
        return True

    key = make_keys(pair)["wire"]
    pair.operate(writes.stop, REASON)
    until(lambda: told_by_both(True))
    counted = box.times("counted") if box.has("counted") else 0
    assert told_by_both(True)
    assert counted == (box.times("counted") if box.has("counted") else 0)
    pair.operate(writes.allow)
    until(lambda: told_by_both(False))
