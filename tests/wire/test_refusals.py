"""Bad input at every entry point: one table each for what is wrong, and what the answer says to do about it.

Every refusal has a body, the id where it could be read, the status of its revision, and a sentence.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.servers import Hub
from tests.wire.speech import LEGACY, META, MODERN, Speaker, error_of, hello, raw_answer, request, wire

ADVICE = re.compile(r"\b(send|use|ask|name|add|open|try|leave|must|needs?|tell)\b", re.IGNORECASE)
OLD = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


def told(answer: Any, status: int, code: int | str, *, id: Any = None) -> str:
    """Check a refusal and give its sentence. `code` is JSON-RPC's or the hub's own."""
    assert answer.status_code == status, answer.text
    error = error_of(answer)
    assert code in (error["code"], error["data"]["errorCode"]), error
    assert answer.json().get("id") == id
    sentence: str = error["message"]
    assert ADVICE.search(sentence), sentence
    return sentence


# The rungs, in order ------------------------------------------------------------------------------


def test_the_whole_ladder_of_a_request_that_describes_itself(hub: Hub, keys: dict[str, str]) -> None:
    """Everything is wrong at first; each step mends what the last answer named."""
    params = {"name": "nowhere", "arguments": {"region": "eu"}}
    with Speaker(hub.url, keys["wire"]) as speaker:
        meta = speaker.modern_body("x")["params"]["_meta"]
        method, raw, body = "GET", b"[", {"jsonrpc": "2.0", "id": None, "method": "tools/none", "params": params}
        headers: dict[str, str | None] = {
            "host": "evil.example",
            "origin": "https://evil.example",
            "authorization": None,
            "accept": "text/html",
            "content-type": "text/plain",
            "mcp-protocol-version": "2099-01-01",
        }

        def ask(status: int, code: int | str) -> None:
            sent = {name: value for name, value in {**speaker.headers(), **headers}.items() if value is not None}
            answer = speaker.http.request(method, "/mcp", content=raw or None, json=None if raw else body, headers=sent)
            read = status not in (401, 403, 405, 406, 415, 421) and not raw
            told(answer, status, code, id=body["id"] if read else None)

        ask(421, "host_refused")
        del headers["host"]
        ask(403, "forbidden")
        del headers["origin"]
        ask(401, "unauthorized")
        del headers["authorization"]
        ask(405, "method_not_allowed")
        method = "POST"
        ask(406, "not_acceptable")
        del headers["accept"]
        ask(415, "unsupported_media_type")
        del headers["content-type"]
        ask(400, -32700)
        raw = b""
        ask(400, -32600)
        body["id"] = "rung"
        ask(400, -32602)
        params["_meta"] = {**meta, f"{META}protocolVersion": "2098-01-01"}
        ask(400, -32020)
        headers["mcp-protocol-version"] = "2098-01-01"
        ask(400, -32020)
        headers["mcp-method"] = "tools/none"
        ask(400, -32022)
        params["_meta"][f"{META}protocolVersion"] = headers["mcp-protocol-version"] = MODERN
        ask(404, -32601)
        body["method"] = headers["mcp-method"] = "tools/call"
        ask(400, -32020)
        headers["mcp-name"] = "nowhere"
        ask(400, "tool_not_found")
        params["name"] = headers["mcp-name"] = "test_x_mcp_header"
        ask(400, -32020)
        headers["mcp-param-region"] = "eu"
        sent = {**speaker.headers(), **{name: value for name, value in headers.items() if value}}
        assert speaker.http.post("/mcp", json=body, headers=sent).json()["result"]["content"]


@pytest.mark.parametrize("version", OLD)
def test_the_whole_ladder_of_a_session(speaker: Speaker, version: str) -> None:
    gone = speaker.open_session(version)
    speaker.http.delete("/mcp", headers=speaker.headers(mcp_session_id=gone))
    named = {"mcp_protocol_version": version}
    ping = request("ping", {}, id="p")
    told(speaker.post(ping, host="evil.example", origin="x://y", accept="text/html", **named), 421, "host_refused")
    told(speaker.post(ping, origin="x://y", accept="text/html", **named), 403, "forbidden")
    told(speaker.post(ping, authorization="Bearer no", accept="text/html", **named), 401, "unauthorized")
    told(speaker.post(ping, accept="text/html", content_type="text/html", **named), 406, "not_acceptable")
    told(speaker.post(ping, content_type="text/html", **named), 415, "unsupported_media_type")
    told(speaker.post(b"{", mcp_session_id=gone, **named), 400, -32700)
    told(speaker.post({"id": 1}, mcp_session_id=gone, **named), 400, -32600, id=1)
    told(speaker.post(ping, **named), 400, "invalid_request", id="p")
    told(speaker.post(ping, mcp_session_id=gone, **named), 404, "session_not_found", id="p")
    session = speaker.open_session(version)
    told(speaker.in_session(session, "tools/none", {}, id="m"), 200, -32601, id="m")
    told(speaker.call(session, "nowhere", id="t"), 200, -32602, id="t")


# Every entry point ---------------------------------------------------------------------------------------

ENTRY_POINTS = [("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sse"), ("POST", "/messages")]
AT_EVERY_DOOR = {
    "foreign host": ({"host": "evil.example"}, 421, "host_refused"),
    "malformed host": ({"host": "a b"}, 400, "invalid_request"),
    "foreign origin": ({"origin": "https://evil.example"}, 403, "forbidden"),
    "opaque origin": ({"origin": "null"}, 403, "forbidden"),
    "no key": ({"authorization": None}, 401, "unauthorized"),
    "wrong key": ({"authorization": "Bearer mcph_00000000_wrong"}, 401, "unauthorized"),
    "wrong scheme": ({"authorization": "Basic dTpw"}, 401, "unauthorized"),
}


@pytest.mark.parametrize(("method", "path"), ENTRY_POINTS)
@pytest.mark.parametrize("wrong", AT_EVERY_DOOR)
def test_what_every_entry_point_refuses_alike(speaker: Speaker, method: str, path: str, wrong: str) -> None:
    headers, status, code = AT_EVERY_DOOR[wrong]
    sent = speaker.headers(**headers)
    body = request("ping", {}, id=1) if method == "POST" else None
    answer = speaker.http.request(method, path, json=body, headers=sent)
    told(answer, status, code)
    if status == 401:
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
def test_a_stream_is_given_to_who_accepts_one(speaker: Speaker, path: str) -> None:
    headers = speaker.headers(accept="application/json", mcp_session_id="any")
    sentence = told(speaker.http.get(path, headers=headers), 406, "not_acceptable")
    assert "text/event-stream" in sentence


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
@pytest.mark.parametrize("path", ["/mcp", "/messages?sessionId=x"])
def test_a_body_of_another_type_is_not_read(speaker: Speaker, path: str, kind: str | None) -> None:
    told(speaker.post(request("ping"), path, content_type=kind), 415, "unsupported_media_type")


# Sessions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("session", ["nobody", "%00", "x" * 500])
def test_messages_of_no_session_are_refused_with_their_id(speaker: Speaker, session: str) -> None:
    sentence = told(
        speaker.post(request("ping", {}, id="s"), f"/messages?sessionId={session}"), 404, "session_not_found", id="s"
    )
    assert "initialize" in sentence


def test_a_message_that_names_no_session_is_told_where_to_begin(speaker: Speaker) -> None:
    sentence = told(speaker.post(request("ping", {}, id="s"), "/messages"), 400, "invalid_request", id="s")
    assert "/sse" in sentence


def test_a_session_of_one_transport_is_none_of_the_other(speaker: Speaker) -> None:
    session = speaker.open_session()
    told(speaker.post(request("ping", {}, id=1), f"/messages?sessionId={session}"), 404, "session_not_found", id=1)
    with speaker.streaming("GET", None, "/sse") as (_, heard):
        path = next(heard)["endpoint"]
        answer = speaker.in_session(path.partition("=")[2], "ping", {}, id=2)
        told(answer, 404, "session_not_found", id=2)


def test_a_second_handshake_in_a_session_is_refused(speaker: Speaker) -> None:
    session = speaker.open_session()
    sentence = told(speaker.post(hello(id="again"), mcp_session_id=session), 400, -32600, id="again")
    assert "without a session id" in sentence
    assert speaker.in_session(session, "ping").json()["result"] == {}
    speaker.http.delete("/mcp", headers=speaker.headers(mcp_session_id=session))
    assert "mcp-session-id" in speaker.post(hello(), mcp_session_id=session).headers


def test_over_event_streams_the_handshake_comes_first_and_once(speaker: Speaker) -> None:
    with speaker.streaming("GET", None, "/sse") as (_, heard):
        path = next(heard)["endpoint"]

        def ask(body: Any) -> dict[str, Any]:
            assert speaker.post(body, path).status_code == 202
            return next(heard)

        early = ask(request("tools/list", {}, id="early"))
        assert (early["id"], early["error"]["code"]) == ("early", -32600)
        assert "initialize" in early["error"]["message"]
        assert ask(request("ping", {}, id="p"))["result"] == {}
        bad = ask(request("initialize", {}, id="bad"))
        assert (bad["id"], bad["error"]["code"]) == ("bad", -32602)
        assert ask(hello(LEGACY, id="h"))["result"]["protocolVersion"] == LEGACY
        again = ask(hello(LEGACY, id="again"))
        assert (again["id"], again["error"]["code"]) == ("again", -32600)
        assert "initialized already" in again["error"]["message"]
        assert ask(request("tools/list", {}, id="late"))["result"]["tools"]


@pytest.mark.parametrize(
    "body",
    [
        {"jsonrpc": "2.0", "id": "unasked", "result": {"action": "accept", "content": {}}},
        {"jsonrpc": "2.0", "id": 99, "error": {"code": -1, "message": "no"}},
        {"jsonrpc": "2.0", "error": {"code": -32700, "message": "unreadable"}},
    ],
)
def test_answers_that_nobody_asked_for_are_taken_and_change_nothing(speaker: Speaker, body: dict[str, Any]) -> None:
    session = speaker.open_session()
    answer = speaker.post(body, mcp_session_id=session)
    assert (answer.status_code, answer.content) == (202, b"")
    assert speaker.in_session(session, "ping").json()["result"] == {}
    told(speaker.post(body, mcp_protocol_version=MODERN), 400, -32600, id=body.get("id"))


# Parameters and headers ---------------------------------------------------------------------------

LEVELS = [None, "", "loud", "INFO", 1, ["info"], {"level": "info"}, True]


@pytest.mark.parametrize("level", LEVELS, ids=repr)
def test_a_level_must_be_one_of_eight(speaker: Speaker, level: Any) -> None:
    session = speaker.open_session()
    sentence = told(speaker.in_session(session, "logging/setLevel", {"level": level}, id="l"), 200, -32602, id="l")
    assert "debug, info" in sentence
    if level is not None:
        answer = speaker.modern("tools/list", {"_meta": {f"{META}logLevel": level}}, id="l")
        assert "debug, info" in told(answer, 400, -32602, id="l")


ENCODINGS = [
    "=?base64?***?=",
    "=?base64?YQ?=",
    "=?base64?/w==?=",
    "=?base64?YR==?=",
    "=?base64?YQ==",
    "=?BASE64?YQ==?=",
]


@pytest.mark.parametrize("value", ENCODINGS)
def test_a_header_that_is_badly_encoded_disagrees(speaker: Speaker, value: str) -> None:
    told(speaker.modern("tools/call", {"name": "a"}, id=1, mcp_name=value), 400, -32020, id=1)
    params = {"name": "test_x_mcp_header", "arguments": {"region": "a"}}
    told(speaker.modern("tools/call", params, id=1, mcp_param_region=value), 400, -32020, id=1)


@pytest.mark.parametrize("header", ["mcp-name", "mcp-param-region"])
def test_a_header_beyond_ascii_disagrees_even_with_the_same_text(speaker: Speaker, header: str) -> None:
    params = {"name": "é" if header == "mcp-name" else "test_x_mcp_header", "arguments": {"region": "é"}}
    headers: dict[str, Any] = speaker.headers(**speaker.modern_headers("tools/call", {}, mcp_name=params["name"]))
    headers |= {"mcp-name": "=?base64?w6k=?=" if params["name"] == "é" else params["name"]}
    headers |= {"mcp-param-region": "=?base64?w6k=?=", header: "é".encode("latin-1")}
    body = speaker.modern_body("tools/call", params, id=1)
    assert "ASCII" in told(speaker.http.post("/mcp", json=body, headers=headers), 400, -32020, id=1)


@pytest.mark.parametrize("header", ["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-region"])
def test_a_header_that_comes_twice_disagrees(speaker: Speaker, header: str) -> None:
    params = {"name": "test_x_mcp_header", "arguments": {"region": "eu"}}
    headers = speaker.headers(**speaker.modern_headers("tools/call", params, mcp_param_region="eu"))
    twice = [*headers.items(), (header, headers[header])]
    body = speaker.modern_body("tools/call", params, id=1)
    assert "once" in told(speaker.http.post("/mcp", json=body, headers=twice), 400, -32020, id=1)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("Mcp-Method: tools/list", 200),
        ("MCP-METHOD:tools/list", 200),
        ("mcp-method:  \ttools/list \t", 200),
        ("Mcp-Method: Tools/List", 400),
        ("Mcp-Method: tools/list,", 400),
        ("Mcp-Method:", 400),
    ],
)
def test_names_of_headers_have_no_case_and_values_no_blanks_around(speaker: Speaker, line: str, status: int) -> None:
    body = json.dumps(speaker.modern_body("tools/list", id=1)).encode()
    headers = speaker.headers(host="127.0.0.1", mcp_protocol_version=MODERN, content_length=str(len(body)))
    lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), line, "", ""]
    with wire(speaker.url) as connection:
        connection.sendall("\r\n".join(lines).encode() + body)
        answered, raw = raw_answer(connection)
    assert answered == status
    if status == 400:
        assert json.loads(raw)["error"]["code"] == -32020


@pytest.mark.parametrize("cursor", ["x", "", 1, {}, "é", "e30="], ids=repr)
def test_a_cursor_of_nobodys_is_refused(speaker: Speaker, cursor: Any) -> None:
    session = speaker.open_session()
    told(speaker.in_session(session, "tools/list", {"cursor": cursor}, id=1), 200, -32602, id=1)
    told(speaker.modern("tools/list", {"cursor": cursor}, id=1), 400, -32602, id=1)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"name": 7},
        {"name": ""},
        {"name": None},
        {"name": "echo", "arguments": []},
        {"name": "echo", "arguments": "x"},
    ],
    ids=repr,
)
def test_a_call_needs_a_name_and_named_arguments(speaker: Speaker, params: dict[str, Any]) -> None:
    session = speaker.open_session()
    told(speaker.in_session(session, "tools/call", params, id=1), 200, -32602, id=1)
    headers = {} if isinstance(params.get("name"), str) else {"mcp_name": None}
    told(speaker.modern("tools/call", params, id=1, **headers), 400, -32602, id=1)


@pytest.mark.parametrize("method", ["$/setTrace", "textDocument/didOpen", "listResources"])
def test_methods_of_language_servers_are_unknown_ones(speaker: Speaker, method: str) -> None:
    session = speaker.open_session()
    error = error_of(speaker.in_session(session, method, id=1))
    assert (error["code"], error["data"]["errorCode"]) == (-32601, "method_not_found")
    taken = speaker.post({"jsonrpc": "2.0", "method": method}, mcp_session_id=session)
    assert (taken.status_code, taken.content) == (202, b"")


def test_a_misspelt_method_is_told_which_one_was_meant(speaker: Speaker) -> None:
    session = speaker.open_session()
    for answer, status in (
        (speaker.in_session(session, "tools/lists", id=1), 200),
        (speaker.modern("tool/list", id=1), 404),
    ):
        sentence = told(answer, status, "method_not_found", id=1)
        assert sentence.endswith("Send tools/list, if that is meant.")
        assert error_of(answer)["data"]["details"]["meant"] == "tools/list"
