"""Event streams: the listening GET, subscriptions, HTTP+SSE, and answers that have something to say before."""

from __future__ import annotations

from typing import Any

import pytest

from tests import operations
from tests.servers import Hub, until
from tests.wire.edits import CHANGED, edited, names
from tests.wire.speech import META, Speaker, error_of, hello, request
from tests.wire.toolbox import text_of


@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25"])
def test_a_listening_session_hears_of_an_edit(speaker: Speaker, hub: Hub, version: str) -> None:
    session = speaker.open_session(version)
    listen = {"mcp_session_id": session, "accept": "text/event-stream", "content_type": None}
    with speaker.streaming("GET", **listen) as (answer, heard):
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-cache"
        with edited(hub, "current_time"):
            assert next(heard) == {"jsonrpc": "2.0", "method": CHANGED, "params": {}}
            assert "current_time" not in names(speaker.in_session(session, "tools/list"))
            disabled = speaker.call(session, "current_time")
            assert error_of(disabled)["data"]["errorCode"] == "tool_disabled"
        assert next(heard)["method"] == CHANGED
        assert "current_time" in names(speaker.in_session(session, "tools/list"))


@pytest.mark.parametrize("tool", ["tell_list", "tell_list_plainly"])
@pytest.mark.parametrize("kind", ["tools", "prompts", "resources"])
def test_a_tool_announces_a_changed_list(speaker: Speaker, tool: str, kind: str) -> None:
    session = speaker.open_session()
    with speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, heard):
        assert text_of(speaker.call(session, tool, {"kind": kind})) == kind
        assert next(heard) == {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed", "params": {}}


def test_closing_the_session_ends_its_stream(speaker: Speaker) -> None:
    session = speaker.open_session()
    with speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, heard):
        assert speaker.http.delete("/mcp", headers=speaker.headers(mcp_session_id=session)).status_code == 204
        assert list(heard) == []


def test_of_two_streams_of_a_session_one_is_told(speaker: Speaker, hub: Hub) -> None:
    session = speaker.open_session()
    listen = {"mcp_session_id": session, "content_type": None}
    with speaker.streaming("GET", **listen) as (_, first), speaker.streaming("GET", **listen) as (_, second):
        with edited(hub, "current_time"):
            assert next(second)["method"] == CHANGED
        assert next(second)["method"] == CHANGED
        assert speaker.http.delete("/mcp", headers=speaker.headers(mcp_session_id=session)).status_code == 204
        assert list(first) == []


def test_a_stream_must_be_asked_for_as_one(speaker: Speaker) -> None:
    session = speaker.open_session()
    headers = speaker.headers(mcp_session_id=session, accept="application/json")
    assert speaker.http.get("/mcp", headers=headers).status_code == 406
    assert speaker.http.get("/sse", headers=headers).status_code == 406


@pytest.mark.parametrize("id", [7, "seven"])
def test_a_subscription_is_acknowledged_first_and_then_told(speaker: Speaker, hub: Hub, id: Any) -> None:
    wanted = {"toolsListChanged": True, "promptsListChanged": False, "resourceSubscriptions": ["hub://x"]}
    body = speaker.modern_body("subscriptions/listen", {"notifications": wanted}, id)
    headers = speaker.modern_headers("subscriptions/listen")
    with speaker.streaming("POST", body, **headers) as (answer, heard):
        assert answer.headers["content-type"] == "text/event-stream"
        first = next(heard)
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == {"toolsListChanged": True}
        with edited(hub, "current_time"):
            told = next(heard)
        assert told["method"] == CHANGED
        for message in (first, told):
            assert message["params"]["_meta"] == {f"{META}subscriptionId": id}
            assert "id" not in message


def test_a_subscription_that_asks_for_nothing_known_stays_silent(speaker: Speaker, hub: Hub) -> None:
    body = speaker.modern_body("subscriptions/listen", {"notifications": {"toolsListChanged": "yes"}})
    plain = speaker.modern_body("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    headers = speaker.modern_headers("subscriptions/listen")
    with (
        speaker.streaming("POST", body, **headers) as (_, silent),
        speaker.streaming("POST", plain, **headers) as (_, told),
    ):
        assert next(silent)["params"]["notifications"] == {}
        assert next(told)["params"]["notifications"] == {"toolsListChanged": True}
        with edited(hub, "current_time"):
            assert next(told)["method"] == CHANGED
    wrong = speaker.modern("subscriptions/listen", {"notifications": []})
    assert (wrong.status_code, error_of(wrong)["code"]) == (400, -32602)


def test_progress_makes_the_answer_a_stream_in_both_eras(speaker: Speaker) -> None:
    session = speaker.open_session()
    params = {"name": "tell", "arguments": {"times": 3}, "_meta": {"progressToken": "p"}}
    legacy = (request("tools/call", params, id="L"), {"mcp_session_id": session})
    modern = (speaker.modern_body("tools/call", params, "M"), speaker.modern_headers("tools/call", params))
    for body, headers in (legacy, modern):
        with speaker.streaming("POST", body, **headers) as (answer, heard):
            assert answer.headers["content-type"] == "text/event-stream"
            *before, last = heard
        assert [message["params"]["progress"] for message in before] == [1, 2, 3]
        assert {message["params"]["progressToken"] for message in before} == {"p"}
        assert last["id"] == body["id"]
        assert last["result"]["content"] == [{"type": "text", "text": "told 3"}]


def test_without_a_token_nothing_is_said_before_the_answer(speaker: Speaker) -> None:
    answer = speaker.modern_call("tell", {"times": 3})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"]["content"][0]["text"] == "told 3"


def test_a_failure_after_progress_comes_in_the_stream(speaker: Speaker) -> None:
    params = {"name": "tell", "arguments": {"times": 1, "fail": True}, "_meta": {"progressToken": 0}}
    body = speaker.modern_body("tools/call", params, "F")
    with speaker.streaming("POST", body, **speaker.modern_headers("tools/call", params)) as (answer, heard):
        progress, last = heard
    assert answer.status_code == 200
    assert progress["params"]["progressToken"] == 0
    assert (last["id"], last["result"]["isError"]) == ("F", True)
    assert "inner words" not in str(last)


def test_logging_follows_the_level_that_was_asked_for(speaker: Speaker) -> None:
    params = {"name": "test_tool_with_logging", "arguments": {}}
    assert speaker.modern("tools/call", params).headers["content-type"] == "application/json"
    loud = {**params, "_meta": {f"{META}logLevel": "info"}}
    body, headers = speaker.modern_body("tools/call", loud), speaker.modern_headers("tools/call", loud)
    with speaker.streaming("POST", body, **headers) as (_, heard):
        assert [message.get("method") for message in heard] == ["notifications/message"] * 3 + [None]
    session = speaker.open_session()
    speaker.in_session(session, "logging/setLevel", {"level": "error"})
    assert speaker.call(session, "test_tool_with_logging").headers["content-type"] == "application/json"


def test_http_with_sse_goes_the_whole_round(speaker: Speaker, hub: Hub) -> None:
    with speaker.streaming("GET", path="/sse", content_type=None) as (answer, heard):
        assert answer.headers["content-type"] == "text/event-stream"
        path = next(heard)["endpoint"]
        assert path.startswith("/messages?sessionId=")

        early = speaker.post(request("tools/list", id="early"), path)
        assert early.status_code == 202
        assert next(heard)["error"]["code"] == -32600

        assert speaker.post(hello("2024-11-05", speaker.name, id=1), path).status_code == 202
        welcome = next(heard)
        assert (welcome["id"], welcome["result"]["protocolVersion"]) == (1, "2024-11-05")
        assert speaker.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, path).status_code == 202

        speaker.post(request("ping", id=2), path)
        assert next(heard) == {"jsonrpc": "2.0", "id": 2, "result": {}}
        speaker.post(request("tools/list", id=3), path)
        listed = next(heard)["result"]["tools"]
        assert set(listed[0]) == {"name", "description", "inputSchema"}
        params = {"name": "tell", "arguments": {"times": 2}, "_meta": {"progressToken": 9}}
        speaker.post(request("tools/call", params, id=4), path)
        messages = [next(heard) for _ in range(3)]
        assert [message.get("method") for message in messages] == ["notifications/progress"] * 2 + [None]
        assert messages[-1]["result"]["content"] == [{"type": "text", "text": "told 2"}]
        speaker.post(request("tools/call", {"name": "nowhere"}, id=5), path)
        assert next(heard)["error"]["code"] == -32602
        speaker.post(request("server/discover", id=6), path)
        assert next(heard)["error"]["code"] == -32601

        broken = speaker.post(b"{", path)
        assert (broken.status_code, error_of(broken)["code"]) == (400, -32700)
        with edited(hub, "current_time"):
            assert next(heard)["method"] == CHANGED
    rows = hub.rows(client=speaker.name)
    assert [(row["tool_name"], row["error_code"]) for row in rows] == [("nowhere", "tool_not_found"), ("tell", "")]
    assert {row["transport"] for row in rows} == {"sse"}


def test_a_client_that_goes_leaves_no_session(speaker: Speaker, hub: Hub) -> None:
    with speaker.streaming("GET", path="/sse", content_type=None) as (_, heard):
        session = next(heard)["endpoint"].partition("=")[2]
    ended = {"pk": session, "state": "closed", "end_reason": "the stream ended"}
    until(lambda: hub.operate(operations.count, "sessions_app.McpSession", **ended) == 1)
    assert speaker.post(request("ping"), f"/messages?sessionId={session}").status_code == 404


def test_messages_need_a_session_that_is_there(speaker: Speaker, hub: Hub, keys: dict[str, str]) -> None:
    assert speaker.post(request("ping"), "/messages").status_code == 400
    assert speaker.post(request("ping"), "/messages?sessionId=nobody").status_code == 404
    streamable = speaker.open_session()
    assert speaker.post(request("ping"), f"/messages?sessionId={streamable}").status_code == 404
    with speaker.streaming("GET", path="/sse", content_type=None) as (_, heard):
        path = next(heard)["endpoint"]
        with Speaker(hub.url, keys["other"]) as stranger:
            assert stranger.post(request("ping"), path).status_code == 404
        session = path.partition("=")[2]
        assert speaker.in_session(session, "ping").status_code == 404
