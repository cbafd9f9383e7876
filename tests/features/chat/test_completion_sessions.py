"""Chat completions with a session, and with what an operator set for a key."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.features.chat import rows, wire
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import calls, say, script
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS

MODEL = "openai/scripted-large"
FUNCTION = {"type": "function", "function": {"name": "my_own", "parameters": {"type": "object"}}}


@pytest.fixture
def session_id(hub: Hub, raw: httpx2.Client) -> str:
    answer = raw.post(f"{hub.url}/api/session", json={})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def asked(messages: list[dict[str, Any]], session_id: str, **more: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": messages, "x_mcp": {"session_id": session_id, "tools": "all"}, **more}


def test_a_role_that_is_no_text_and_an_odd_session_id_are_refused_plainly(raw: httpx2.Client, session_id: str) -> None:
    role = wire.read(raw, asked([{"role": ["user"], "content": "Hello"}], session_id))
    assert role.status == 400
    assert "role" in role.body_json["error"]["message"]
    odd = raw.post("/chat/completions", json=asked([{"role": "user", "content": "Hello"}], "a\r\nb\x00"))
    assert odd.status_code == 404
    assert odd.headers["x-session-id"] == "a??b?"


def test_a_session_remembers_what_was_said(
    raw: httpx2.Client, providers: dict[str, ScriptedProvider], session_id: str
) -> None:
    name = f"s-{uuid.uuid4().hex[:12]}"
    first = wire.read(raw, asked([{"role": "user", "content": script(say("One."), prompt=name)}], session_id))
    assert (first.violations, first.text) == ([], "One.")
    assert first.body_json["x_mcp"]["session_id"] == session_id
    message = {"role": "user", "content": script(say("Two."), prompt=f"again-{name}")}
    second = wire.read(raw, {"model": MODEL, "messages": [message]}, {"x-session-id": session_id})
    assert second.text == "Two."
    sent = providers["openai"].about(f"again-{name}")[-1]["body"]["messages"]
    assert [each["role"] for each in sent] == ["user", "assistant", "user"]
    unknown = wire.read(raw, asked([message], str(uuid.uuid4())))
    assert (unknown.status, unknown.body_json["error"]["code"]) == (404, "session_not_found")


def test_with_a_session_both_kinds_of_calls_may_come_at_once(
    hub: Hub, raw: httpx2.Client, providers: dict[str, ScriptedProvider], session_id: str
) -> None:
    name = f"s-{uuid.uuid4().hex[:12]}"
    steps = [calls(("my_own", {}, f"mine-{name}"), ("count", {"name": name}, f"hub-{name}")), say("Both.")]
    user = {"role": "user", "content": script(*steps)}
    reading = wire.read(raw, asked([user], session_id, tools=[FUNCTION]))
    assert (reading.violations, reading.finish) == ([], "tool_calls")
    told = reading.body_json["choices"][0]["message"]["tool_calls"]
    assert [call["id"] for call in told] == [f"mine-{name}"]
    result = {"role": "tool", "tool_call_id": f"mine-{name}", "content": "my result"}
    after = wire.read(raw, asked([result], session_id, tools=[FUNCTION]))
    assert (after.violations, after.text) == ([], "Both.")
    sent = providers["openai"].about(f"hub-{name}")[-1]["body"]["messages"]
    results = {each["tool_call_id"]: each["content"] for each in sent if each["role"] == "tool"}
    assert results == {f"mine-{name}": "my result", f"hub-{name}": "call number 1"}


@pytest.fixture
def generous(hub: Hub) -> Iterator[httpx2.Client]:
    """The client of a key whose requests may use all tools, and have a model of their own."""
    key = hub.operate(rows.issue_generous_key, "huawei_maas", "scripted-large")
    with httpx2.Client(
        base_url=f"{hub.url}/v1", headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE_SECONDS
    ) as made:
        until(lambda: made.get("/models").status_code == 200)
        yield made


def test_a_key_may_have_a_model_and_tools_of_its_own(hub: Hub, generous: httpx2.Client) -> None:
    name = f"k-{uuid.uuid4().hex[:12]}"
    message = {"role": "user", "content": script(calls(("count", {"name": name})), say("Done."))}
    body = {"messages": [message]}
    until(lambda: wire.read(generous, body).body_json["x_mcp"]["provider_used"] == "huawei_maas")
    rows = hub.rows(tool="count", arguments=f'$.name="{name}"', started_after="2026-01-01T00:00:00Z")
    assert rows[0]["status"] == "ok"
    assert len(rows[0]["request_id"]) == 32
