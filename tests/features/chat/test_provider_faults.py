"""Providers that fail: tried again, replaced, left alone; and what the client is told of it."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.features.chat import rows, wire
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import Step, calls, error, say, script
from tests.servers import Hub, free_port, until
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def _faulty(hub: Hub, raw: httpx2.Client, providers: dict[str, ScriptedProvider]) -> Iterator[None]:
    nobody, fallback = f"http://127.0.0.1:{free_port()}/v1", ["huawei_maas/scripted-large"]
    hub.operate(rows.provide, "dead", "compatible", nobody, models={"replaced": {"fallbacks": fallback}}, retries=0)
    hub.operate(rows.provide, "weak", "compatible", nobody, models={"alone": {}}, retries=0, breaker_failures=2)
    first = providers["openai"]
    hub.operate(rows.provide, "poor", "openai", first.url, first.key, {"scripted-large": {}})
    hub.operate(rows.offer_model, "openai", "scripted-first", fallbacks=fallback)
    until(lambda: raw.get("/models/openai/scripted-first").status_code == 200)
    yield
    # Others, who share the hub, ask it how it does.
    mine = {"slug__in": ["dead", "weak", "poor"]}
    hub.operate(operations.update, "chat.ChatProvider", mine, enabled=False)
    until(lambda: raw.get("/models/weak/alone").status_code == 404)


def state(hub: Hub, slug: str) -> str:
    """What the hub has noted of a provider: its last failure, whether it still fails, whether it is left alone."""
    return hub.operate(rows.noted, slug)


def body(*steps: Step, model: str, prompt: str = "", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": script(*steps, prompt=prompt)}], **more}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ["overloaded", "html_502", "ModelArts.81101"])
def test_what_passes_is_tried_again(
    raw: httpx2.Client, providers: dict[str, ScriptedProvider], name: str, stream: bool
) -> None:
    provider = "huawei_maas" if name.startswith("ModelArts") else "openai"
    mark = f"again-{uuid.uuid4().hex[:12]}"
    steps = error(name, times=1, then=say("Here."))
    reading = wire.read(raw, body(steps, model=f"{provider}/scripted-large", prompt=mark, stream=stream))
    assert (reading.violations, reading.text) == ([], "Here.")
    assert [each["attempt"] for each in providers[provider].about(mark)] == [1, 2]


@pytest.mark.usefixtures("_faulty")
@pytest.mark.parametrize("stream", [False, True])
def test_another_provider_takes_over_before_a_tool_has_run(raw: httpx2.Client, stream: bool) -> None:
    asked = body(say("Instead."), model="dead/replaced", stream=stream)
    reading = wire.read(raw, asked)
    assert (reading.violations, reading.text) == ([], "Instead.")
    if not stream:
        told = reading.body_json["x_mcp"]
        assert (told["provider_used"], reading.body_json["model"]) == ("huawei_maas", "dead/replaced")
        assert [each.get("error") for each in told["rounds"]] == ["PROVIDER_UNAVAILABLE", None]


@pytest.mark.usefixtures("_faulty")
def test_nobody_takes_over_once_a_tool_has_run(raw: httpx2.Client, providers: dict[str, ScriptedProvider]) -> None:
    name = f"f-{uuid.uuid4().hex[:12]}"
    steps = [calls(("count", {"name": name})), error("empty_500")]
    reading = wire.read(raw, body(*steps, model="openai/scripted-first", x_mcp={"tools": "all"}))
    assert (reading.status, reading.body_json["error"]["code"]) == (503, "provider_unavailable")
    assert providers["huawei_maas"].about(name) == []


@pytest.mark.usefixtures("_faulty")
def test_a_provider_that_fails_again_and_again_is_left_alone(raw: httpx2.Client, hub: Hub) -> None:
    def ask() -> str:
        reading = wire.read(raw, body(say("Never."), model="weak/alone"))
        assert (reading.status, reading.body_json["error"]["code"]) == (503, "provider_unavailable")
        assert (reading.violations, int(reading.headers["retry-after"]) >= 1) == ([], True)
        return str(reading.body_json["error"]["message"])

    assert ask() == "weak cannot be reached."
    until(lambda: "left alone" in ask())
    assert until(lambda: state(hub, "weak")) == "PROVIDER_UNAVAILABLE True True"


@pytest.mark.usefixtures("_faulty")
def test_a_quota_that_is_used_up_is_noted_until_the_provider_answers(raw: httpx2.Client, hub: Hub) -> None:
    wire.read(raw, body(error("insufficient_quota"), model="poor/scripted-large"))
    assert until(lambda: state(hub, "poor")) == "QUOTA_EXCEEDED True False"
    wire.read(raw, body(say("Paid."), model="poor/scripted-large"))
    until(lambda: state(hub, "poor") == "QUOTA_EXCEEDED False False")


@pytest.mark.parametrize("cut", ["error", "reset", "close"])
def test_a_stream_that_breaks_ends_with_an_error_and_no_end(raw: httpx2.Client, cut: str) -> None:
    steps = say("a longer answer that will not be whole", cut=cut, after=3)
    reading = wire.read(raw, body(steps, model="openai/scripted-large", stream=True))
    assert reading.violations == []
    assert reading.error is not None
    assert "whole" not in reading.text


@pytest.mark.parametrize("kind", ["content_type", "not_json", "truncated_json", "huge", "huge_line"])
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_no_answer_becomes_an_error(raw: httpx2.Client, kind: str, stream: bool) -> None:
    reading = wire.read(raw, body({"strange": kind}, model="openai/scripted-large", stream=stream))
    assert reading.violations == []
    assert (reading.error or reading.body_json["error"])["code"] == "provider_unavailable"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": "  "}]}, "messages"),
        ({"messages": [{"role": "nobody", "content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "tool", "tool_call_id": "x", "content": "a"}]}, "messages[0]"),
        ({"n": 2}, "n"),
        ({"functions": []}, "functions"),
        ({"temperature": "hot"}, "temperature"),
        ({"stream": "yes"}, "stream"),
        ({"tools": [{"type": "retrieval"}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "mcp", "server_label": "elsewhere"}]}, "tools"),
        ({"tools": [{"type": "mcp", "server_label": "x", "server_url": "https://evil.example/mcp"}]}, "tools"),
        ({"x_mcp": {"tools": ["no_such_tool"]}}, "tools"),
        ({"x_mcp": {"tools": 7}}, "x_mcp.tools"),
        ({"tool_choice": "required"}, "tool_choice"),
    ],
)
def test_what_is_wrong_with_a_request_is_named(raw: httpx2.Client, change: dict[str, Any], param: str) -> None:
    reading = wire.read(
        raw, {**body(say("a"), model="openai/scripted-large"), **change, "stream": change.get("stream")}
    )
    assert reading.violations == []
    assert reading.status == (404 if change == {"x_mcp": {"tools": ["no_such_tool"]}} else 400)
    assert reading.body_json["error"]["param"] == param


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_lets_the_provider_go(
    hub: Hub, chat_key: str, providers: dict[str, ScriptedProvider], stream: bool
) -> None:
    mark = f"gone-{uuid.uuid4().hex[:12]}"
    steps = say("never whole", cut="stall", after=1)
    asked = json.dumps(body(steps, model="openai/scripted-large", prompt=mark, stream=stream))
    with socket.create_connection(("127.0.0.1", hub.port), timeout=PATIENCE_SECONDS) as connection:
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{hub.port}\r\nAuthorization: Bearer {chat_key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(asked)}\r\n\r\n"
        )
        connection.sendall((head + asked).encode())
        until(lambda: providers["openai"].about(mark))
    until(lambda: providers["openai"].about(mark)[0]["is_gone"])
