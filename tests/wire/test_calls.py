"""Calls that are refused, repeated, cancelled, left alone or late, and what the audit says of each."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from tests.servers import Hub, until
from tests.wire.speech import Speaker, error_of, request, wire
from tests.wire.toolbox import Apart, Box, text_of

REFUSED: list[tuple[str, str, Any, str, int]] = [
    ("wire", "nowhere", {}, "tool_not_found", 400),
    ("wire", "add", {"a": 1}, "invalid_arguments", 200),
    ("wire", "add", {"a": 1, "b": 2, "c": 3}, "invalid_arguments", 200),
    ("wire", "test_missing_capability", {}, "missing_client_capability", 400),
    ("wire", "test_x_mcp_header", {"region": "eu"}, "header_mismatch", 400),
    ("lister", "add", {"a": 1, "b": 2}, "forbidden", 403),
]


@pytest.mark.parametrize(("who", "tool", "arguments", "code", "status"), REFUSED)
def test_every_refused_call_stands_in_the_audit(
    hub: Hub, keys: dict[str, str], who: str, tool: str, arguments: Any, code: str, status: int
) -> None:
    with Speaker(hub.url, keys[who]) as speaker:
        answer = speaker.modern_call(tool, arguments)
        assert answer.status_code == status, answer.text
        row = hub.row(client=speaker.name)
    assert (row["tool_name"], row["status"], row["error_code"]) == (tool, "error", code)
    assert row["arguments"] == arguments
    assert (row["caller_label"], row["transport"]) == (who, "streamable-http")
    if status != 200:
        assert error_of(answer)["data"]["errorCode"] == code
        assert error_of(answer)["data"]["invocationId"] == row["invocation_id"]
        assert row["error"] == error_of(answer)
    else:
        result = answer.json()["result"]
        assert result["isError"] is True
        assert result["_meta"]["mcphub/invocationId"] == row["invocation_id"]


@pytest.mark.parametrize("params", [{}, {"name": ""}, {"name": 5}, {"name": "add", "arguments": [1]}])
def test_a_call_that_names_no_tool_is_no_call(speaker: Speaker, params: Any) -> None:
    session = speaker.open_session()
    answer = speaker.in_session(session, "tools/call", params)
    assert (answer.status_code, error_of(answer)["code"]) == (200, -32602)


def test_an_answer_is_in_the_tools_own_order_and_its_record_in_canonical_order(speaker: Speaker, hub: Hub) -> None:
    answer = speaker.modern_call("add", {"b": 2, "a": 1})
    assert '"content":[{"type":"text","text":"3"}],"structuredContent":{"result":3}' in answer.text
    assert hub.row(client=speaker.name)["result"]["content"] == answer.json()["result"]["content"]


def test_a_call_leaves_one_row_with_what_went_in_and_out(speaker: Speaker, hub: Hub) -> None:
    answer = speaker.modern("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}, id="id-1")
    row = hub.row(client=speaker.name)
    result = answer.json()["result"]
    assert (row["status"], row["tool_version"], row["request_id"]) == ("ok", "1", "id-1")
    assert (row["arguments"], row["result"]["content"]) == ({"a": 1, "b": 2}, result["content"])
    assert row["invocation_id"] == result["_meta"]["mcphub/invocationId"]


def test_a_repeated_request_id_is_answered_again_and_run_once(speaker: Speaker, hub: Hub, box: Box) -> None:
    session = speaker.open_session()
    first, again = (speaker.call(session, "count", {"name": box.name}, id="same") for _ in range(2))
    assert text_of(first) == text_of(again) == "call number 1"
    assert box.times("counted") == 1
    second, one = hub.rows(session=session)
    assert second["duplicate_of"] == one["invocation_id"]
    assert again.json()["result"]["_meta"]["mcphub/duplicateOf"] == one["invocation_id"]
    assert text_of(speaker.call(session, "count", {"name": box.name}, id="other")) == "call number 2"


def test_an_idempotency_key_is_heard_in_the_header_and_in_the_body_of_each_era(
    speaker: Speaker, hub: Hub, box: Box
) -> None:
    key = uuid.uuid4().hex
    what = {"name": "count", "arguments": {"name": box.name}}
    marked = {**what, "_meta": {"mcphub/idempotencyKey": key}}
    session = speaker.open_session()
    answers = [
        speaker.modern("tools/call", what, idempotency_key=key),
        speaker.modern("tools/call", marked),
        speaker.in_session(session, "tools/call", marked),
        speaker.post(request("tools/call", what), mcp_session_id=session, idempotency_key=key),
    ]
    assert [text_of(answer) for answer in answers] == ["call number 1"] * 4
    assert box.times("counted") == 1
    first, *others = [answer.json()["result"]["_meta"] for answer in answers]
    assert "mcphub/duplicateOf" not in first
    assert {meta["mcphub/duplicateOf"] for meta in others} == {first["mcphub/invocationId"]}
    other = speaker.modern("tools/call", {**what, "arguments": {"name": box.name + "x"}}, idempotency_key=key)
    assert (other.status_code, error_of(other)["data"]["errorCode"]) == (400, "duplicate_request")
    for wrong in ("", "two words", 5):
        answer = speaker.modern("tools/call", {**what, "_meta": {"mcphub/idempotencyKey": wrong}})
        assert (answer.status_code, error_of(answer)["code"]) == (400, -32602)


def test_a_request_id_used_for_something_else_is_refused(speaker: Speaker, hub: Hub, box: Box) -> None:
    session = speaker.open_session()
    speaker.call(session, "count", {"name": box.name}, id=1)
    other = speaker.call(session, "count", {"name": box.name + "x"}, id=1)
    assert error_of(other)["data"]["errorCode"] == "duplicate_request"
    assert other.json()["id"] == 1
    row = hub.rows(session=session)[0]
    assert (row["error_code"], row["duplicate_of"] != "") == ("duplicate_request", True)
    assert text_of(speaker.call(session, "count", {"name": box.name}, id="1")) == "call number 2"


def test_a_repeat_of_a_running_call_waits_for_its_answer(speaker: Speaker, hub: Hub, box: Box) -> None:
    session = speaker.open_session()
    both = [Apart(lambda: speaker.call(session, "hold", {"name": box.name}, id="h")) for _ in range(2)]
    until(lambda: box.has("began"))
    box.release()
    assert [text_of(each.answer()) for each in both] == [f"{box.name} was released"] * 2
    assert box.times("began") == 1
    assert [row["duplicate_of"] != "" for row in hub.rows(session=session)] == [True, False]


def test_leaving_a_stateless_call_cancels_it(speaker: Speaker, hub: Hub, box: Box) -> None:
    leave(
        speaker,
        speaker.modern_body("tools/call", params := hold(box)),
        box,
        speaker.modern_headers("tools/call", params),
    )
    until(lambda: box.has("cancelled"))
    row = hub.row(client=speaker.name)
    assert (row["status"], row["error_code"]) == ("error", "cancelled")


def test_leaving_a_call_of_a_session_does_not_cancel_it(speaker: Speaker, hub: Hub, box: Box) -> None:
    session = speaker.open_session()
    leave(speaker, request("tools/call", hold(box), id="left"), box, {"mcp_session_id": session})
    assert speaker.in_session(session, "ping").status_code == 200
    box.release()
    row = hub.row(session=session)
    assert (row["status"], row["error_code"]) == ("ok", "")
    assert not box.has("cancelled")
    again = speaker.call(session, "hold", {"name": box.name}, id="left")
    assert text_of(again) == f"{box.name} was released"


def test_a_cancelled_notification_stops_the_call_of_its_session(speaker: Speaker, hub: Hub, box: Box) -> None:
    session, other = speaker.open_session(), speaker.open_session()
    call = Apart(lambda: speaker.call(session, "hold", {"name": box.name}, id="c"))
    until(lambda: box.has("began"))
    word = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}}
    assert speaker.post(word, mcp_session_id=other).status_code == 202
    assert speaker.post(word, mcp_protocol_version="2026-07-28").status_code == 202
    assert speaker.in_session(session, "ping").status_code == 200
    assert not box.has("cancelled")
    assert speaker.post(word, mcp_session_id=session).status_code == 202
    assert call.answer().json()["result"]["isError"] is True
    assert hub.row(session=session)["error_code"] == "cancelled"


@pytest.mark.parametrize("tool", ["hold", "look"])
def test_a_call_whose_session_ends_meanwhile_gets_a_last_word(speaker: Speaker, hub: Hub, box: Box, tool: str) -> None:
    session = speaker.open_session()
    params = {"name": tool, "arguments": {"name": box.name}, "_meta": {"progressToken": "t"}}
    with speaker.streaming("POST", request("tools/call", params, id="e"), mcp_session_id=session) as (_, heard):
        assert next(heard)["method"] == "notifications/progress"
        assert speaker.http.delete("/mcp", headers=speaker.headers(mcp_session_id=session)).status_code == 204
        box.release()
        (last,) = heard
    assert last["id"] == "e"
    if tool == "look":
        assert last["error"]["data"]["errorCode"] == "session_not_found"
    else:
        assert last["result"]["content"][0]["text"] == f"{box.name} was released"
    assert hub.row(session=session)["tool_name"] == tool


def test_a_call_over_its_time_is_stopped_and_says_so(speaker: Speaker, hub: Hub, box: Box) -> None:
    session = speaker.open_session()
    answer = speaker.call(session, "outlast", {"name": box.name})
    assert answer.json()["result"]["isError"] is True
    assert "within 0.3 s" in text_of(answer)
    assert box.has("cancelled")
    row = hub.row(session=session)
    assert (row["error_code"], row["status"]) == ("timeout", "error")


def hold(box: Box) -> dict[str, Any]:
    return {"name": "hold", "arguments": {"name": box.name}}


def leave(speaker: Speaker, body: Any, box: Box, headers: dict[str, str | None]) -> None:
    """Send a request, wait until its tool runs, and close the connection."""
    raw = json.dumps(body).encode()
    head = speaker.headers(host="127.0.0.1", content_length=str(len(raw)), **headers)
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    with wire(speaker.url) as connection:
        connection.sendall(b"POST /mcp HTTP/1.1\r\n%b\r\n%b" % (lines.encode(), raw))
        until(lambda: box.has("began"))
