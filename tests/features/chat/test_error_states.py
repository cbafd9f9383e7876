"""Seed 003's error states, at both endpoints: the codes of a dead model, a dead MCP server and a failing tool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.features.chat import rows
from tests.features.chat.conftest import ENVIRONMENT, TOOLBOX, set_up
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import Step, calls, say, script
from tests.servers import Hub, free_port, until
from tests.upstreams.conftest import Operator, Peer
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory, providers: dict[str, ScriptedProvider]) -> Iterator[Any]:
    """A hub with models, a model that is not there, and an MCP server that misbehaves; a client and the hub."""
    folder = tmp_path_factory.mktemp("states-hub")
    with (
        Hub(folder, packs=["starter"], bundle=TOOLBOX, environment=ENVIRONMENT) as hub,
        Peer("chaos.py", "http") as peer,
    ):
        key = set_up(hub, providers)
        dead = f"http://127.0.0.1:{free_port()}/v1"
        hub.operate(rows.provide, "dead", "compatible", dead, models={"gone": {}}, retries=0)
        Operator(hub).connect("odd", url=peer.url)
        Operator(hub).limit("odd.be", PATIENCE_SECONDS)
        with httpx2.Client(
            base_url=hub.url, headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE_SECONDS
        ) as client:
            until(lambda: client.get("/v1/models/dead/gone").status_code == 200)
            until(lambda: "odd.be" in client.get("/api/tools").text)
            yield client, hub, peer


def question(*steps: Step, **more: Any) -> dict[str, Any]:
    return {"content": script(*steps), **more}


def completion(*steps: Step, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": script(*steps)}
    return {"model": "openai/scripted-large", "messages": [message], "x_mcp": {"tools": "all"}, **more}


def test_a_model_that_is_down_is_unavailable_from_the_first_question(asked: Any) -> None:
    client, _, _ = asked
    own = client.post("/api/query", json=question(say("Never."), model="dead/gone"))
    assert (own.status_code, own.json()["error"]["code"]) == (503, "PROVIDER_UNAVAILABLE")
    assert (own.json()["error"]["retryable"], int(own.headers["retry-after"]) >= 1) == (True, True)
    wire = client.post("/v1/chat/completions", json=completion(say("Never."), model="dead/gone"))
    error = wire.json()["error"]
    assert (wire.status_code, error["type"], error["code"]) == (503, "api_error", "provider_unavailable")
    assert (wire.headers["x-should-retry"], int(wire.headers["retry-after"]) >= 1) == ("true", True)


FAILURES: list[tuple[str, tuple[str, dict[str, Any]]]] = [
    ("TIMEOUT", ("odd.be", {"mode": "hang"})),
    ("TRANSPORT_ERROR", ("odd.be", {"mode": "die"})),
    ("INVALID_ARGUMENTS", ("add", {"a": "two"})),
    ("EXECUTION_ERROR", ("tell", {"times": 1, "fail": True})),
    ("TOOL_NOT_FOUND", ("nobody", {})),
]


@pytest.mark.parametrize(("code", "call"), FAILURES, ids=[code for code, _ in FAILURES])
def test_what_a_call_failed_of_stands_beside_the_words(asked: Any, code: str, call: tuple[str, dict[str, Any]]) -> None:
    client, hub, _ = asked
    if code == "TIMEOUT":  # of a call that hangs; one that breaks has time to
        Operator(hub).limit("odd.be", 1)
    told = client.post("/api/query", json=question(calls(call), say("So."))).json()
    [made] = told["tool_calls"]
    assert (told["content"], made["result"], made["error"].keys()) == ("So.", None, {"code", "message"})
    assert made["error"]["code"] == code
    assert made["error"]["message"].startswith("Error: ")
    kept = {"query_id": told["query_id"], "role": "tool"}
    assert hub.operate(operations.values, "chat.ChatMessage", "error_code", **kept) == [code]
    wire = client.post("/v1/chat/completions", json=completion(calls(call), say("So."))).json()
    [failed] = wire["x_mcp"]["failed_calls"]
    assert (failed["tool"], failed["code"]) == (call[0], code)
    assert failed["message"]
    assert failed["invocation_id"] == wire["x_mcp"]["invocations"][0]
    if code == "TIMEOUT":
        Operator(hub).limit("odd.be", PATIENCE_SECONDS)


def test_a_conversation_keeps_the_code_of_a_failed_call(asked: Any) -> None:
    client, _, _ = asked
    session = client.post("/api/session", json={}).json()["id"]
    steps = (calls(("add", {"a": "two"}), ("add", {"a": 2, "b": 3})), say("So."))
    client.post("/api/query", json=question(*steps, session_id=session))
    messages = client.get(f"/api/session/{session}").json()["messages"]
    assert [each["error_code"] for each in messages if each["role"] == "tool"] == ["INVALID_ARGUMENTS", None]


def test_a_server_that_is_not_reached_is_a_failed_connection(asked: Any) -> None:
    client, _, peer = asked

    def told() -> dict[str, Any]:
        steps = (calls(("odd.echo", {"text": "a"})), say("So."))
        answer: dict[str, Any] = client.post("/api/query", json=question(*steps)).json()
        return answer

    peer.kill()
    lost = told()
    assert lost["tool_calls"][0]["error"]["code"] == "CONNECTION_FAILED"
    assert lost["failed_tools"] == ["odd.echo"]
    peer.start()
    until(lambda: told()["failed_tools"] == [])
