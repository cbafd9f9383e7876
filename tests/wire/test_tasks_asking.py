"""Tasks that ask their client: the tool waits, answers come when they come, and nothing runs again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.servers import Hub, until
from tests.wire.speech import Speaker, error_of, hello
from tests.wire.task_clients import ASKABLE, RELATED, YES, Answerer, Asker, text
from tests.wire.toolbox import Apart


@pytest.fixture
def answerer(speaker: Speaker) -> Answerer:
    return Answerer(speaker)


def test_a_task_waits_for_its_answer_and_goes_on(answerer: Answerer, hub: Hub) -> None:
    task_id = answerer.start("confirm_delete", {"filename": "old.txt"})
    requests = answerer.asked(task_id)
    assert requests["confirm"]["method"] == "elicitation/create"
    assert requests["confirm"]["params"]["message"] == "Delete old.txt?"
    assert answerer.asked(task_id) == requests
    answerer.update(task_id, confirm=YES)
    assert text(answerer.end(task_id)) == "old.txt was deleted."
    assert hub.row(client=answerer.speaker.name, method="tools/call")["status"] == "ok"


def test_who_declines_is_heard(answerer: Answerer) -> None:
    task_id = answerer.start("confirm_delete", {"filename": "old.txt"})
    answerer.asked(task_id)
    answerer.update(task_id, confirm={"action": "decline"})
    assert text(answerer.end(task_id)) == "old.txt was kept."


def test_answers_may_come_one_by_one(answerer: Answerer) -> None:
    task_id = answerer.start("multi_input")
    assert answerer.asked(task_id).keys() == {"name", "confirm"}
    answerer.update(task_id, name={"action": "accept", "content": {"name": "Ada"}})
    assert answerer.asked(task_id).keys() == {"confirm"}
    answerer.update(task_id, confirm=YES, name={"action": "accept", "content": {"name": "Eve"}})
    assert text(answerer.end(task_id)) == "Ada agrees."


def test_an_answer_that_cannot_be_used_is_asked_for_again_under_another_key(answerer: Answerer) -> None:
    task_id = answerer.start("confirm_delete", {"filename": "old.txt"})
    (first,) = answerer.asked(task_id)
    answerer.update(task_id, **{first: {"action": "accept", "content": {"confirm": "perhaps"}}})
    requests = until(lambda: (found := answerer.get(task_id).get("inputRequests")) and first not in found and found)
    (second,) = requests
    answerer.update(task_id, **{first: YES})
    assert answerer.asked(task_id).keys() == {second}
    answerer.update(task_id, **{second: YES})
    assert text(answerer.end(task_id)) == "old.txt was deleted."


def test_a_task_that_waits_can_be_cancelled(answerer: Answerer, hub: Hub) -> None:
    task_id = answerer.start("confirm_delete", {"filename": "old.txt"})
    answerer.asked(task_id)
    answerer.ask("tasks/cancel", taskId=task_id)
    assert answerer.end(task_id)["status"] == "cancelled"
    assert hub.row(client=answerer.speaker.name, method="tools/call")["error_code"] == "cancelled"


def test_a_client_that_cannot_be_asked_fails_the_task(answerer: Answerer) -> None:
    made = answerer.call("confirm_delete", filename="old.txt")
    failed = answerer.end(made["taskId"])
    assert (failed["status"], failed["error"]["code"]) == ("failed", -32021)
    assert failed["error"]["data"]["requiredCapabilities"] == {"elicitation": {"form": {}}}


def test_a_tool_may_ask_before_it_becomes_a_task(answerer: Answerer) -> None:
    call = {"name": "test_tool_with_task", "arguments": {}, "_meta": ASKABLE}
    asks = answerer.speaker.modern("tools/call", call).json()["result"]
    assert (asks["resultType"], "taskId" in asks) == ("input_required", False)
    answered = {"user_name": {"action": "accept", "content": {"name": "Ada"}}}
    again = {**call, "inputResponses": answered, "requestState": asks["requestState"]}
    made = answerer.speaker.modern("tools/call", again).json()["result"]
    assert (made["resultType"], "requestState" in made) == ("task", False)
    assert "Ada" in text(answerer.end(made["taskId"]))


# The core form -------------------------------------------------------------------------------------


@pytest.fixture
def asker(speaker: Speaker) -> Asker:
    made = Asker(speaker)
    greeting = hello(name=speaker.name)
    greeting["params"]["capabilities"] = {"elicitation": {}}
    made.session = speaker.post(greeting).headers["mcp-session-id"]
    return made


def respond(asker: Asker, request: dict[str, Any], **outcome: Any) -> None:
    answer = asker.speaker.post({"jsonrpc": "2.0", "id": request["id"], **outcome}, mcp_session_id=asker.session)
    assert answer.status_code == 202


def waiting_for(asker: Asker, task_id: str) -> Any:
    body = {"jsonrpc": "2.0", "id": "wait", "method": "tasks/result", "params": {"taskId": task_id}}
    return asker.speaker.streaming("POST", body, mcp_session_id=asker.session)


def test_questions_come_on_the_stream_of_the_result(asker: Asker) -> None:
    task = asker.start("multi_input")
    until(lambda: asker.get(task["taskId"])["status"] == "input_required")
    with waiting_for(asker, task["taskId"]) as (_, heard):
        asked = {request["params"]["message"]: request for request in (next(heard), next(heard))}
        for request in asked.values():
            assert request["method"] == "elicitation/create"
            assert request["params"]["_meta"][RELATED] == {"taskId": task["taskId"]}
        with Speaker(asker.speaker.url, asker.speaker.key) as other:
            asker.speaker, own = other, asker.speaker
            respond(asker, asked["What is your name?"], result={"action": "accept", "content": {"name": "Ada"}})
            respond(asker, asked["Do you agree?"], result=YES)
            asker.speaker = own
        last = next(heard)
    assert last["id"] == "wait"
    assert last["result"]["content"][0]["text"] == "Ada agrees."


def test_a_client_that_refuses_fails_the_tool(asker: Asker) -> None:
    task = asker.start("confirm_delete", {"filename": "old.txt"})
    with waiting_for(asker, task["taskId"]) as (_, heard):
        respond(asker, next(heard), error={"code": -1, "message": "not now"})
        last = next(heard)
    assert last["result"]["isError"] is True
    assert "not now" in last["result"]["content"][0]["text"]
    assert asker.get(task["taskId"])["status"] == "failed"


def test_who_comes_back_for_the_result_is_asked_again(asker: Asker, speaker: Speaker) -> None:
    task = asker.start("confirm_delete", {"filename": "old.txt"})
    with waiting_for(asker, task["taskId"]) as (_, heard):
        first = next(heard)
    answerer = Answerer(speaker)
    answerer.update(task["taskId"], confirm=YES)
    assert text(answerer.end(task["taskId"])) == "old.txt was deleted."
    respond(asker, first, result=YES)  # too late, and harmless
    result = Apart(lambda: asker.ask("tasks/result", taskId=task["taskId"])).answer().json()["result"]
    assert result["content"][0]["text"] == "old.txt was deleted."


def test_a_session_that_cannot_be_asked_fails_the_tool(speaker: Speaker) -> None:
    deaf = Asker(speaker)
    task = deaf.start("confirm_delete", {"filename": "old.txt"})
    result = deaf.ask("tasks/result", taskId=task["taskId"]).json()["result"]
    assert result["isError"] is True
    assert "does not support" in result["content"][0]["text"]


def test_the_question_of_a_stranger_is_not_answered(answerer: Answerer, hub: Hub, keys: dict[str, str]) -> None:
    task_id = answerer.start("confirm_delete", {"filename": "old.txt"})
    answerer.asked(task_id)
    with Speaker(hub.url, keys["other"]) as other:
        refused = Answerer(other).ask("tasks/update", taskId=task_id, inputResponses={"confirm": YES})
        assert (refused.status_code, error_of(refused)["code"]) == (400, -32602)
    assert answerer.asked(task_id).keys() == {"confirm"}
    answerer.ask("tasks/cancel", taskId=task_id)
