"""Tools that ask: by a request on the call's stream in a session, by rounds without one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.servers import Hub, until
from tests.wire.input_requests import ALL, NAMED, answer_to, calling, modern_call, round_of, state_of, text_of_event
from tests.wire.speech import META, Speaker, error_of, hello, request
from tests.wire.toolbox import Box, text_of

SURE = {"action": "accept", "content": {"sure": True}}


# In a session ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "mode"), [("2025-06-18", None), ("2025-11-25", "form")])
def test_a_session_is_asked_on_the_stream_of_the_call(speaker: Speaker, version: str, mode: str | None) -> None:
    session = speaker.open_session(version, elicitation={})
    with calling(speaker, session, "test_elicitation", {"message": "Who?"}) as (_, heard):
        asked = next(heard)
        assert (asked["method"], asked["params"]["message"]) == ("elicitation/create", "Who?")
        assert asked["params"].get("mode") == mode
        posted = speaker.post(answer_to(asked, NAMED), mcp_session_id=session)
        assert (posted.status_code, posted.content) == (202, b"")
        (result,) = heard
    assert "action=accept" in result["result"]["content"][0]["text"]
    assert "ada" in result["result"]["content"][0]["text"]


def test_several_things_are_asked_at_once_and_answered_in_any_order(speaker: Speaker) -> None:
    session = speaker.open_session(**ALL)
    with calling(speaker, session, "test_input_required_result_multiple_inputs") as (_, heard):
        asked = {each["method"]: each for each in (next(heard), next(heard), next(heard))}
        results = {
            "roots/list": {"roots": [{"uri": "file:///a"}]},
            "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "m"},
            "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
        }
        assert len({each["id"] for each in asked.values()}) == 3
        for method, result in results.items():
            speaker.post(answer_to(asked[method], result), mcp_session_id=session)
        assert text_of_event(next(heard)) == "Hello Ada, with 1 roots"


def test_nobody_else_answers(speaker: Speaker, hub: Hub, keys: dict[str, str]) -> None:
    session = speaker.open_session(**ALL)
    other_session = speaker.open_session(**ALL)
    forged = {"action": "accept", "content": {"username": "eve", "email": "e@example.org"}}
    with calling(speaker, session, "test_elicitation", {"message": "Who?"}) as (_, heard):
        asked = next(heard)
        assert speaker.post(answer_to(asked, forged), mcp_session_id=other_session).status_code == 202
        with Speaker(hub.url, keys["other"]) as stranger:
            foreign = stranger.post(answer_to(asked, forged), mcp_session_id=session)
            assert (foreign.status_code, error_of(foreign)["data"]["errorCode"]) == (404, "session_not_found")
        speaker.post(answer_to(asked, NAMED), mcp_session_id=session)
        assert "ada" in text_of_event(next(heard))


@pytest.mark.parametrize("id", [1, "x", "hub.x.y", "hub..", None])
def test_an_answer_that_nobody_asked_for_is_dropped(speaker: Speaker, id: Any) -> None:
    session = speaker.open_session()
    error = {"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "no"}}
    assert speaker.post(error, mcp_session_id=session).status_code == 202
    if id is not None:
        assert speaker.post({"jsonrpc": "2.0", "id": id, "result": {}}, mcp_session_id=session).status_code == 202


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"error": {"code": -1, "message": "The person said no"}}, "refused elicitation/create: The person said no"),
        ({"result": {}}, "action must be accept, decline or cancel"),
        ({"result": {"action": "accept", "content": {"username": 5}}}, "cannot be used"),
        ({"result": {"action": "accept", "content": [1]}}, "content must be an object"),
    ],
)
def test_an_answer_of_no_use_fails_the_call_with_a_reason(speaker: Speaker, answer: Any, words: str) -> None:
    session = speaker.open_session(elicitation={})
    with calling(speaker, session, "test_elicitation", {"message": "Who?"}) as (_, heard):
        speaker.post({"jsonrpc": "2.0", "id": next(heard)["id"], **answer}, mcp_session_id=session)
        failed = next(heard)
    assert failed["result"]["isError"] is True
    assert words in text_of_event(failed)


def test_a_client_that_did_not_declare_it_is_not_asked(speaker: Speaker, hub: Hub) -> None:
    session = speaker.open_session(elicitation={"url": {}}, sampling={})
    refused = speaker.call(session, "test_elicitation", {"message": "Who?"})
    assert refused.headers["content-type"] == "application/json"
    assert refused.json()["result"]["isError"] is True
    assert "elicitation/create, which the client does not support" in text_of(refused)

    modern = modern_call(speaker, "test_elicitation", {"message": "Who?"}, can={"sampling": {}})
    assert (modern.status_code, error_of(modern)["code"]) == (400, -32021)
    assert error_of(modern)["data"]["requiredCapabilities"] == {"elicitation": {"form": {}}}
    assert [row["error_code"] for row in hub.rows(client=speaker.name, method="tools/call")] == [
        "missing_client_capability",
        "execution_error",
    ]


def test_cancelling_the_call_takes_the_question_back(speaker: Speaker, hub: Hub) -> None:
    session = speaker.open_session(elicitation={})
    with calling(speaker, session, "test_elicitation", {"message": "Who?"}, id="gone") as (_, heard):
        asked = next(heard)
        word = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "gone"}}
        assert speaker.post(word, mcp_session_id=session).status_code == 202
        withdrawn = next(heard)
        assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", asked["id"])
        assert next(heard)["result"]["isError"] is True
    assert hub.row(client=speaker.name, method="tools/call")["error_code"] == "cancelled"
    assert speaker.post(answer_to(asked, NAMED), mcp_session_id=session).status_code == 202


def test_the_end_of_the_session_ends_the_wait(speaker: Speaker, hub: Hub) -> None:
    session = speaker.open_session(elicitation={})
    with calling(speaker, session, "test_elicitation", {"message": "Who?"}) as (_, heard):
        next(heard)
        assert speaker.http.delete("/mcp", headers=speaker.headers(mcp_session_id=session)).status_code == 204
        (ended,) = heard
    assert ended["error"]["data"]["errorCode"] == "session_not_found"


def test_a_plain_function_asks_from_its_thread(speaker: Speaker, box: Box) -> None:
    session = speaker.open_session(elicitation={})
    with calling(speaker, session, "agree", {"name": box.name}) as (_, heard):
        speaker.post(answer_to(next(heard), SURE), mcp_session_id=session)
        assert text_of_event(next(heard)) == "accept {'sure': True}"
    assert box.times("began") == 1


def test_http_with_sse_asks_on_the_stream_of_the_session(speaker: Speaker) -> None:
    with speaker.streaming("GET", path="/sse", content_type=None) as (_, heard):
        path = next(heard)["endpoint"]
        speaker.post(hello("2025-11-25", speaker.name, id=1, **ALL), path)
        assert next(heard)["id"] == 1
        speaker.post(request("tools/call", {"name": "test_sampling", "arguments": {"prompt": "Hi"}}, id=2), path)
        asked = next(heard)
        assert asked["params"]["messages"] == [{"role": "user", "content": {"type": "text", "text": "Hi"}}]
        said = {"role": "assistant", "content": {"type": "text", "text": "Ho"}, "model": "m", "stopReason": "endTurn"}
        speaker.post(answer_to(asked, said), path)
        assert text_of_event(next(heard)) == "LLM response: Ho"


# Without a session -------------------------------------------------------------------------------


def test_a_stateless_call_is_repeated_with_the_answers(speaker: Speaker, hub: Hub, box: Box) -> None:
    arguments = {"name": box.name}
    first = modern_call(speaker, "agree", arguments)
    asked = round_of(first)["inputRequests"]
    assert list(asked) == ["elicitation_1"]
    assert asked["elicitation_1"]["method"] == "elicitation/create"
    until(lambda: box.times("began") == 1)
    again = modern_call(speaker, "agree", arguments, requestState=state_of(first))
    assert round_of(again)["inputRequests"] == asked
    done = modern_call(
        speaker, "agree", arguments, inputResponses={"elicitation_1": SURE}, requestState=state_of(again)
    )
    assert done.json()["result"]["resultType"] == "complete"
    assert text_of(done) == "accept {'sure': True}"
    assert (box.times("began"), box.times("ended")) == (3, 1)
    rows = hub.rows(client=speaker.name, method="tools/call")
    assert [row["status"] for row in rows] == ["ok"] * 3
    assert rows[2]["result"] == {"resultType": "input_required", "inputRequests": asked}
    assert [row["continues"] for row in rows] == [rows[2]["invocation_id"], rows[2]["invocation_id"], None]
    assert "requestState" not in str(rows)


def test_questions_of_several_tasks_gather_in_one_round(speaker: Speaker, box: Box) -> None:
    arguments = {"name": box.name}
    first = modern_call(speaker, "side_by_side", arguments)
    assert set(round_of(first)["inputRequests"]) == {"one", "two"}
    assert box.times("cleaned") == 1
    half = modern_call(speaker, "side_by_side", arguments, inputResponses={"two": SURE}, requestState=state_of(first))
    assert set(round_of(half)["inputRequests"]) == {"one"}
    done = modern_call(speaker, "side_by_side", arguments, inputResponses={"one": SURE}, requestState=state_of(half))
    assert text_of(done) == "{'sure': True} {'sure': True}"


def test_an_answer_counts_only_for_the_question_that_was_asked(speaker: Speaker, box: Box) -> None:
    arguments = {"name": box.name}
    answer = modern_call(speaker, "fickle", arguments)
    for attempt in (1, 2, 3):
        asked = round_of(answer)["inputRequests"]["same"]
        assert asked["params"]["message"] == f"Attempt {attempt}?"
        answer = modern_call(speaker, "fickle", arguments, inputResponses={"same": SURE}, requestState=state_of(answer))
    round_of(answer)


def test_a_tool_that_asks_for_ever_is_ended(speaker: Speaker, box: Box) -> None:
    answer = modern_call(speaker, "fickle", {"name": box.name})
    for _ in range(19):
        answer = modern_call(speaker, "fickle", {"name": box.name}, requestState=state_of(answer))
    last = modern_call(speaker, "fickle", {"name": box.name}, requestState=state_of(answer))
    assert last.json()["result"]["isError"] is True
    assert "asked 20 times" in text_of(last)


@pytest.mark.parametrize("given", [{}, {"user_name": 5}, {"user_name": {"action": "yes"}}, {"wrong": SURE}])
def test_what_does_not_answer_is_asked_again(speaker: Speaker, given: Any) -> None:
    first = modern_call(speaker, "test_input_required_result_elicitation")
    tool = "test_input_required_result_elicitation"
    again = modern_call(speaker, tool, inputResponses=given, requestState=state_of(first))
    assert round_of(again)["inputRequests"] == round_of(first)["inputRequests"]


def test_a_state_is_good_for_one_caller_and_one_request(speaker: Speaker, hub: Hub, keys: dict[str, str]) -> None:
    tool = "test_input_required_result_tampered_state"
    state = state_of(modern_call(speaker, tool))
    answers = {"confirm": {"action": "accept", "content": {"ok": True}}}
    flipped = ("A" if state[30] != "A" else "B").join((state[:30], state[31:]))
    with Speaker(hub.url, keys["other"]) as stranger:
        attempts = [
            modern_call(stranger, tool, inputResponses=answers, requestState=state),
            modern_call(
                speaker, "test_input_required_result_request_state", inputResponses=answers, requestState=state
            ),
            *(
                modern_call(speaker, tool, inputResponses=answers, requestState=each)
                for each in (f"{state}-TAMPERED", flipped, state[:20], "", "ünlesbar", 5, f" {state}")
            ),
            modern_call(speaker, tool, inputResponses=[1], requestState=state),
        ]
    for attempt in attempts:
        assert (attempt.status_code, error_of(attempt)["code"]) == (400, -32602)
        assert "requestState" in error_of(attempt)["message"] or "inputResponses" in error_of(attempt)["message"]
    assert text_of(modern_call(speaker, tool, inputResponses=answers, requestState=state)).startswith("The state")
    refused = [row for row in hub.rows(client=speaker.name, method="tools/call") if row["status"] == "error"]
    assert {row["error_code"] for row in refused} == {"invalid_params"}
    assert len(refused) == len(attempts) - 1


def test_an_idempotency_key_of_any_length_lasts_through_all_rounds(speaker: Speaker, box: Box) -> None:
    meta = {f"{META}clientCapabilities": ALL, "mcphub/idempotencyKey": box.name.ljust(255, "k")}
    call: dict[str, Any] = {"name": "agree", "arguments": {"name": box.name}, "_meta": meta}
    first = speaker.modern("tools/call", call)
    second = {**call, "inputResponses": {"elicitation_1": SURE}, "requestState": state_of(first)}
    for _ in range(2):
        assert text_of(speaker.modern("tools/call", second)) == "accept {'sure': True}"
    assert (box.times("began"), box.times("ended")) == (2, 1)


def test_a_key_used_twice_is_the_tool_s_mistake(speaker: Speaker) -> None:
    session = speaker.open_session(elicitation={})
    with calling(speaker, session, "twice") as (_, heard):
        speaker.post(answer_to(next(heard), SURE), mcp_session_id=session)
        failed = next(heard)
    assert failed["result"]["isError"] is True
    assert "ValueError" in text_of_event(failed)


def test_a_revision_without_forms_is_not_asked_for_one(speaker: Speaker) -> None:
    session = speaker.open_session("2024-11-05", elicitation={})
    assert "does not support" in text_of(speaker.call(session, "test_elicitation", {"message": "Who?"}))


@pytest.mark.parametrize("tool", ["impatient", "impatient_thread"])
def test_the_time_that_a_person_takes_is_not_the_tool_s(speaker: Speaker, box: Box, tool: str) -> None:
    session = speaker.open_session(elicitation={})
    with calling(speaker, session, tool) as (_, heard):
        asked = next(heard)
        # More than the three seconds that the tool has: calls of another tool meet their deadline meanwhile.
        for _ in range(11):
            assert "did not finish within 0.3 s" in text_of(speaker.modern_call("outlast", {"name": box.name}))
        speaker.post(answer_to(asked, SURE), mcp_session_id=session)
        assert "'sure': True" in text_of_event(next(heard))


@pytest.mark.parametrize("tool", ["impatient", "impatient_thread"])
def test_a_call_given_up_takes_its_question_back(speaker: Speaker, tool: str) -> None:
    session = speaker.open_session(elicitation={})
    with calling(speaker, session, tool, id="given up") as (_, heard):
        asked = next(heard)
        word = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "given up"}}
        speaker.post(word, mcp_session_id=session)
        said = [next(heard), next(heard)]
    withdrawn = next(each for each in said if "method" in each)
    assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", asked["id"])
