"""Tasks, by the extension of 2026-07-28: the hub decides, the client polls, updates, cancels and listens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Hub, until
from tests.wire.conftest import TOOLBOX
from tests.wire.speech import META, Speaker, error_of
from tests.wire.task_clients import ABLE, EXTENSION, Follower
from tests.wire.toolbox import Box


@pytest.fixture
def follower(speaker: Speaker) -> Follower:
    return Follower(speaker)


@pytest.fixture
def box(hub: Hub) -> Iterator[Box]:
    made = Box(hub)
    yield made
    (hub.data / "toolbox").mkdir(exist_ok=True)
    made.release()


def unknown(answer: Any) -> None:
    assert (answer.status_code, error_of(answer)["code"]) == (400, -32602)
    assert "no such task" in error_of(answer)["message"]


def test_the_extension_is_offered_and_the_core_form_is_not(speaker: Speaker) -> None:
    capabilities = speaker.modern("server/discover").json()["result"]["capabilities"]
    assert capabilities["extensions"][EXTENSION] == {}
    assert "tasks" not in capabilities
    listed = {tool["name"]: tool for tool in speaker.modern("tools/list").json()["result"]["tools"]}
    assert "execution" not in listed["errand"]


def test_a_long_call_becomes_a_task_and_its_result_is_fetched(follower: Follower, hub: Hub, box: Box) -> None:
    made = follower.call("errand", name=box.name)
    assert (made["resultType"], made["status"]) == ("task", "working")
    assert made["ttlMs"] == (300 + 3600) * 1000
    assert made["pollIntervalMs"] == 1000
    assert "result" not in made
    working = until(lambda: (found := follower.get(made["taskId"])).get("statusMessage") and found)
    assert (working["status"], working["statusMessage"]) == ("working", f"{box.name} began")
    assert hub.rows(client=follower.speaker.name) == []
    box.release()
    ended = follower.end(made["taskId"])
    assert (ended["status"], ended["result"]["resultType"]) == ("completed", "complete")
    assert ended["result"]["content"] == [{"type": "text", "text": f"{box.name} was released"}]
    row = hub.row(client=follower.speaker.name)
    assert row["invocation_id"] == made["_meta"]["mcphub/invocationId"]
    assert ended["result"]["_meta"]["mcphub/invocationId"] == row["invocation_id"]
    assert (row["status"], row["tool_name"]) == ("ok", "errand")


def test_a_quick_call_is_answered_at_once(tmp_path: Path) -> None:
    # By itself a hub waits half a second, in which a busy machine may not end the call.
    environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_LIMITS": "task_after_seconds=60"}
    with Hub(tmp_path, environment=environment, **TOOLBOX) as patient, Speaker(patient.url, patient.key) as speaker:
        box = Box(patient)
        box.release()
        answer = Follower(speaker).call("errand", name=box.name)
    assert answer["resultType"] == "complete"
    assert answer["content"][0]["text"] == f"{box.name} was released"


def test_who_cannot_follow_a_task_waits_for_the_answer(speaker: Speaker, box: Box, hub: Hub) -> None:
    (hub.data / "toolbox").mkdir(exist_ok=True)
    box.release()
    result = speaker.modern_call("errand", {"name": box.name}).json()["result"]
    assert (result["resultType"], "taskId" in result) == ("complete", False)


def test_a_tool_that_is_always_a_task_refuses_who_cannot_follow_one(speaker: Speaker, hub: Hub, box: Box) -> None:
    answer = speaker.modern_call("chore", {"name": box.name})
    assert answer.status_code == 400
    assert error_of(answer)["code"] == -32021
    assert error_of(answer)["data"]["requiredCapabilities"] == {"extensions": {EXTENSION: {}}}
    assert hub.row(client=speaker.name)["error_code"] == "missing_client_capability"
    assert not box.has("began")


def test_a_tool_that_is_always_a_task_is_one_from_its_start(follower: Follower, hub: Hub, box: Box) -> None:
    box.release() if (hub.data / "toolbox").exists() else None
    made = follower.call("chore", name=box.name)
    assert made["resultType"] == "task"
    box.release()
    assert follower.end(made["taskId"])["status"] == "completed"


def test_bad_arguments_are_refused_before_there_is_a_task(follower: Follower, hub: Hub) -> None:
    answer = follower.call("chore", wrong=1)
    assert (answer["resultType"], answer["isError"]) == ("complete", True)
    assert hub.row(client=follower.speaker.name)["error_code"] == "invalid_arguments"


def test_a_failing_tool_completes_and_an_error_of_the_protocol_fails(follower: Follower) -> None:
    completed = follower.end(follower.call("failing_job")["taskId"])
    assert (completed["status"], completed["result"]["isError"]) == ("completed", True)
    failed = follower.end(follower.call("protocol_error_job")["taskId"])
    assert (failed["status"], failed["error"]["code"], "result" in failed) == ("failed", -32603, False)
    assert failed["statusMessage"] == failed["error"]["message"]


def test_a_cancelled_task_stops_its_tool(follower: Follower, hub: Hub, box: Box) -> None:
    made = follower.call("errand", name=box.name)
    until(lambda: box.has("began"))  # it may be a task before its tool runs, and then leaves no mark
    for _ in range(2):  # again, once it is over
        acknowledged = follower.ask("tasks/cancel", taskId=made["taskId"]).json()["result"]
        assert acknowledged["resultType"] == "complete"
        assert acknowledged.keys() <= {"resultType", "_meta"}
        until(lambda: box.has("cancelled"))
    ended = follower.end(made["taskId"])
    assert ended["status"] == "cancelled"
    assert "result" not in ended
    assert hub.row(client=follower.speaker.name)["error_code"] == "cancelled"


def test_the_client_may_leave_once_it_has_its_task(hub: Hub, keys: dict[str, str], box: Box) -> None:
    with Speaker(hub.url, keys["wire"]) as first:
        made = Follower(first).call("errand", name=box.name)
    with Speaker(hub.url, keys["wire"]) as second:
        assert Follower(second).get(made["taskId"])["status"] == "working"
        box.release()
        assert Follower(second).end(made["taskId"])["status"] == "completed"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
def test_foreign_and_unknown_tasks_answer_alike(
    follower: Follower, hub: Hub, keys: dict[str, str], box: Box, method: str
) -> None:
    made = follower.call("errand", name=box.name)
    with Speaker(hub.url, keys["other"]) as other:
        unknown(Follower(other).ask(method, taskId=made["taskId"], inputResponses={}))
    for name in ("nowhere", "x" * 1000, "\u0000", "ж"):
        unknown(follower.ask(method, taskId=name, inputResponses={}))
    assert follower.get(made["taskId"])["status"] == "working"


@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
def test_the_methods_need_the_extension_and_a_task_id(speaker: Speaker, follower: Follower, method: str) -> None:
    answer = speaker.modern(method, {"taskId": "x", "inputResponses": {}})
    assert (answer.status_code, error_of(answer)["code"]) == (400, -32021)
    assert error_of(answer)["data"]["requiredCapabilities"] == {"extensions": {EXTENSION: {}}}
    nameless = follower.ask(method, inputResponses={})
    assert (nameless.status_code, error_of(nameless)["code"]) == (400, -32602)


@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
def test_methods_of_the_core_form_are_not_here(follower: Follower, method: str) -> None:
    answer = follower.ask(method, taskId="x")
    assert (answer.status_code, error_of(answer)["code"]) == (404, -32601)


def test_the_name_header_repeats_the_task(follower: Follower, box: Box) -> None:
    made = follower.call("errand", name=box.name)
    params = {"taskId": made["taskId"], "_meta": ABLE}
    for header in (None, "another"):
        answer = follower.speaker.modern("tasks/get", params, mcp_name=header)
        assert (answer.status_code, error_of(answer)["code"]) == (400, -32020)


@pytest.mark.parametrize("responses", [None, [], {"a": 1}, {"a": None}, "x"])
def test_answers_must_be_objects(follower: Follower, box: Box, responses: Any) -> None:
    made = follower.call("errand", name=box.name)
    answer = follower.ask("tasks/update", taskId=made["taskId"], inputResponses=responses)
    assert (answer.status_code, error_of(answer)["code"]) == (400, -32602)


def test_answers_to_what_was_not_asked_are_ignored(follower: Follower, box: Box) -> None:
    made = follower.call("errand", name=box.name)
    answer = follower.ask("tasks/update", taskId=made["taskId"], inputResponses={"a": {"action": "accept"}})
    assert answer.json()["result"]["resultType"] == "complete"
    assert follower.get(made["taskId"])["status"] == "working"


def test_a_subscription_tells_of_its_tasks(follower: Follower, hub: Hub, keys: dict[str, str], box: Box) -> None:
    mine = follower.call("errand", name=box.name)["taskId"]
    with Speaker(hub.url, keys["other"]) as other:
        foreign = Follower(other).call("chore", name=box.name)["taskId"]
        params = {"notifications": {"taskIds": [mine, foreign, "nowhere"]}, "_meta": ABLE}
        body = follower.speaker.modern_body("subscriptions/listen", params, id="sub")
        headers = follower.speaker.modern_headers("subscriptions/listen")
        with follower.speaker.streaming("POST", body, **headers) as (_, heard):
            assert next(heard)["params"]["notifications"] == {"taskIds": [mine]}
            told = [next(heard)]
            box.release()
            while told[-1]["params"]["status"] == "working":
                told.append(next(heard))
    assert {message["method"] for message in told} == {"notifications/tasks"}
    last = told[-1]["params"]
    assert (last["taskId"], last["status"]) == (mine, "completed")
    assert last["_meta"] == {f"{META}subscriptionId": "sub"}
    polled = follower.get(mine)
    assert {name: value for name, value in last.items() if name != "_meta"} == {
        name: value for name, value in polled.items() if name not in ("_meta", "resultType")
    }


@pytest.mark.parametrize("named", [["x"], "x", [1]])
def test_a_subscription_to_tasks_needs_the_extension_and_ids(speaker: Speaker, follower: Follower, named: Any) -> None:
    answer = speaker.modern("subscriptions/listen", {"notifications": {"taskIds": named}})
    assert (answer.status_code, error_of(answer)["code"]) == (400, -32021)
    if named != ["x"]:
        refused = follower.ask("subscriptions/listen", notifications={"taskIds": named})
        assert (refused.status_code, error_of(refused)["code"]) == (400, -32602)
