"""Arrays of messages, which sessions of 2025-03-26 may send and no others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.servers import Hub
from tests.wire.input_requests import answer_to
from tests.wire.resumption import frames, rest
from tests.wire.speech import Speaker, error_of, hello, request
from tests.wire.toolbox import Box

BATCHING = "2025-03-26"
WORD = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(id: Any, tool: str, *, token: Any = None, **arguments: Any) -> dict[str, Any]:
    meta = {} if token is None else {"_meta": {"progressToken": token}}
    return request("tools/call", {"name": tool, "arguments": arguments, **meta}, id)


def test_requests_are_answered_in_one_array(speaker: Speaker, hub: Hub) -> None:
    session = speaker.open_session(BATCHING)
    body = [
        request("ping", id="p"),
        call(1, "echo", text="one"),
        WORD,
        call("1", "echo", text="other"),
        request("nonsense", id=3),
        call(4, "nowhere"),
        request("tools/list", id=5),
        5,
        request("ping", id="p"),
        hello(BATCHING, id=6),
    ]
    answer = speaker.post(body, mcp_session_id=session)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    by_id: dict[Any, list[Any]] = {}
    for each in answer.json():
        assert each["jsonrpc"] == "2.0"
        by_id.setdefault(each["id"], []).append(each.get("result", each.get("error")))
    assert by_id[1][0]["content"][0]["text"] == "one"
    assert by_id["1"][0]["content"][0]["text"] == "other"
    assert [by_id[id][0]["code"] for id in (3, 4, 6, None)] == [-32601, -32602, -32600, -32600]
    assert sorted(str(each.get("code")) for each in by_id["p"]) == ["-32600", "None"]
    assert len(by_id[5][0]["tools"]) > 5
    assert len(answer.json()) == 9
    assert len(hub.rows(session=session)) == 3


def test_once_something_is_said_before_all_answers_are_events(speaker: Speaker, box: Box) -> None:
    session = speaker.open_session(BATCHING)
    body = [call(1, "echo", text="at once"), call(2, "hold", token="t", name=box.name), call(3, "tell", times=1)]
    with speaker.streaming("POST", body, mcp_session_id=session) as (answer, _):
        assert answer.headers["content-type"] == "text/event-stream"
        heard = frames(answer)
        got = [next(heard)]
        while sum("id" in frame.message for frame in got) < 2:
            got.append(next(heard))
        box.release()
        got += heard
    assert [frame.message.get("id") for frame in got][-1] == 2
    assert {frame.message["id"] for frame in got if "id" in frame.message} == {1, 2, 3}
    assert rest(speaker, session, got[0].id) == got[1:]


def test_notifications_and_answers_alone_are_taken(speaker: Speaker) -> None:
    session = speaker.open_session(BATCHING)
    answer = speaker.post([WORD, {"jsonrpc": "2.0", "id": 1, "result": {}}], mcp_session_id=session)
    assert (answer.status_code, answer.content) == (202, b"")


def test_what_was_asked_is_answered_in_an_array(speaker: Speaker) -> None:
    session = speaker.open_session(BATCHING, roots={}, sampling={})
    body = [call(1, "test_input_required_result_list_roots"), call(2, "test_sampling", prompt="Hi")]
    with speaker.streaming("POST", body, mcp_session_id=session) as (_, heard):
        asked = {each["method"]: each for each in (next(heard), next(heard))}
        said = {"role": "assistant", "content": {"type": "text", "text": "Ho"}, "model": "m"}
        answers = [answer_to(asked["roots/list"], {"roots": []}), answer_to(asked["sampling/createMessage"], said)]
        assert speaker.post(answers, mcp_session_id=session).status_code == 202
        done = {each["id"]: each["result"]["content"][0]["text"] for each in heard}
    assert done == {1: "The client has 0 roots: ", 2: "LLM response: Ho"}


def test_a_bad_notification_of_an_array_is_not_answered(speaker: Speaker) -> None:
    session = speaker.open_session(BATCHING)
    bad = {"jsonrpc": "2.0", "method": "notifications/x", "params": [1]}
    alone = speaker.post([bad, WORD], mcp_session_id=session)
    assert (alone.status_code, alone.content) == (400, b"")
    assert [each["id"] for each in speaker.post([bad, request("ping", id=1)], mcp_session_id=session).json()] == [1]
    assert len(speaker.post([bad, 5], mcp_session_id=session).json()) == 1


@pytest.mark.parametrize("body", [[], [5], [[]], [request("ping", id=n) for n in range(101)]])
def test_an_array_of_nothing_good_is_refused(speaker: Speaker, body: Any) -> None:
    session = speaker.open_session(BATCHING)
    answer = speaker.post(body, mcp_session_id=session)
    assert answer.status_code == 400
    found = answer.json()
    for each in found if isinstance(found, list) else [found]:
        assert (each["error"]["code"], each["id"]) == (-32600, None)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_other_sessions_take_no_arrays(speaker: Speaker, version: str) -> None:
    session = speaker.open_session(version)
    answer = speaker.post([request("ping")], mcp_session_id=session)
    assert (answer.status_code, error_of(answer)["code"]) == (400, -32600)
    assert "2025-03-26" in error_of(answer)["message"]
    assert speaker.post([hello(BATCHING)]).status_code == 400


def test_http_with_sse_takes_an_array_too(speaker: Speaker) -> None:
    with speaker.streaming("GET", path="/sse", content_type=None) as (_, heard):
        path = next(heard)["endpoint"]
        early = speaker.post([request("ping", id=0)], path)
        assert (early.status_code, error_of(early)["code"]) == (400, -32600)
        speaker.post(hello(BATCHING, speaker.name, id=1), path)
        assert next(heard)["id"] == 1
        bad = {**WORD, "params": [1]}
        assert speaker.post([bad, WORD, request("ping", id=2), call(3, "echo", text="x"), 7], path).status_code == 202
        got = {each["id"]: each for each in (next(heard), next(heard), next(heard))}
    assert got[2]["result"] == {}
    assert got[3]["result"]["content"][0]["text"] == "x"
    assert got[None]["error"]["code"] == -32600
