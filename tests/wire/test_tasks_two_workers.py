"""Tasks with two workers on PostgreSQL: made by one, followed, answered and cancelled through either."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import operations
from tests.servers import Hub, until
from tests.wire.conftest import make_keys
from tests.wire.speech import Speaker
from tests.wire.task_clients import YES, Answerer, Asker, Follower, text
from tests.wire.toolbox import Apart, Box
from tests.wire.workers import ENOUGH, anew, attempts

pytestmark = pytest.mark.rig

SEVERAL = 8
"""Tasks after which one was surely followed by the worker that did not make it."""


@pytest.fixture(scope="module")
def pair_keys(pair: Hub) -> dict[str, str]:
    return make_keys(pair)


@pytest.fixture
def speaker(pair: Hub, pair_keys: dict[str, str]) -> Iterator[Speaker]:
    with Speaker(pair.url, pair_keys["wire"]) as made:
        yield made


def test_a_task_is_found_wherever_it_is_asked_for(speaker: Speaker, pair: Hub) -> None:
    box = Box(pair)
    task_id = Follower(speaker).call("chore", name=box.name)["taskId"]
    for _ in range(ENOUGH):
        with anew(speaker) as one:
            assert Follower(one).get(task_id)["status"] == "working"
    box.release()
    assert text(Follower(speaker).end(task_id)) == f"{box.name} was released"


def test_a_result_is_waited_for_wherever_it_runs(speaker: Speaker, pair: Hub) -> None:
    asker, box = Asker(speaker), Box(pair)
    task_id = asker.start("errand", {"name": box.name})["taskId"]
    body = {"jsonrpc": "2.0", "id": "wait", "method": "tasks/result", "params": {"taskId": task_id}}
    clients = [anew(speaker) for _ in range(SEVERAL)]
    waiting = [
        Apart(lambda one=one: one.post(body, mcp_session_id=asker.session))  # type: ignore[misc]
        for one in clients
    ]
    until(lambda: box.has("began"))
    box.release()
    for each in waiting:
        assert each.answer().json()["result"]["content"][0]["text"] == f"{box.name} was released"
    for one in clients:
        one.http.close()


def test_a_task_is_cancelled_through_either_worker(speaker: Speaker, pair: Hub) -> None:
    for _ in attempts(pair, client=speaker.name):
        box = Box(pair)
        with anew(speaker) as maker, anew(speaker) as other:
            task_id = Follower(maker).call("chore", name=box.name)["taskId"]
            until(lambda b=box: b.has("began"))  # type: ignore[misc]
            assert Follower(other).ask("tasks/cancel", taskId=task_id).status_code == 200
            assert Follower(other).get(task_id)["status"] == "cancelled"
            until(lambda b=box: b.has("cancelled"))  # type: ignore[misc]
    assert {row["error_code"] for row in pair.rows(client=speaker.name)} == {"cancelled"}


def test_a_task_is_answered_through_either_worker(speaker: Speaker) -> None:
    for _ in range(SEVERAL):
        with anew(speaker) as maker, anew(speaker) as first, anew(speaker) as second:
            task_id = Answerer(maker).start("multi_input")
            Answerer(first).asked(task_id)
            Answerer(first).update(task_id, name={"action": "accept", "content": {"name": "Ada"}})
            Answerer(second).update(task_id, confirm=YES)
            assert text(Answerer(second).end(task_id)) == "Ada agrees."


def test_an_operator_cancels_from_another_process(speaker: Speaker, pair: Hub) -> None:
    box = Box(pair)
    task_id = Follower(speaker).call("chore", name=box.name)["taskId"]
    until(lambda: box.has("began"))
    assert pair.operate(operations.cancel_task, task_id)
    until(lambda: box.has("cancelled"))
    assert Follower(speaker).get(task_id)["status"] == "cancelled"
