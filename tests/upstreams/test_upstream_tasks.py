"""Tasks that an upstream makes of calls, by HTTP or as a child: tasks for the hub's clients, or calls that wait."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.behind import everything
from tests.servers import ROOT, Hub, until
from tests.upstreams.bridging import YES, Asked
from tests.upstreams.conftest import Operator
from tests.wire.input_requests import ALL, answer_to, calling, modern_call, round_of, state_of, text_of_event
from tests.wire.speech import Speaker
from tests.wire.toolbox import text_of

TASK_AFTER_SECONDS = 0.5
"""The default of the limit task_after_seconds."""
KINDS = ("job-http", "job-moved", "job-stdio")
"""The second is redirected: its calls are the SDK's, as those through a proxy are."""


@pytest.fixture(scope="module", autouse=True)
def upstreams(operator: Operator) -> Iterator[None]:
    words = ["-m", "tests.conformance.everything.server", "stdio"]
    profile = {"name": "jobs", "command": sys.executable, "arguments": words, "directory": str(ROOT)}
    with everything() as port:
        operator.connect_all(
            {
                "job-http": {"url": f"http://127.0.0.1:{port}/mcp"},
                "job-moved": {"url": f"http://127.0.0.1:{port}/mcp/"},
                "job-stdio": {"transport": "stdio", "profile": profile},
            }
        )
        yield
        for kind in KINDS:
            operator.change(kind, enabled=False)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, speaker: Speaker) -> str:
    until(lambda: f"{request.param}.test_task_states" in speaker.modern("tools/list").text)
    return str(request.param)


@pytest.fixture
def follower(speaker: Speaker) -> Asked:
    return Asked(speaker)


def states(speaker: Speaker, kind: str, label: str) -> list[str]:
    """The states of the upstream's tasks about `label`."""
    told = json.loads(text_of(speaker.modern_call(f"{kind}.test_task_states", {})))
    return [state for about, state in told if about == label]


def test_a_task_there_is_a_task_here(kind: str, follower: Asked, upstream_hub: Hub) -> None:
    made = follower.call(f"{kind}.slow_compute", seconds=0.7, label="here")
    assert (made["resultType"], made["status"]) == ("task", "working")
    ended = follower.end(made["taskId"])
    assert (ended["status"], ended["result"]["content"][0]["text"]) == ("completed", "Computed in 0.7 s.")
    row = upstream_hub.row(client=follower.speaker.name, method="tools/call")
    assert (row["status"], row["invocation_id"]) == ("ok", made["_meta"]["mcphub/invocationId"])


def test_what_the_upstream_answers_at_once_is_no_task(kind: str, follower: Asked) -> None:
    assert at_once(follower, f"{kind}.greet", name="Ada")["content"][0]["text"] == "Hello, Ada!"
    assert at_once(follower, f"{kind}.slow_compute", seconds=0)["content"][0]["text"] == "Computed in 0 s."


def at_once(follower: Asked, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return an answer that is no task; of a call that takes long, as on a busy machine, the hub makes its own."""

    def call() -> dict[str, Any] | None:
        began = time.monotonic()
        found = follower.call(tool, **arguments)
        assert found["resultType"] == "complete" or time.monotonic() - began >= TASK_AFTER_SECONDS
        return found if found["resultType"] == "complete" else None

    return until(call)


def test_what_a_task_says_is_heard_and_cancelling_reaches_it_there(kind: str, follower: Asked) -> None:
    made = follower.call(f"{kind}.slow_compute", seconds=60, label=kind)
    assert until(lambda: follower.get(made["taskId"]).get("statusMessage")) == "Computing"
    assert follower.ask("tasks/cancel", taskId=made["taskId"]).status_code == 200
    assert follower.end(made["taskId"])["status"] == "cancelled"
    until(lambda: states(follower.speaker, kind, f"60{kind}") == ["cancelled"])


def test_what_a_task_asks_is_answered_through_the_hub(kind: str, follower: Asked) -> None:
    made = follower.call(f"{kind}.confirm_delete", filename="asked")
    asked = until(lambda: follower.get(made["taskId"]).get("inputRequests"))
    assert asked["confirm"]["params"]["message"] == f'The connection "{kind}" asks: Delete asked?'
    follower.ask("tasks/update", taskId=made["taskId"], inputResponses={"confirm": YES})
    assert follower.end(made["taskId"])["result"]["content"][0]["text"] == "asked was deleted."


def test_how_a_task_ends_there_is_how_it_ends_here(kind: str, follower: Asked) -> None:
    failed = follower.end(follower.call(f"{kind}.failing_job")["taskId"])
    assert (failed["status"], failed["result"]["isError"]) == ("completed", True)
    broken = follower.end(follower.call(f"{kind}.protocol_error_job")["taskId"])
    assert broken["status"] == "failed"
    assert "The job broke." in broken["error"]["message"]


def test_a_client_that_cannot_follow_waits(kind: str, speaker: Speaker) -> None:
    failed = speaker.modern_call(f"{kind}.failing_job", {}).json()["result"]  # which is nothing but a task there
    assert (failed["isError"], failed["content"][0]["text"]) == (True, "The job failed.")
    session = speaker.open_session()
    assert text_of(speaker.call(session, f"{kind}.slow_compute", {"seconds": 0.1})) == "Computed in 0.1 s."


def test_a_client_that_cannot_follow_answers_by_rounds(kind: str, speaker: Speaker) -> None:
    first = modern_call(speaker, f"{kind}.confirm_delete", {"filename": kind})
    ((key, asked),) = round_of(first)["inputRequests"].items()
    assert asked["params"]["message"] == f'The connection "{kind}" asks: Delete {kind}?'
    answers = {"inputResponses": {key: YES}, "requestState": state_of(first)}
    done = modern_call(speaker, f"{kind}.confirm_delete", {"filename": kind}, **answers)
    assert text_of(done) == f"{kind} was deleted."
    assert states(speaker, kind, kind) == ["completed"]  # the one task, not another


def test_a_session_is_asked_on_the_stream_of_its_call(kind: str, speaker: Speaker) -> None:
    session = speaker.open_session(**ALL)
    with calling(speaker, session, f"{kind}.confirm_delete", {"filename": "stream"}) as (_, heard):
        speaker.post(answer_to(next(heard), YES), mcp_session_id=session)
        assert text_of_event(next(heard)) == "stream was deleted."


def test_the_core_form_of_tasks_has_them_too(kind: str, speaker: Speaker) -> None:
    session = speaker.open_session()
    params = {"name": f"{kind}.slow_compute", "arguments": {"seconds": 0.3}, "task": {}}
    made = speaker.in_session(session, "tools/call", params).json()["result"]["task"]
    ended = speaker.in_session(session, "tasks/result", {"taskId": made["taskId"]})
    assert text_of(ended) == "Computed in 0.3 s."


def test_a_task_that_is_gone_with_its_child_ends(follower: Asked) -> None:
    speaker = follower.speaker
    until(lambda: "job-stdio.test_exit" in speaker.modern("tools/list").text)
    made = follower.call("job-stdio.slow_compute", seconds=60, label="gone")
    speaker.modern_call("job-stdio.test_exit", {})
    ended = follower.end(made["taskId"])
    assert "does not know its task any more" in json.dumps(ended["result"])
    assert ended["result"]["_meta"]["mcphub/error"]["errorCode"] == "transport_error"
