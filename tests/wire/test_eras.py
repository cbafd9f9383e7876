"""Which era a request belongs to, and the order in which a self-describing one is judged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wire.speech import LEGACY, META, MODERN, Speaker, error_of, hello, request

OLD_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


@pytest.mark.parametrize("version", OLD_VERSIONS)
def test_a_handshake_keeps_the_version_asked_for(speaker: Speaker, version: str) -> None:
    answer = speaker.post(hello(version, speaker.name), mcp_protocol_version=version)
    assert answer.json()["result"]["protocolVersion"] == version
    assert "resultType" not in answer.json()["result"]


@pytest.mark.parametrize("version", [MODERN, "2099-01-01", "1.0"])
def test_a_handshake_for_an_unknown_version_offers_the_newest(speaker: Speaker, version: str) -> None:
    answer = speaker.post(hello(version))
    assert answer.status_code == 200
    assert answer.json()["result"]["protocolVersion"] == LEGACY


def test_initialize_is_no_method_of_the_stateless_version(speaker: Speaker) -> None:
    answer = speaker.modern("initialize", {"protocolVersion": LEGACY, "capabilities": {}})
    assert answer.status_code == 404
    assert error_of(answer)["code"] == -32601
    assert "mcp-session-id" not in answer.headers


@pytest.mark.parametrize("header", [None, *OLD_VERSIONS])
def test_a_modern_body_without_the_modern_header_is_a_mismatch(speaker: Speaker, header: str | None) -> None:
    body = speaker.modern_body("tools/list", id="m")
    answer = speaker.post(body, mcp_method="tools/list", mcp_protocol_version=header)
    assert answer.status_code == 400
    assert (answer.json()["id"], error_of(answer)["code"]) == ("m", -32020)


@pytest.mark.parametrize("header", [MODERN, "2099-01-01", "draft"])
def test_a_plain_body_under_a_modern_header_lacks_its_description(speaker: Speaker, header: str) -> None:
    answer = speaker.post(request("tools/list", {}, id=7), mcp_protocol_version=header, mcp_method="tools/list")
    assert answer.status_code == 400
    assert (answer.json()["id"], error_of(answer)["code"]) == (7, -32602)


def test_a_request_of_no_session_and_no_version_is_told_to_initialize(speaker: Speaker) -> None:
    answer = speaker.post(request("tools/list", {}, id="x"))
    assert answer.status_code == 400
    assert answer.json()["id"] == "x"
    assert "initialize" in error_of(answer)["message"]


def test_the_stateless_version_ignores_session_headers(speaker: Speaker) -> None:
    answer = speaker.modern("tools/list", mcp_session_id="not-a-session", last_event_id="7")
    assert answer.status_code == 200
    assert "mcp-session-id" not in answer.headers


def test_both_eras_run_side_by_side(speaker: Speaker) -> None:
    session = speaker.open_session()
    modern = speaker.modern("tools/list").json()["result"]
    legacy = speaker.in_session(session, "tools/list").json()["result"]
    for tool in legacy["tools"]:
        tool.pop("execution", None)  # of that revision alone
    assert modern["tools"] == legacy["tools"]
    assert (modern["resultType"], modern["cacheScope"], modern["ttlMs"]) == ("complete", "public", 60000)
    assert set(legacy) == {"tools"}


def test_a_notification_without_session_is_taken_and_dropped(speaker: Speaker) -> None:
    for method in ("notifications/initialized", "notifications/cancelled"):
        body = {"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}}
        answer = speaker.post(body, mcp_protocol_version=MODERN)
        assert (answer.status_code, answer.content) == (202, b"")


def test_a_response_is_not_taken_by_the_stateless_version(speaker: Speaker) -> None:
    answer = speaker.post({"jsonrpc": "2.0", "id": 3, "result": {}}, mcp_protocol_version=MODERN)
    assert answer.status_code == 400
    assert error_of(answer)["code"] == -32600


def broken(speaker: Speaker, change: str) -> tuple[dict[str, Any], dict[str, str | None]]:
    """A good call of the tool with a header argument, spoilt in one way."""
    params: dict[str, Any] = {"name": "test_x_mcp_header", "arguments": {"region": "eu"}}
    body = speaker.modern_body("tools/call", params, id="L")
    headers = speaker.modern_headers("tools/call", params, mcp_param_region="eu")
    meta, params = body["params"]["_meta"], body["params"]
    if "no-meta" in change:
        del params["_meta"]
    if "no-version" in change:
        del meta[f"{META}protocolVersion"]
    if "capabilities-not-an-object" in change:
        meta[f"{META}clientCapabilities"] = []
    if "other-version" in change:
        meta[f"{META}protocolVersion"] = "v999"
    if "unserved-version" in change:
        meta[f"{META}protocolVersion"] = headers["mcp_protocol_version"] = "2099-01-01"
    if "no-method-header" in change:
        headers["mcp_method"] = None
    if "other-method-header" in change:
        headers["mcp_method"] = "tools/list"
    if "no-name-header" in change:
        headers["mcp_name"] = None
    if "other-name-header" in change:
        headers["mcp_name"] = "echo"
    if "bad-name-encoding" in change:
        headers["mcp_name"] = "=?base64?***?="
    if "unknown-method" in change:
        body["method"] = headers["mcp_method"] = "tools/none"
    if "no-param-header" in change:
        headers["mcp_param_region"] = None
    if "other-param-header" in change:
        headers["mcp_param_region"] = "us"
    if "unknown-tool" in change:
        params["name"] = headers["mcp_name"] = "nowhere"
    if "name-not-a-string" in change:
        params["name"], headers["mcp_name"] = 7, None
    if "bad-level" in change:
        meta[f"{META}logLevel"] = "loud"
    if "null-id" in change:
        body["id"] = None
    return body, headers


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ("null-id no-meta", 400, -32600),
        ("no-meta no-method-header unserved-version", 400, -32602),
        ("no-version other-method-header", 400, -32602),
        ("capabilities-not-an-object other-name-header", 400, -32602),
        ("other-version", 400, -32020),
        ("unserved-version no-method-header", 400, -32020),
        ("no-method-header unknown-tool", 400, -32020),
        ("other-method-header", 400, -32020),
        ("no-name-header", 400, -32020),
        ("other-name-header no-param-header", 400, -32020),
        ("bad-name-encoding", 400, -32020),
        ("unserved-version unknown-method", 400, -32022),
        ("unknown-method no-param-header", 404, -32601),
        ("no-param-header", 400, -32020),
        ("other-param-header", 400, -32020),
        ("unknown-tool", 400, -32602),
        ("name-not-a-string", 400, -32602),
        ("bad-level", 400, -32602),
        ("nothing", 200, 0),
    ],
)
def test_the_first_broken_rung_is_the_answer(speaker: Speaker, changes: str, status: int, code: int) -> None:
    body, headers = broken(speaker, changes)
    answer = speaker.post(body, **headers)
    assert answer.status_code == status, answer.text
    if code:
        assert error_of(answer)["code"] == code
        assert answer.json().get("id") == (None if "null-id" in changes else "L")
        if code == -32022:
            assert error_of(answer)["data"]["supported"] == [MODERN]
            assert error_of(answer)["data"]["requested"] == "2099-01-01"
    else:
        assert answer.json()["result"]["content"] == [{"type": "text", "text": "Region: eu"}]


def test_names_and_arguments_in_headers_may_be_encoded(speaker: Speaker) -> None:
    params = {"name": "test_x_mcp_header", "arguments": {"region": "Zürich"}}
    headers = {"mcp_name": "=?base64?dGVzdF94X21jcF9oZWFkZXI=?=", "mcp_param_region": "=?base64?WsO8cmljaA==?="}
    answer = speaker.modern("tools/call", params, **headers)
    assert answer.json()["result"]["content"][0]["text"] == "Region: Zürich"


def test_a_missing_capability_is_named(speaker: Speaker) -> None:
    answer = speaker.modern_call("test_missing_capability")
    assert answer.status_code == 400
    assert error_of(answer)["code"] == -32021
    assert error_of(answer)["data"]["requiredCapabilities"] == {"sampling": {}}


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "x"])
def test_what_is_not_served_without_session_is_not_found(speaker: Speaker, method: str) -> None:
    answer = speaker.modern(method)
    assert (answer.status_code, error_of(answer)["code"]) == (404, -32601)
