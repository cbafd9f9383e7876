"""Seed 003's own contract over the wire: queries, sessions, tools, health, and every refusal."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx2
import jsonschema
import pytest

from sessions_app.protocol import sse
from tests import operations
from tests.features.chat.script import calls, error, say, script
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="package")
def api(chat_hub: tuple[Hub, str]) -> Iterator[httpx2.Client]:
    hub, key = chat_hub
    headers = {"authorization": f"Bearer {key}"}
    with httpx2.Client(base_url=hub.url, headers=headers, timeout=PATIENCE_SECONDS) as client:
        yield client


def ask(api: httpx2.Client, *steps: Any, **more: Any) -> dict[str, Any]:
    content = script(*steps) if steps else more.pop("content")
    answer = api.post("/api/query", json={"content": content, **more})
    assert answer.status_code == 200, answer.text
    value: dict[str, Any] = answer.json()
    return value


def refusal(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    told = answer.json()["error"]
    assert told["code"] == code
    assert told["message"]
    assert told.keys() == {"code", "message", "details", "retryable", "jsonrpc_code", "invocation_id"}
    value: dict[str, Any] = told
    return value


def test_a_query_is_answered_as_the_seed_says(api):
    told = ask(api, say("Five."))
    assert told["content"] == "Five."
    assert (told["provider_used"], told["model"]) == ("openai", "scripted-large")
    assert (told["tool_calls"], told["failed_tools"], told["session_id"]) == ([], [], None)
    assert told["usage"]["total_tokens"] == told["usage"]["prompt_tokens"] + told["usage"]["completion_tokens"]
    assert told["timestamp"].endswith("Z")
    assert told["duration_ms"] >= 0
    assert uuid.UUID(told["id"]) != uuid.UUID(told["query_id"])


def test_the_provider_can_be_chosen(api):
    assert ask(api, say("!"), provider="huawei_maas")["provider_used"] == "huawei_maas"
    assert ask(api, say("!"), model="huawei_maas/scripted-large")["provider_used"] == "huawei_maas"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "content"),
        ({"content": ""}, "content"),
        ({"content": " \n"}, "content"),
        ({"content": ["a"]}, "content"),
        ({"content": "a", "provider": "nobody"}, "provider"),
        ({"content": "a", "provider": ""}, "provider"),
        ({"content": "a", "model": "nothing"}, "model"),
        ({"content": "a", "transport": "pigeon"}, "transport"),
        ({"content": "a", "stream": "yes"}, "stream"),
        ({"content": "a", "session_id": 5}, "session_id"),
        ({"content": "a", "tools": "all"}, "tools"),
        ({"content": "a", "metadata": []}, "metadata"),
        ({"content": "a", "metadata": {"x": "y" * 5000}}, "metadata"),
        ({"content": "a", "temperatur": 1}, "temperatur"),
    ],
)
def test_bad_queries_are_refused_with_the_name_of_what_is_wrong(api, body, param):
    told = refusal(api.post("/api/query", json=body), 400, "INVALID_QUERY")
    assert told["details"]["param"] == param
    assert told["retryable"] is False


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'"text"', b"\xff"])
def test_bodies_that_are_no_object_are_refused(api, raw):
    headers = {"content-type": "application/json"}
    refusal(api.post("/api/query", content=raw, headers=headers), 400, "INVALID_QUERY")
    refusal(api.post("/api/session", content=raw, headers=headers), 400, "INVALID_QUERY")


def test_unknown_tools_and_sessions_are_not_found(api):
    refusal(api.post("/api/query", json={"content": "a", "tools": ["nobody"]}), 404, "TOOL_NOT_FOUND")
    told = refusal(api.post("/api/query", json={"content": "a", "session_id": "nobody"}), 404, "SESSION_NOT_FOUND")
    assert told["details"] == {"param": "session_id"}


def test_a_session_is_kept_and_given_back(api):
    opened = api.post("/api/session", json={"max_messages": 6.0, "context": {"language": "ru"}})
    assert opened.status_code == 201
    session = opened.json()
    assert (session["max_messages"], session["context"], session["messages"]) == (6, {"language": "ru"}, [])
    assert session["provider_preference"] is None
    first, second = script(say("One.")), script(say("Two."))
    assert ask(api, content=first, session_id=session["id"])["session_id"] == session["id"]
    assert ask(api, content=second, session_id=session["id"])["content"] == "Two."
    held = api.get(f"/api/session/{session['id']}").json()
    assert [(each["role"], each["content"]) for each in held["messages"]] == [
        ("user", first),
        ("assistant", "One."),
        ("user", second),
        ("assistant", "Two."),
    ]
    assert held["updated_at"] > session["updated_at"]
    assert api.delete(f"/api/session/{session['id']}").status_code == 204
    for answer in (
        api.get(f"/api/session/{session['id']}"),
        api.delete(f"/api/session/{session['id']}"),
        api.post("/api/query", json={"content": "a", "session_id": session["id"]}),
    ):
        refusal(answer, 404, "SESSION_NOT_FOUND")


def test_a_session_prefers_a_provider_and_a_query_another(api):
    session = api.post("/api/session", json={"provider_preference": "huawei_maas"}).json()
    assert ask(api, say("!"), session_id=session["id"])["provider_used"] == "huawei_maas"
    assert ask(api, say("!"), session_id=session["id"], provider="openai")["provider_used"] == "openai"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"max_messages": 0}, "max_messages"),
        ({"max_messages": 101}, "max_messages"),
        ({"max_messages": True}, "max_messages"),
        ({"provider_preference": ""}, "provider_preference"),
        ({"context": []}, "context"),
        ({"context": {"x": "y" * 20_000}}, "context"),
        ({"ttl": 5}, "ttl"),
    ],
)
def test_bad_sessions_are_refused(api, body, param):
    assert refusal(api.post("/api/session", json=body), 400, "INVALID_QUERY")["details"]["param"] == param


def test_a_provider_that_is_not_there_is_told_with_those_that_are(api):
    told = refusal(api.post("/api/session", json={"provider_preference": "nobody"}), 400, "INVALID_QUERY")
    assert told["details"]["param"] == "provider_preference"
    assert "openai" in told["message"]


def test_a_method_that_is_not_served_is_told_with_those_that_are(api):
    answer = api.request("TRACE", "/api/session")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_a_foreign_session_is_as_good_as_none(api, chat_hub):
    hub, _ = chat_hub
    session = api.post("/api/session", json={}).json()
    other = hub.operate(operations.issue_key, "other", ["chat"])
    headers = {"authorization": f"Bearer {other}"}

    def told(session_id: str) -> tuple[int, Any]:
        answer = api.get(f"/api/session/{session_id}", headers=headers)
        return answer.status_code, answer.json()

    while True:  # until the hub has heard of the key
        if told(session["id"])[0] != 401:
            break
    assert told(session["id"]) == told(str(uuid.uuid4()))
    assert told(session["id"])[0] == 404


def test_tools_are_listed_with_the_way_to_them(api):
    told = api.get("/api/tools").json()
    assert told["count"] == len(told["tools"]) > 3
    first = told["tools"][0]
    assert first.keys() == {"name", "title", "description", "input_schema", "output_schema", "transport", "connection"}
    assert {each["transport"] for each in told["tools"]} == {"local"}
    assert api.get("/api/tools?transport=local").json() == told
    assert api.get("/api/tools?transport=stdio").json() == {"count": 0, "tools": []}
    refusal(api.get("/api/tools?transport=pigeon"), 400, "INVALID_QUERY")
    refusal(api.get("/api/tools?transports=sse"), 400, "INVALID_QUERY")
    refusal(api.get("/api/tools?transport=sse&transport=sse"), 400, "INVALID_QUERY")


def test_health_tells_of_each_part_without_a_key(api, chat_hub):
    hub, _ = chat_hub
    answer = httpx2.get(f"{hub.url}/api/health", timeout=PATIENCE_SECONDS)
    assert answer.status_code == 200
    told = answer.json()
    assert told["status"] == "healthy"
    assert {name: part["status"] for name, part in told["components"].items()} == {
        "database": "healthy",
        "ledger": "healthy",
        "durability": "healthy",
        "catalogue": "healthy",
        "providers": "healthy",
        "connections": "not_configured",
    }


def test_keys_are_asked_for_and_scopes(api, chat_hub):
    hub, _ = chat_hub
    for method, path in (("POST", "/api/query"), ("POST", "/api/session"), ("GET", "/api/tools")):
        answer = httpx2.request(method, f"{hub.url}{path}", timeout=PATIENCE_SECONDS)
        told = refusal(answer, 401, "UNAUTHORIZED")
        assert told["retryable"] is False
        assert "www-authenticate" in answer.headers


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/query"), ("PUT", "/api/session"), ("POST", "/api/tools"), ("POST", "/api/health")],
)
def test_other_methods_are_refused(api, method, path):
    assert api.request(method, path).status_code == 405


def test_the_addresses_under_v1_are_the_same(api):
    session = api.post("/v1/sessions", json={}).json()
    told = api.post("/v1/query", json={"content": script(say("!")), "session_id": session["id"]}).json()
    assert told["session_id"] == session["id"]
    assert len(api.get(f"/v1/sessions/{session['id']}").json()["messages"]) == 2


def test_a_stream_ends_with_the_whole_answer(api):
    body = {"content": script(say("one two three four")), "stream": True}
    with api.stream("POST", "/api/query", json=body) as answer:
        events = sse.Decoder().feed(answer.read())
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.text
    assert [event.event for event in events][-1] == "response"
    deltas = [json.loads(event.data)["content"] for event in events if event.event == "delta"]
    last = json.loads(events[-1].data)
    assert "".join(deltas) == last["content"] == "one two three four"
    assert len(deltas) > 1


def test_a_stream_that_breaks_ends_with_an_error(api):
    body = {"content": script(say("one two three", cut="reset", after=2)), "stream": True}
    with api.stream("POST", "/api/query", json=body) as answer:
        events = sse.Decoder().feed(answer.read())
    assert events[-1].event == "error"
    told = json.loads(events[-1].data)["error"]
    assert told["code"] == "PROVIDER_UNAVAILABLE"
    assert "response" not in [event.event for event in events]


@pytest.mark.parametrize(
    ("complaint", "status", "code", "retryable"),
    [("invalid_api_key", 502, "AUTHENTICATION_FAILED", False), ("insufficient_quota", 429, "QUOTA_EXCEEDED", False)],
)
def test_what_a_provider_refuses_is_told_as_the_seed_says(api, complaint, status, code, retryable):
    answer = api.post("/api/query", json={"content": script(error(complaint))})
    assert refusal(answer, status, code)["retryable"] is retryable


def test_operators_may_word_an_error_and_change_its_number(api, chat_hub):
    hub, _ = chat_hub
    row: Any = ("invocations.McpErrorMapping", {"internal_code": "quota_exceeded"})

    def told() -> dict:
        return api.post("/api/query", json={"content": script(error("insufficient_quota"))}).json()["error"]

    assert told()["jsonrpc_code"] == -31015
    hub.operate(operations.update, *row, json_rpc_code=-31077, message_template="Ask Eve. {message}")
    changed = until(lambda: (found := told())["jsonrpc_code"] == -31077 and found)
    assert changed["message"].startswith("Ask Eve. The quota at openai is used up.")
    hub.operate(operations.update, *row, json_rpc_code=-31015, message_template="{message}")


def test_tool_calls_stand_in_the_answer(api):
    told = ask(api, calls(("add", {"a": 2, "b": 3})), say("Five."), tools=["add"])
    (call,) = told["tool_calls"]
    assert (call["tool_name"], call["arguments"], call["error"]) == ("add", {"a": 2, "b": 3}, None)
    assert "5" in call["result"]
    assert call["started_at"] <= call["completed_at"]


def test_answers_are_as_openapi_describes_them(api):
    schema = api.get("/api/schema").json()

    def check(name: str, value: Any) -> None:
        whole = {"$ref": f"#/components/schemas/{name}", "components": schema["components"]}
        jsonschema.validate(value, whole, format_checker=jsonschema.FormatChecker())

    session = api.post("/api/session", json={}).json()
    told = ask(api, calls(("add", {"a": 2, "b": 3})), say("Five."), tools=["add"], session_id=session["id"])
    check("ChatAnswer", told)
    check("ChatSession", session)
    check("ChatSession", api.get(f"/api/session/{session['id']}").json())
    check("ChatTools", api.get("/api/tools").json())
    check("ChatHealth", api.get("/api/health").json())
    check("ChatFailure", api.post("/api/query", json={}).json())


@pytest.mark.parametrize(
    ("turns", "kinds"),
    [
        ((calls(("add", {"a": 2, "b": 3})), say("Five.")), {"delta", "tool_started", "tool_finished", "response"}),
        ((calls(("nowhere", {})), say("None.")), {"delta", "tool_started", "tool_finished", "response"}),
        ((say("one two three", cut="reset", after=2),), {"delta", "error"}),
    ],
)
def test_events_are_as_openapi_describes_them(api, turns, kinds):
    schema = api.get("/api/schema").json()
    answers = schema["paths"]["/api/query"]["post"]["responses"]["200"]["content"]
    described = {each["properties"]["event"]["const"]: each for each in answers["text/event-stream"]["schema"]["oneOf"]}
    body = {"content": script(*turns), "stream": True, "tools": ["add"]}
    with api.stream("POST", "/api/query", json=body) as answer:
        events = sse.Decoder().feed(answer.read())
    assert {event.event for event in events} == kinds
    for event in events:
        shape = {**described[event.event]["properties"]["data"]["contentSchema"], "components": schema["components"]}
        jsonschema.validate(json.loads(event.data), shape, format_checker=jsonschema.FormatChecker())
