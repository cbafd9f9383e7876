"""Tasks, by the core form of 2025-11-25: the client asks for one, waits for its result, lists and cancels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import operations
from tests.servers import Hub, until
from tests.wire.speech import Speaker, error_of
from tests.wire.task_clients import RELATED, Asker
from tests.wire.toolbox import Apart, Box


@pytest.fixture
def asker(speaker: Speaker) -> Asker:
    return Asker(speaker)


@pytest.fixture
def box(hub: Hub) -> Iterator[Box]:
    made = Box(hub)
    yield made
    (hub.data / "toolbox").mkdir(exist_ok=True)
    made.release()


def refused(answer: Any, code: int) -> str:
    error = error_of(answer)
    assert error["code"] == code, error
    return str(error["message"])


def test_the_handshake_and_the_list_say_what_runs_as_a_task(speaker: Speaker) -> None:
    from tests.wire.speech import hello

    capabilities = speaker.post(hello()).json()["result"]["capabilities"]
    assert capabilities["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert "io.modelcontextprotocol/tasks" not in capabilities["extensions"]
    listed = {tool["name"]: tool for tool in Asker(speaker).ask("tools/list").json()["result"]["tools"]}
    assert listed["errand"]["execution"] == {"taskSupport": "optional"}
    assert listed["chore"]["execution"] == {"taskSupport": "required"}
    assert "execution" not in listed["hold"]
    older = speaker.post(hello("2025-06-18")).json()["result"]["capabilities"]
    assert "tasks" not in older
    for tool in Asker(speaker, "2025-06-18").ask("tools/list").json()["result"]["tools"]:
        assert "execution" not in tool


def test_a_task_is_made_polled_and_its_result_waited_for(asker: Asker, hub: Hub, box: Box) -> None:
    task = asker.start("errand", {"name": box.name}, task={"ttl": 60_000})
    assert (task["status"], task["ttl"], task["pollInterval"]) == ("working", 60_000, 1000)
    assert task["createdAt"] <= task["lastUpdatedAt"]
    assert asker.get(task["taskId"])["status"] == "working"
    waiting = Apart(lambda: asker.ask("tasks/result", taskId=task["taskId"]))
    until(lambda: box.has("began"))
    box.release()
    result = waiting.answer().json()["result"]
    assert result["content"] == [{"type": "text", "text": f"{box.name} was released"}]
    assert result["_meta"][RELATED] == {"taskId": task["taskId"]}
    assert "resultType" not in result
    assert asker.get(task["taskId"])["status"] == "completed"
    again = asker.ask("tasks/result", taskId=task["taskId"]).json()["result"]
    assert again == result
    assert hub.row(session=asker.session)["invocation_id"] == result["_meta"]["mcphub/invocationId"]


def test_a_task_outlives_the_session_that_made_it(speaker: Speaker, hub: Hub, box: Box) -> None:
    first = Asker(speaker)
    task = first.start("chore", {"name": box.name})
    until(lambda: box.has("began"))
    assert speaker.http.delete("/mcp", headers=speaker.headers(mcp_session_id=first.session)).status_code == 204
    box.release()
    second = Asker(speaker)
    result = second.ask("tasks/result", taskId=task["taskId"]).json()["result"]
    assert result["content"][0]["text"] == f"{box.name} was released"
    assert hub.row(session=first.session)["status"] == "ok"


def test_a_tool_error_fails_the_task_and_is_its_result(asker: Asker) -> None:
    task = asker.start("failing_job")
    result = asker.ask("tasks/result", taskId=task["taskId"]).json()["result"]
    assert result["isError"] is True
    assert asker.get(task["taskId"])["status"] == "failed"


def test_an_error_of_the_protocol_is_said_again(asker: Asker) -> None:
    task = asker.start("protocol_error_job")
    answer = asker.ask("tasks/result", taskId=task["taskId"])
    assert "always does" in refused(answer, -32603)
    assert asker.get(task["taskId"])["status"] == "failed"


def test_cancelling_is_done_when_it_is_answered(asker: Asker, hub: Hub, box: Box) -> None:
    task = asker.start("errand", {"name": box.name})
    until(lambda: box.has("began"))
    cancelled = asker.ask("tasks/cancel", taskId=task["taskId"]).json()["result"]
    assert (cancelled["taskId"], cancelled["status"]) == (task["taskId"], "cancelled")
    until(lambda: box.has("cancelled"))
    assert "cancelled already" in refused(asker.ask("tasks/cancel", taskId=task["taskId"]), -32602)
    assert asker.ask("tasks/result", taskId=task["taskId"]).json()["result"]["isError"] is True
    assert hub.row(session=asker.session)["error_code"] == "cancelled"
    assert asker.get(task["taskId"])["status"] == "cancelled"


def test_the_notification_that_cancels_requests_leaves_tasks_alone(asker: Asker, box: Box) -> None:
    task = asker.start("errand", {"name": box.name}, id="mine")
    until(lambda: box.has("began"))
    word = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "mine"}}
    assert asker.speaker.post(word, mcp_session_id=asker.session).status_code == 202
    box.release()
    result = asker.ask("tasks/result", taskId=task["taskId"]).json()["result"]
    assert result["content"][0]["text"] == f"{box.name} was released"


def test_a_repeated_request_is_answered_with_its_first_task(asker: Asker, hub: Hub, box: Box) -> None:
    first = asker.start("errand", {"name": box.name}, id="same")
    again = asker.start("errand", {"name": box.name}, id="same")
    assert again["taskId"] == first["taskId"]
    assert "another request" in refused(asker.call("errand", {"name": "other"}, id="same"), -31004)
    box.release()
    asker.ask("tasks/result", taskId=first["taskId"])
    assert box.times("began") == 1
    rows = until(lambda: len(found := hub.rows(session=asker.session)) == 3 and found)
    assert sorted(row["error_code"] for row in rows) == ["", "duplicate_request", "duplicate_request"]


def test_the_list_shows_the_callers_own_in_pages(hub: Hub, speaker: Speaker) -> None:

    with Speaker(hub.url, hub.operate(operations.issue_key, "many", ["tools:list", "tools:call"])) as one:
        until(lambda: one.modern("server/discover").status_code == 200)
        asker = Asker(one)
        mine = [asker.start("failing_job")["taskId"] for _ in range(55)]
        first = asker.ask("tasks/list").json()["result"]
        second = asker.ask("tasks/list", cursor=first["nextCursor"]).json()["result"]
        assert [task["taskId"] for task in first["tasks"] + second["tasks"]] == mine[::-1]
        assert (len(first["tasks"]), "nextCursor" in second) == (50, False)
        refused(Asker(speaker).ask("tasks/list", cursor=first["nextCursor"]), -32602)
        for cursor in ("x", 1, first["nextCursor"] + "x", ""):
            refused(asker.ask("tasks/list", cursor=cursor), -32602)


def test_wrong_use_is_refused(asker: Asker, speaker: Speaker, hub: Hub) -> None:
    assert "without params.task" in refused(asker.call("hold", {"name": "x"}), -32601)
    assert "with params.task" in refused(asker.ask("tools/call", name="chore", arguments={"name": "x"}), -32601)
    for task in ([], "x", {"ttl": "long"}, {"ttl": -1}, {"ttl": True}):
        refused(asker.call("errand", {"name": "x"}, task=task), -32602)
    assert {row["error_code"] for row in hub.rows(session=asker.session)} == {"method_not_found", "invalid_params"}
    older = Asker(speaker, "2025-06-18")
    assert "2025-11-25" in refused(older.ask("tools/call", name="chore", arguments={"name": "x"}), -32601)
    refused(older.ask("tasks/list"), -32601)
    refused(asker.ask("tasks/update", taskId="x", inputResponses={}), -32601)


def test_a_client_of_an_older_revision_may_send_task_and_is_answered_at_once(speaker: Speaker, hub: Hub) -> None:
    older = Asker(speaker, "2025-06-18")
    assert older.call("add", {"a": 1, "b": 2}).json()["result"]["content"][0]["text"]


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
def test_foreign_and_unknown_tasks_answer_alike(
    asker: Asker, hub: Hub, keys: dict[str, str], box: Box, method: str
) -> None:
    task = asker.start("errand", {"name": box.name})
    with Speaker(hub.url, keys["other"]) as other:
        stranger = Asker(other)
        foreign = refused(stranger.ask(method, taskId=task["taskId"]), -32602)
        assert refused(stranger.ask(method, taskId="nowhere"), -32602) == foreign
        assert task["taskId"] not in [each["taskId"] for each in stranger.ask("tasks/list").json()["result"]["tasks"]]
    assert asker.get(task["taskId"])["status"] == "working"
    refused(asker.ask(method), -32602)


def test_the_parameter_decides_which_task_is_meant(asker: Asker, box: Box) -> None:
    mine, other = asker.start("errand", {"name": box.name}), asker.start("errand", {"name": box.name})
    meta = {RELATED: {"taskId": other["taskId"]}}
    found = asker.ask("tasks/get", taskId=mine["taskId"], _meta=meta).json()["result"]
    assert (found["taskId"], "_meta" in found) == (mine["taskId"], False)
    cancelled = asker.ask("tasks/cancel", taskId=mine["taskId"], _meta=meta).json()["result"]
    assert (cancelled["taskId"], asker.get(other["taskId"])["status"]) == (mine["taskId"], "working")


def test_a_task_is_gone_when_its_lifetime_is_over(asker: Asker, hub: Hub, box: Box) -> None:
    # A second, the shortest lifetime, may be over on a busy machine before the tool runs.
    task = asker.start("errand", {"name": box.name}, task={"ttl": 5000})
    assert task["ttl"] == 5000
    until(lambda: "error" in asker.ask("tasks/get", taskId=task["taskId"]).json())
    until(lambda: box.has("cancelled"))
    assert hub.row(session=asker.session)["error_code"] == "timeout"
    bounds = [asker.start("failing_job", task={"ttl": ttl})["ttl"] for ttl in (1, 10**15)]
    assert bounds == [1000, 86_400_000]


def test_the_session_hears_of_its_tasks(asker: Asker, box: Box) -> None:
    speaker = asker.speaker
    with speaker.streaming("GET", mcp_session_id=asker.session, content_type=None) as (_, heard):
        meta = {"progressToken": "p"}
        task = asker.ask("tools/call", name="errand", arguments={"name": box.name}, task={}, _meta=meta).json()[
            "result"
        ]["task"]
        progress = next(heard)
        assert progress["method"] == "notifications/progress"
        assert progress["params"]["progressToken"] == "p"
        assert progress["params"]["_meta"] == {RELATED: {"taskId": task["taskId"]}}
        box.release()
        status = next(heard)
    assert status["method"] == "notifications/tasks/status"
    assert (status["params"]["taskId"], status["params"]["status"]) == (task["taskId"], "completed")
    assert "_meta" not in status["params"]


def test_both_forms_tell_of_one_task(asker: Asker, box: Box) -> None:
    from tests.wire.task_clients import Follower

    task = asker.start("errand", {"name": box.name})
    follower = Follower(asker.speaker)
    assert follower.get(task["taskId"])["ttlMs"] == task["ttl"]
    made = follower.call("chore", name=box.name)
    assert asker.get(made["taskId"])["status"] == "working"
    box.release()
    assert asker.ask("tasks/result", taskId=made["taskId"]).json()["result"]["content"]
    assert follower.end(task["taskId"])["status"] == "completed"


def test_a_call_repeated_under_the_clients_own_key_is_one_task(asker: Asker, speaker: Speaker, box: Box) -> None:
    def start(session: Asker) -> str:
        meta = {"mcphub/idempotencyKey": box.name}
        made = session.ask("tools/call", name="errand", arguments={"name": box.name}, task={}, _meta=meta)
        task_id: str = made.json()["result"]["task"]["taskId"]
        return task_id

    first = start(asker)
    assert start(Asker(speaker)) == first
    box.release()
    asker.ask("tasks/result", taskId=first)
    assert start(asker) == first
    assert box.times("began") == 1
