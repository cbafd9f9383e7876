"""Tasks of an upstream of 2025-11-25, which its client has to ask for: over any transport, for any client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers import Hub, until
from tests.upstreams.conftest import Operator, Peer, child, old_python
from tests.upstreams.fronting import front
from tests.wire.input_requests import ALL, answer_to, calling, modern_call, round_of, state_of, text_of_event
from tests.wire.speech import Speaker
from tests.wire.task_clients import Follower
from tests.wire.toolbox import text_of

KINDS = ("core-http", "core-sse", "core-stdio")
YES = {"action": "accept", "content": {"sure": True}}


@pytest.fixture(scope="module", autouse=True)
def upstreams(operator: Operator) -> Iterator[None]:
    with (
        Peer("tasks_v1.py", "streamable-http", python=old_python(), path="/mcp/") as peer,
        Peer("tasks_v1.py", "sse", python=old_python(), path="/sse/") as events,
    ):
        operator.connect_all(
            {
                "core-http": {"url": peer.url},
                "core-sse": {"transport": "sse", "url": events.url},
                "core-stdio": child("core-tasks", "tasks_v1.py", old_python()),
            }
        )
        yield
        for kind in KINDS:
            operator.change(kind, enabled=False)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, speaker: Speaker) -> str:
    until(lambda: f"{request.param}.states" in speaker.modern("tools/list").text)
    return str(request.param)


@pytest.fixture
def label(request: pytest.FixtureRequest) -> str:
    """What a test calls its tasks, which all tests share a list of."""
    return str(request.node.name)


def states(speaker: Speaker, kind: str, label: str) -> Any:
    """The states of the upstream's tasks of this label."""
    return json.loads(text_of(speaker.modern_call(f"{kind}.states", {"label": label})))


def test_a_client_without_tasks_gets_the_result(kind: str, speaker: Speaker, label: str) -> None:
    assert text_of(speaker.modern_call(f"{kind}.work", {"label": label})) == "done as a task"
    session = speaker.open_session()
    assert text_of(speaker.call(session, f"{kind}.work", {"label": label})) == "done as a task"
    assert states(speaker, kind, label) == ["completed", "completed"]


def test_a_task_of_the_core_form_is_a_task_there(kind: str, speaker: Speaker, upstream_hub: Hub, label: str) -> None:
    session = speaker.open_session()
    for tool in ("work", "either"):
        params = {"name": f"{kind}.{tool}", "arguments": {"label": label}, "task": {}}
        made = speaker.in_session(session, "tools/call", params).json()["result"]["task"]
        ended = speaker.in_session(session, "tasks/result", {"taskId": made["taskId"]})
        assert text_of(ended) == "done as a task"
    assert states(speaker, kind, label) == ["completed", "completed"]
    rows = upstream_hub.rows(session=session, method="tools/call")
    assert [row["status"] for row in rows] == ["ok", "ok"]


def test_a_long_task_there_is_a_task_here(kind: str, speaker: Speaker, label: str) -> None:
    follower = Follower(speaker)
    made = follower.call(f"{kind}.work", seconds=2, label=label)
    assert (made["resultType"], made["status"]) == ("task", "working")
    assert follower.end(made["taskId"])["result"]["content"][0]["text"] == "done as a task"


def test_what_may_be_no_task_is_called_plainly(kind: str, speaker: Speaker, label: str) -> None:
    assert text_of(speaker.modern_call(f"{kind}.either", {"label": label})) == "plain"
    assert states(speaker, kind, label) == []


def test_what_a_task_says_is_heard_and_cancelling_reaches_it_there(kind: str, speaker: Speaker, label: str) -> None:
    follower = Follower(speaker)
    made = follower.call(f"{kind}.work", seconds=60, label=label)
    assert until(lambda: follower.get(made["taskId"]).get("statusMessage")) == "Under way"
    assert follower.ask("tasks/cancel", taskId=made["taskId"]).status_code == 200
    assert follower.end(made["taskId"])["status"] == "cancelled"
    until(lambda: states(speaker, kind, label) == ["cancelled"])


def test_how_a_task_ends_there_is_how_it_ends_here(kind: str, speaker: Speaker) -> None:
    failed = speaker.modern_call(f"{kind}.fail", {}).json()["result"]
    assert (failed["isError"], failed["content"][0]["text"]) == (True, "It failed.")
    broken = speaker.modern_call(f"{kind}.break", {}).json()["result"]
    assert (broken["isError"], "It broke." in json.dumps(broken)) == (True, True)
    refused = speaker.modern_call(f"{kind}.work", {"label": "refused"}).json()["result"]
    assert (refused["isError"], "No room." in json.dumps(refused)) == (True, True)


def test_a_task_that_is_gone_with_its_upstream_ends(speaker: Speaker, operator: Operator, label: str) -> None:
    words = ("tasks_v1.py", "streamable-http")
    # The next one is there before the first goes: how long it takes to start decides nothing.
    with (
        Peer(*words, python=old_python(), path="/mcp/") as peer,
        Peer(*words, python=old_python(), path="/mcp/") as successor,
        front(peer) as before,
    ):
        operator.connect("core-gone", url=before.url)
        until(lambda: "core-gone.work" in speaker.modern("tools/list").text)
        follower = Follower(speaker)
        made = follower.call("core-gone.work", seconds=60, label=label)
        before.behind = successor.port
        peer.kill()
        ended = follower.end(made["taskId"])
        assert "does not know its task any more" in json.dumps(ended["result"])
    operator.change("core-gone", enabled=False)


def test_a_session_is_asked_on_the_stream_of_its_call(kind: str, speaker: Speaker, label: str) -> None:
    session = speaker.open_session(**ALL)
    with calling(speaker, session, f"{kind}.confirm", {"label": label}) as (_, heard):
        asked = next(heard)
        assert asked["params"]["message"] == f'The connection "{kind}" asks: Sure of {label}?'
        speaker.post(answer_to(asked, YES), mcp_session_id=session)
        assert text_of_event(next(heard)) == 'accept {"sure": true}'


def test_a_client_without_sessions_is_asked_by_rounds(kind: str, speaker: Speaker, label: str) -> None:
    first = modern_call(speaker, f"{kind}.confirm", {"label": label})
    ((key, asked),) = round_of(first)["inputRequests"].items()
    assert asked["params"]["message"] == f'The connection "{kind}" asks: Sure of {label}?'
    answers = {"inputResponses": {key: YES}, "requestState": state_of(first)}
    done = modern_call(speaker, f"{kind}.confirm", {"label": label}, **answers)
    assert text_of(done) == 'accept {"sure": true}'
    assert states(speaker, kind, label) == ["completed"]  # the one task, not another


def test_a_task_is_told_from_the_other_calls_of_a_child(speaker: Speaker, label: str) -> None:
    """One stream for all: what the upstream asks names its task."""
    until(lambda: "core-stdio.states" in speaker.modern("tools/list").text)
    follower = Follower(speaker)
    other = follower.call("core-stdio.work", seconds=60, label="other")
    session = speaker.open_session(**ALL)
    with calling(speaker, session, "core-stdio.confirm", {"label": label}) as (_, heard):
        speaker.post(answer_to(next(heard), YES), mcp_session_id=session)
        assert text_of_event(next(heard)) == 'accept {"sure": true}'
    follower.ask("tasks/cancel", taskId=other["taskId"])
