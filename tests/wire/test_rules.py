"""Rules of the specification that no other file shows: ids, shapes by revision, lists that stay the same, hints."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from tests.servers import Hub
from tests.wire.bodies import BAD_NOTIFICATIONS
from tests.wire.speech import LEGACY, META, MODERN, Speaker, error_of, hello, request

OLD = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
IDS = [0, 1, -1, 2**53, 2**63 - 1, "", "0", "1", "é\u202e", "a b", "x" * 200]

MEMBERS = {
    "2024-11-05": {"name", "description", "inputSchema"},
    "2025-03-26": {"name", "description", "inputSchema", "annotations"},
    "2025-06-18": {"name", "description", "inputSchema", "annotations", "title", "outputSchema", "_meta"},
    "2025-11-25": {
        "name",
        "description",
        "inputSchema",
        "annotations",
        "title",
        "outputSchema",
        "_meta",
        "icons",
        "execution",
    },
}
BLOCKS = {"2024-11-05": "text", "2025-03-26": "audio", "2025-06-18": "audio", "2025-11-25": "audio"}
CAPABILITIES = {
    version: {"experimental", "logging", "prompts", "resources", "tools", "events"}
    | ({"completions"} if version > "2024-11-05" else set())
    | ({"tasks", "extensions"} if version == "2025-11-25" else set())
    for version in OLD
}
IDENTITY = {
    "2024-11-05": {"name", "version"},
    "2025-03-26": {"name", "version"},
    "2025-06-18": {"name", "version", "title"},
    "2025-11-25": {"name", "version", "title", "description", "websiteUrl", "icons"},
}
LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
META_NAME = re.compile(rf"(?:{LABEL}(?:\.{LABEL})*/)?(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")


def metas(value: Any) -> list[dict[str, Any]]:
    """Every `_meta` object inside."""
    found = []
    if isinstance(value, dict):
        found += [value["_meta"]] if isinstance(value.get("_meta"), dict) else []
        found += [each for inner in value.values() for each in metas(inner)]
    elif isinstance(value, list):
        found += [each for inner in value for each in metas(inner)]
    return found


# Messages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", IDS, ids=ascii)
def test_an_answer_carries_the_id_it_was_asked_with(speaker: Speaker, id: Any) -> None:
    session = speaker.open_session()
    for answer in (
        speaker.in_session(session, "ping", {}, id=id),
        speaker.in_session(session, "tools/none", {}, id=id),
        speaker.modern("tools/list", id=id),
        speaker.modern("tools/none", id=id),
    ):
        body = answer.json()
        assert (body["id"], type(body["id"])) == (id, type(id))
        assert ("result" in body) != ("error" in body)
        assert set(body) == {"jsonrpc", "id", "result"} or set(body["error"]) <= {"code", "message", "data"}


@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call"])
def test_every_stateless_result_has_its_type_and_names_the_server(speaker: Speaker, method: str) -> None:
    params = {"name": "add", "arguments": {"a": 1, "b": 2}} if method == "tools/call" else {}
    result = speaker.modern(method, params).json()["result"]
    assert result["resultType"] == "complete"
    identity = result["_meta"][f"{META}serverInfo"]
    assert isinstance(identity["name"], str)
    assert isinstance(identity["version"], str)
    hints = {"ttlMs", "cacheScope"} & set(result)
    if method == "tools/call":
        assert hints == set()
    else:
        assert result["ttlMs"] >= 0
        assert result["cacheScope"] in ("public", "private")


@pytest.mark.parametrize("version", OLD)
def test_a_session_is_told_only_what_its_revision_has(speaker: Speaker, version: str) -> None:
    welcome = speaker.post(hello(version, speaker.name)).json()["result"]
    assert set(welcome) <= {"protocolVersion", "capabilities", "serverInfo", "instructions"}
    assert set(welcome["capabilities"]) <= CAPABILITIES[version]
    assert set(welcome["serverInfo"]) <= IDENTITY[version]
    session = speaker.open_session(version)
    listed = speaker.in_session(session, "tools/list").json()["result"]
    assert set(listed) <= {"tools", "nextCursor", "_meta"}
    assert {name for tool in listed["tools"] for name in tool} <= MEMBERS[version]
    called = speaker.call(session, "add", {"a": 1, "b": 2}).json()["result"]
    structured = {"structuredContent"} if version >= "2025-06-18" else set()
    assert set(called) - {"_meta", "isError"} == {"content"} | structured
    assert speaker.call(session, "test_audio_content").json()["result"]["content"][0]["type"] == BLOCKS[version]
    assert not any(f"{META}serverInfo" in each for each in metas(called))


def test_names_in_metadata_keep_to_the_rules(speaker: Speaker) -> None:
    session = speaker.open_session()
    found = metas(speaker.call(session, "echo", {"text": "x"}).json())
    found += metas(speaker.modern_call("echo", {"text": "x"}).json()) + metas(speaker.modern("tools/list").json())
    assert len(found) >= 3
    for name in {name for each in found for name in each}:
        assert META_NAME.fullmatch(name), name
        prefix = name.rpartition("/")[0].split(".")
        assert name == f"{META}serverInfo" or prefix[1:2] not in (["mcp"], ["modelcontextprotocol"]), name


@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications/unknown", "notifications/initialized"])
@pytest.mark.parametrize(
    "params", [None, {}, {"requestId": None}, {"requestId": "nobody"}, {"requestId": [1]}], ids=repr
)
def test_a_notification_is_never_answered(speaker: Speaker, method: str, params: Any) -> None:
    body = {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})
    session = speaker.open_session()
    for answer in (speaker.post(body, mcp_session_id=session), speaker.post(body, mcp_protocol_version=MODERN)):
        assert (answer.status_code, answer.content) == (202, b"")
    assert speaker.in_session(session, "ping").json()["result"] == {}


@pytest.mark.parametrize("body", BAD_NOTIFICATIONS.values(), ids=BAD_NOTIFICATIONS)
def test_a_bad_notification_has_a_status_and_no_error(speaker: Speaker, body: bytes) -> None:
    session = speaker.open_session()
    for answer in (speaker.post(body, mcp_session_id=session), speaker.post(body, mcp_protocol_version=MODERN)):
        assert (answer.status_code, answer.content) == (400, b"")
    with speaker.streaming("GET", path="/sse", content_type=None) as (_, heard):
        path = next(heard)["endpoint"]
        answer = speaker.post(body, path)
        assert (answer.status_code, answer.content) == (400, b"")
        assert speaker.post(hello(id="next"), path).status_code == 202
        assert next(heard)["id"] == "next"


def test_a_notification_that_cannot_be_taken_has_a_status_and_no_error(speaker: Speaker) -> None:
    body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    for answer, status in (
        (speaker.post(body, mcp_session_id="nobody"), 404),
        (speaker.post(body, mcp_protocol_version=LEGACY), 400),
        (speaker.post(body, "/messages?sessionId=nobody"), 404),
    ):
        assert (answer.status_code, answer.content) == (status, b"")


def test_nothing_is_remembered_of_an_earlier_request(speaker: Speaker) -> None:
    """Capabilities belong to the request that declares them, on whatever connection."""
    able = {f"{META}clientCapabilities": {"sampling": {}}}
    for _ in range(2):
        assert speaker.modern_call("test_missing_capability", **able).status_code == 200
        refused = speaker.modern_call("test_missing_capability")
        assert (refused.status_code, error_of(refused)["code"]) == (400, -32021)


# Streamable HTTP ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1999-01-01", "2025-06-19", "v1", "latest"])
def test_a_version_that_is_none_is_refused_in_a_session(speaker: Speaker, version: str) -> None:
    session = speaker.open_session("2025-06-18")
    answer = speaker.post(request("ping", {}, id="v"), mcp_session_id=session, mcp_protocol_version=version)
    assert answer.status_code == 400
    assert answer.json()["id"] == "v"


@pytest.mark.parametrize("version", OLD)
def test_without_the_header_a_session_speaks_what_was_agreed(speaker: Speaker, version: str) -> None:
    session = speaker.open_session(version)
    with_header = speaker.post(request("tools/list"), mcp_session_id=session, mcp_protocol_version=version)
    without = speaker.in_session(session, "tools/list")
    assert without.json()["result"] == with_header.json()["result"]


def test_streams_tell_proxies_not_to_hold_them_back(speaker: Speaker) -> None:
    session = speaker.open_session()
    params = {"name": "tell", "arguments": {"times": 1}, "_meta": {"progressToken": 1}}
    listen = speaker.modern_body("subscriptions/listen", {"notifications": {}})
    for method, body, path, headers in (
        ("POST", request("tools/call", params), "/mcp", {"mcp_session_id": session}),
        ("POST", speaker.modern_body("tools/call", params), "/mcp", speaker.modern_headers("tools/call", params)),
        ("POST", listen, "/mcp", speaker.modern_headers("subscriptions/listen")),
        ("GET", None, "/mcp", {"mcp_session_id": session, "content_type": None}),
        ("GET", None, "/sse", {"content_type": None}),
    ):
        with speaker.streaming(method, body, path, **headers) as (answer, _):
            assert answer.headers["content-type"] == "text/event-stream"
            assert answer.headers["x-accel-buffering"] == "no"
            assert answer.headers["cache-control"] == "no-cache"


def test_answers_never_come_on_the_listening_stream(speaker: Speaker) -> None:
    session = speaker.open_session()
    with speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, heard):
        params = {"name": "tell", "arguments": {"times": 2}, "_meta": {"progressToken": 1}}
        with speaker.streaming("POST", request("tools/call", params), mcp_session_id=session) as (_, own):
            assert len(list(own)) == 3
        assert speaker.in_session(session, "ping").json()["result"] == {}
        speaker.http.delete("/mcp", headers=speaker.headers(mcp_session_id=session))
        assert list(heard) == []


def test_a_session_id_is_no_credential_and_a_key_in_the_address_neither(hub: Hub, speaker: Speaker) -> None:
    session = speaker.open_session()
    with Speaker(hub.url, None) as nobody:
        assert nobody.in_session(session, "ping").status_code == 401
        for name in ("access_token", "token", "key", "authorization"):
            answer = nobody.post(request("ping"), f"/mcp?{name}={speaker.key}", mcp_session_id=session)
            assert answer.status_code == 401


# Tools --------------------------------------------------------------------------------------------


def test_the_list_of_tools_is_the_same_for_everybody_and_after_everything(speaker: Speaker) -> None:
    one, other = speaker.open_session(), speaker.open_session()
    before = speaker.in_session(one, "tools/list").json()["result"]
    speaker.call(one, "echo", {"text": "x"})
    speaker.call(one, "nowhere")
    speaker.in_session(one, "logging/setLevel", {"level": "debug"})
    with Speaker(speaker.url, speaker.key) as elsewhere:
        assert elsewhere.in_session(other, "tools/list").json()["result"] == before
        stateless = elsewhere.modern("tools/list").json()["result"]["tools"]
        assert elsewhere.modern("tools/list").json()["result"]["tools"] == stateless
    assert [tool["name"] for tool in stateless] == [tool["name"] for tool in before["tools"]]
    names = [tool["name"] for tool in before["tools"]]
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in names)


def test_every_listed_schema_is_one(speaker: Speaker) -> None:
    for tool in speaker.modern("tools/list").json()["result"]["tools"]:
        for schema in filter(None, (tool["inputSchema"], tool.get("outputSchema"))):
            dialect = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
            dialect.check_schema(schema)
        assert tool["inputSchema"]["type"] == "object"


@pytest.mark.parametrize(("name", "arguments"), [("add", {"a": 1, "b": 2}), ("current_time", {})])
def test_structured_results_keep_to_their_schema_and_are_said_in_text_too(
    speaker: Speaker, name: str, arguments: dict[str, Any]
) -> None:
    tools = {tool["name"]: tool for tool in speaker.modern("tools/list").json()["result"]["tools"]}
    result = speaker.modern_call(name, arguments).json()["result"]
    jsonschema.validate(result["structuredContent"], tools[name]["outputSchema"])
    said = json.loads(result["content"][0]["text"])
    assert said == result["structuredContent"] or {"result": said} == result["structuredContent"]


def test_what_the_model_may_mend_is_a_result_and_what_the_client_did_wrong_an_error(speaker: Speaker) -> None:
    session = speaker.open_session()
    for ask in (lambda *call: speaker.call(session, *call), speaker.modern_call):
        for name, arguments in (("add", {"a": "x"}), ("test_error_handling", {})):
            result = ask(name, arguments).json()["result"]
            assert result["isError"] is True
            assert result["content"][0]["type"] == "text"
        assert ask("nowhere", {}).json()["error"]["code"] == -32602


# Discovery ----------------------------------------------------------------------------------------


def test_what_is_refused_names_versions_that_discovery_names_too(speaker: Speaker) -> None:
    discovered = speaker.modern("server/discover").json()["result"]
    assert MODERN in discovered["supportedVersions"]
    body = speaker.modern_body("tools/list", {"_meta": {f"{META}protocolVersion": "2100-01-01"}})
    refused = speaker.post(body, mcp_protocol_version="2100-01-01", mcp_method="tools/list")
    data = error_of(refused)["data"]
    assert data["requested"] == "2100-01-01"
    assert set(data["supported"]) <= set(discovered["supportedVersions"])


LISTS = {
    "tools": "tools/list",
    "resources": "resources/list",
    "prompts": "prompts/list",
    "completions": "completion/complete",
}


@pytest.mark.parametrize("capability", LISTS)
def test_what_is_advertised_is_answered_and_what_is_not_is_not(speaker: Speaker, capability: str) -> None:
    session = speaker.open_session()
    welcome = speaker.post(hello()).json()["result"]["capabilities"]
    discovered = speaker.modern("server/discover").json()["result"]["capabilities"]
    assert (capability in welcome) == (capability in discovered)
    for answer in (speaker.in_session(session, LISTS[capability], {}), speaker.modern(LISTS[capability])):
        missing = "error" in answer.json() and error_of(answer)["code"] == -32601
        assert missing == (capability not in discovered)


def test_listening_streams_carry_nothing_of_other_requests(speaker: Speaker) -> None:
    body = speaker.modern_body("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="quiet")
    other = speaker.modern_body("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="other")
    headers = speaker.modern_headers("subscriptions/listen")
    params = {"name": "tell", "arguments": {"times": 2}, "_meta": {"progressToken": 1, f"{META}logLevel": "debug"}}
    with (
        speaker.streaming("POST", body, **headers) as (_, quiet),
        speaker.streaming("POST", other, **headers) as (_, second),
    ):
        assert next(quiet)["method"] == next(second)["method"] == "notifications/subscriptions/acknowledged"
        call = (speaker.modern_body("tools/call", params), speaker.modern_headers("tools/call", params))
        with speaker.streaming("POST", call[0], **call[1]) as (_, own):
            assert len(list(own)) == 3
        speaker.modern_call("test_trigger_tool_change")
        for heard, id in ((quiet, "quiet"), (second, "other")):
            told = next(heard)
            assert told["method"] == "notifications/tools/list_changed"
            assert told["params"]["_meta"][f"{META}subscriptionId"] == id
