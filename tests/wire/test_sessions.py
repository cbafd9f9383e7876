"""Sessions over Streamable HTTP: whose they are, how long they live, what they answer."""

from __future__ import annotations

import httpx2
import pytest

from tests import operations
from tests.servers import Hub
from tests.wire.speech import LEGACY, Speaker, error_of, hello, request


def is_gone(answer: httpx2.Response) -> bool:
    """Unknown, foreign and ended sessions answer alike."""
    return answer.status_code == 404 and error_of(answer)["data"]["errorCode"] == "session_not_found"


def test_a_session_needs_its_header(speaker: Speaker) -> None:
    speaker.open_session()
    for answer in (
        speaker.post(request("ping"), mcp_protocol_version=LEGACY),
        speaker.http.get("/mcp", headers=speaker.headers()),
        speaker.http.delete("/mcp", headers=speaker.headers()),
    ):
        assert answer.status_code == 400
        assert "Mcp-Session-Id" in error_of(answer)["message"]


@pytest.mark.parametrize("session", ["nobody", "", "x" * 300, "%00", "é".encode("latin-1")])
def test_an_unknown_session_is_not_found(speaker: Speaker, session: str | bytes) -> None:
    for method, body in (("POST", request("ping")), ("GET", None), ("DELETE", None)):
        headers = {**speaker.headers(), "mcp-session-id": session}
        assert is_gone(speaker.http.request(method, "/mcp", json=body, headers=headers))


def test_a_session_belongs_to_the_key_that_opened_it(speaker: Speaker, hub: Hub, keys: dict[str, str]) -> None:
    session = speaker.open_session()
    with Speaker(hub.url, keys["other"]) as stranger:
        assert is_gone(stranger.in_session(session, "tools/list"))
        assert is_gone(stranger.call(session, "echo", {"text": "stolen"}))
        assert is_gone(stranger.http.get("/mcp", headers=stranger.headers(mcp_session_id=session)))
        assert is_gone(stranger.http.delete("/mcp", headers=stranger.headers(mcp_session_id=session)))
    assert speaker.in_session(session, "ping").json()["result"] == {}


def test_a_closed_session_is_gone(speaker: Speaker, hub: Hub) -> None:
    session = speaker.open_session()
    headers = speaker.headers(mcp_session_id=session)
    assert speaker.http.delete("/mcp", headers=headers).status_code == 204
    assert is_gone(speaker.http.delete("/mcp", headers=headers))
    assert is_gone(speaker.in_session(session, "ping"))
    assert is_gone(speaker.call(session, "echo", {"text": "late"}))
    assert is_gone(speaker.http.get("/mcp", headers=headers))


def test_a_session_ended_by_an_operator_is_gone(speaker: Speaker, hub: Hub) -> None:
    session = speaker.open_session()
    assert speaker.call(session, "echo", {"text": "before"}).status_code == 200
    hub.operate(operations.close_session, session, "by the operator")
    assert is_gone(speaker.call(session, "count", {"name": session[:8]}))
    assert not (hub.data / "toolbox" / f"{session[:8]}.counted").exists()


def test_session_ids_are_visible_ascii_and_never_repeat(speaker: Speaker) -> None:
    ids = {speaker.open_session() for _ in range(5)}
    assert len(ids) == 5
    assert all(len(id) >= 20 and all(0x21 <= ord(sign) <= 0x7E for sign in id) for id in ids)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"protocolVersion": 1, "clientInfo": {"name": "x"}},
        {"protocolVersion": LEGACY},
        {"protocolVersion": LEGACY, "clientInfo": "x"},
        {"protocolVersion": LEGACY, "clientInfo": {"name": "x"}, "capabilities": []},
    ],
)
def test_a_handshake_that_lacks_something_opens_nothing(speaker: Speaker, params: dict) -> None:
    answer = speaker.post(request("initialize", params, id="h"))
    assert answer.status_code == 400
    assert (answer.json()["id"], error_of(answer)["code"]) == ("h", -32602)
    assert "mcp-session-id" not in answer.headers


def test_methods_of_a_session_answer_by_the_book(speaker: Speaker) -> None:
    session = speaker.open_session()
    assert speaker.in_session(session, "ping").json()["result"] == {}
    assert speaker.in_session(session, "logging/setLevel", {"level": "debug"}).json()["result"] == {}
    wrong = speaker.in_session(session, "logging/setLevel", {"level": "loud"}, id="w")
    assert (wrong.status_code, wrong.json()["id"], error_of(wrong)["code"]) == (200, "w", -32602)
    for method in ("subscriptions/listen", "server/discover", "none"):
        answer = speaker.in_session(session, method, {})
        assert (answer.status_code, error_of(answer)["code"]) == (200, -32601), method
    bad_cursor = speaker.in_session(session, "tools/list", {"cursor": "x"})
    assert error_of(bad_cursor)["code"] == -32602


def test_what_a_session_advertises_is_what_it_does(speaker: Speaker) -> None:
    both = {
        "tools": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "prompts": {"listChanged": True},
        "completions": {},
        "logging": {},
    }
    result = speaker.post(hello()).json()["result"]
    tasks = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    of_sessions = {"io.modelcontextprotocol/skills": {"directoryRead": True}, "io.modelcontextprotocol/events": {}}
    draft = {"events": {}}  # where ChatGPT looks
    assert result["capabilities"] == {**both, **draft, "tasks": tasks, "extensions": of_sessions}
    discovered = speaker.modern("server/discover").json()["result"]
    extensions = {
        "io.modelcontextprotocol/tasks": {},
        "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]},
        **of_sessions,
    }
    assert discovered["capabilities"] == {**both, **draft, "extensions": extensions}


def test_responses_and_unknown_notifications_are_taken(speaker: Speaker) -> None:
    session = speaker.open_session()
    for body in (
        {"jsonrpc": "2.0", "id": "s1", "result": {}},
        {"jsonrpc": "2.0", "id": "s2", "error": {"code": -1, "message": "no"}},
        {"jsonrpc": "2.0", "method": "notifications/whatever"},
    ):
        answer = speaker.post(body, mcp_session_id=session)
        assert (answer.status_code, answer.content) == (202, b"")


def test_the_session_stands_in_the_books_with_its_end(speaker: Speaker, hub: Hub) -> None:
    session = speaker.open_session("2025-06-18")
    speaker.http.delete("/mcp", headers=speaker.headers(mcp_session_id=session))
    found = [
        hub.operate(operations.values, "sessions_app.McpSession", field, session_id=session)
        for field in ("state", "client_name", "protocol_version", "end_reason")
    ]
    assert found == [["closed"], [speaker.name], ["2025-06-18"], ["closed by the client"]]
