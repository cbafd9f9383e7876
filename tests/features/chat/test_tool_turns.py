"""Turns with tools, over the wire: what the model is told, what the client sees, what stands in the audit."""

from __future__ import annotations

import json
import socket
import threading
import uuid
from typing import Any

import httpx2
import openai
import pytest

from mcphub.features.chat.tools.functions import function_name
from tests.features.chat import wire
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import Step, calls, error, say, script
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS

MODEL = "openai/scripted-large"


def body(*steps: Step, tools: Any = "all", **more: Any) -> dict[str, Any]:
    """A request whose model does these steps; `tools` are those of the hub."""
    prompt = more.pop("prompt", "")
    messages = [{"role": "user", "content": script(*steps, prompt=prompt)}]
    return {"model": MODEL, "messages": messages, "x_mcp": {"tools": tools}, **more}


def unique(prefix: str = "t") -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def told(provider: ScriptedProvider, words: str) -> list[dict[str, Any]]:
    """What the provider was sent last of the request with these words: its messages."""
    messages: list[dict[str, Any]] = provider.about(words)[-1]["body"]["messages"]
    return messages


def made(hub: Hub, tool: str, name: str) -> list[dict[str, Any]]:
    """The recorded calls of a tool with this name for its argument."""
    asked = {"tool": tool, "arguments": f'$.name="{name}"', "started_after": "2026-01-01T00:00:00Z"}
    return until(lambda: hub.rows(**asked))


@pytest.fixture
def openai_provider(providers: dict[str, ScriptedProvider]) -> ScriptedProvider:
    return providers["openai"]


@pytest.mark.parametrize("stream", [False, True])
def test_tools_run_and_their_results_come_back_in_the_order_of_the_calls(
    hub: Hub, raw: httpx2.Client, openai_provider: ScriptedProvider, stream: bool
) -> None:
    name = unique()
    steps = [
        calls(("count", {"name": name}, f"a-{name}"), ("tell", {"times": 2}, f"b-{name}"), say="Let me see. "),
        say("Three."),
    ]
    reading = wire.read(raw, body(*steps, stream=stream, stream_options={"include_usage": True} if stream else None))
    assert reading.violations == []
    assert reading.text == "Let me see. Three."
    assert reading.finish == "stop"
    assert reading.usage == {"prompt_tokens": 50, "completion_tokens": 4, "total_tokens": 54}  # 1 + 4 messages
    if stream:
        assert [each for each in reading.comments if each.startswith("tool ")] == [
            "tool count running",
            "tool count done",
            "tool tell running",
            "tool tell done",
        ]
    messages = told(openai_provider, name)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    assert [message.get("tool_call_id") for message in messages[2:]] == [f"a-{name}", f"b-{name}"]
    assert [message["content"] for message in messages[2:]] == ["call number 1", "told 2"]
    row = made(hub, "count", name)[0]
    assert (row["transport"], row["tool_call_id"], row["turn_round"]) == ("chat", f"a-{name}", 1)
    rows = hub.rows(turn=row["turn_id"])
    assert {each["tool_name"] for each in rows} == {"count", "tell"}
    if not stream:
        extension = reading.body_json["x_mcp"]
        assert extension["turn_id"] == row["turn_id"]
        assert set(extension["invocations"]) == {each["invocation_id"] for each in rows}


def test_a_client_may_ask_to_be_told_of_tools(raw: httpx2.Client) -> None:
    steps = [calls(("tell", {"times": 1})), say("Done.")]
    asked = body(*steps, stream=True, stream_options={"include_usage": True, "include_x_mcp": True})
    with raw.stream("POST", "/chat/completions", json=asked) as answer:
        frames = [line[6:] for line in answer.iter_lines() if line.startswith("data: {")]
    told = [chunk["x_mcp"] for chunk in map(json.loads, frames) if "x_mcp" in chunk]
    assert [each.get("event") for each in told] == ["tool_started", "tool_finished", None]
    assert told[1]["invocation_id"] in told[2]["invocations"]


def test_what_cannot_change_anything_runs_side_by_side(hub: Hub, raw: httpx2.Client) -> None:
    first, second = unique("look"), unique("look")
    steps = [calls(("look", {"name": first}), ("look", {"name": second})), say("Both.")]
    answers: list[wire.Reading] = []
    asking = threading.Thread(target=lambda: answers.append(wire.read(raw, body(*steps))))
    asking.start()
    folder = hub.data / "toolbox"
    try:
        until(lambda: (folder / f"{first}.began").exists() and (folder / f"{second}.began").exists())
    finally:
        for name in (second, first):
            folder.mkdir(exist_ok=True)
            (folder / f"{name}.release").touch()
        asking.join()
    assert answers[0].text == "Both."


def test_what_changes_something_runs_alone_and_in_order(hub: Hub, raw: httpx2.Client) -> None:
    first, second = unique("hold"), unique("hold")
    steps = [calls(("hold", {"name": first}), ("look", {"name": second})), say("Both.")]
    answers: list[wire.Reading] = []
    asking = threading.Thread(target=lambda: answers.append(wire.read(raw, body(*steps))))
    asking.start()
    folder = hub.data / "toolbox"
    try:
        until(lambda: (folder / f"{first}.began").exists())
        assert not (folder / f"{second}.began").exists()
    finally:
        folder.mkdir(exist_ok=True)
        for name in (first, second):
            (folder / f"{name}.release").touch()
        asking.join()
    assert answers[0].text == "Both."


@pytest.mark.parametrize(
    ("written", "code", "sentence"),
    [
        ('{"name": ', "invalid_arguments", "not valid JSON"),
        ('["a"]', "invalid_arguments", "must be a JSON object"),
        ('{"nome": "a"}', "invalid_arguments", "name"),
        ("", "invalid_arguments", "name"),
    ],
)
def test_a_model_may_repair_its_arguments(
    hub: Hub, raw: httpx2.Client, openai_provider: ScriptedProvider, written: str, code: str, sentence: str
) -> None:
    name = unique()
    steps = [calls(("count", written, name)), calls(("count", {"name": name})), say("Now.")]
    reading = wire.read(raw, body(*steps, prompt=name))
    assert (reading.violations, reading.text) == ([], "Now.")
    messages = told(openai_provider, name)
    assert sentence in messages[2]["content"]
    assert messages[4]["content"] == "call number 1"
    rows = hub.rows(turn=reading.body_json["x_mcp"]["turn_id"])
    assert [(row["error_code"], row["turn_round"]) for row in rows] == [("", 2), (code, 1)]


def test_a_tool_that_was_not_asked_for_does_not_run(
    hub: Hub, raw: httpx2.Client, openai_provider: ScriptedProvider
) -> None:
    name = unique()
    steps = [calls(("count", {"name": name}), ("no.such", {})), say("No.")]
    reading = wire.read(raw, body(*steps, tools=["tell"]))
    assert reading.text == "No."
    assert all("There is no function" in each["content"] for each in told(openai_provider, name)[2:])
    rows = hub.rows(turn=reading.body_json["x_mcp"]["turn_id"])
    assert {(row["tool_name"], row["error_code"]) for row in rows} == {
        ("count", "tool_not_found"),
        ("no.such", "tool_not_found"),
    }
    assert not (hub.data / "toolbox" / f"{name}.counted").exists()


def test_the_same_call_again_and_again_is_not_made(
    hub: Hub, raw: httpx2.Client, openai_provider: ScriptedProvider
) -> None:
    name = unique()
    steps = [*[calls(("count", {"name": name}))] * 3, say("Enough.")]
    reading = wire.read(raw, body(*steps))
    assert reading.text == "Enough."
    assert "Repeated call" in told(openai_provider, name)[6]["content"]
    assert (hub.data / "toolbox" / f"{name}.counted").read_text() == ".."


def test_after_the_last_round_the_model_answers_without_tools(
    raw: httpx2.Client, openai_provider: ScriptedProvider
) -> None:
    name = unique()
    steps = [*[calls(("count", {"name": f"{name}-{number}"})) for number in range(8)], say("The end.")]
    reading = wire.read(raw, body(*steps))
    assert (reading.text, reading.finish) == ("The end.", "stop")
    assert reading.body_json["x_mcp"]["stop_reason"] == "max_tool_rounds"
    assert openai_provider.about(name)[-1]["body"]["tool_choice"] == "none"


def test_a_model_that_will_not_stop_is_stopped(raw: httpx2.Client) -> None:
    name = unique()
    reading = wire.read(raw, body(*[calls(("count", {"name": f"{name}-{number}"})) for number in range(9)]))
    assert (reading.violations, reading.finish) == ([], "length")
    assert reading.body_json["x_mcp"]["stop_reason"] == "max_tool_rounds"


def test_too_many_calls_at_once_are_told_so(raw: httpx2.Client, openai_provider: ScriptedProvider) -> None:
    name = unique()
    many = [("tell", {"times": number}, f"{name}-{number}") for number in range(18)]
    reading = wire.read(raw, body(calls(*many), say("Well.")))
    assert reading.text == "Well."
    results = [message["content"] for message in told(openai_provider, name)[2:]]
    assert results[:16] == [f"told {number}" for number in range(16)]
    assert all("Not called" in each for each in results[16:])


FUNCTION = {
    "type": "function",
    "function": {"name": "my_own", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
}


@pytest.mark.parametrize("stream", [False, True])
def test_functions_of_the_client_come_to_the_client(raw: httpx2.Client, stream: bool) -> None:
    asked = {**body(calls(("my_own", {"a": 1}, "call_x")), tools="none", stream=stream), "tools": [FUNCTION]}
    reading = wire.read(raw, asked)
    assert (reading.violations, reading.finish) == ([], "tool_calls")
    call = (wire.joined(reading.chunks) if stream else reading.body_json["choices"][0]["message"]["tool_calls"])[0]
    assert (call["id"], call["function"]) == ("call_x", {"name": "my_own", "arguments": '{"a": 1}'})


@pytest.mark.parametrize("called", ["my.own function/1", "x" * 200, "своя"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_may_call_its_functions_as_it_likes(
    raw: httpx2.Client, openai_provider: ScriptedProvider, called: str, stream: bool
) -> None:
    mark, known = unique(), function_name(called)
    own = {"type": "function", "function": {**FUNCTION["function"], "name": called}}
    steps = [calls((known, {"a": 1}, mark)), say("Thanks.")]
    asked = {**body(*steps, tools="none", prompt=mark, stream=stream), "tools": [own]}
    asked["tool_choice"] = {"type": "function", "function": {"name": called}}
    reading = wire.read(raw, asked)
    call = (wire.joined(reading.chunks) if stream else reading.body_json["choices"][0]["message"]["tool_calls"])[0]
    assert (reading.violations, call["function"]["name"]) == ([], called)
    sent = openai_provider.about(mark)[-1]["body"]
    assert sent["tools"][0]["function"]["name"] == known == sent["tool_choice"]["function"]["name"]
    made = {"id": mark, "type": "function", "function": {"name": called, "arguments": '{"a": 1}'}}
    asked["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": mark, "content": "1"},
    ]
    del asked["tool_choice"]
    assert wire.read(raw, asked).text == "Thanks."
    [again] = told(openai_provider, mark)[1]["tool_calls"]
    assert again["function"]["name"] == known


def test_both_kinds_of_calls_at_once_need_a_session(raw: httpx2.Client, hub: Hub) -> None:
    name = unique()
    steps = calls(("my_own", {"a": 1}), ("count", {"name": name}))
    reading = wire.read(raw, body(steps) | {"tools": [FUNCTION]})
    assert (reading.status, reading.violations) == (400, [])
    assert "session" in reading.body_json["error"]["message"]
    assert not (hub.data / "toolbox" / f"{name}.counted").exists()


def test_a_function_with_the_name_of_a_tool_is_refused(client: openai.OpenAI) -> None:
    clash = {"type": "function", "function": {"name": "count", "parameters": {}}}
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "a"}],
            tools=[clash],  # type: ignore[list-item]
            extra_body={"x_mcp": {"tools": "all"}},
        )
    assert raised.value.param == "tools"


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_without_functions_uses_tools_by_a_schema(
    hub: Hub, raw: httpx2.Client, openai_provider: ScriptedProvider, stream: bool
) -> None:
    name = unique()
    steps = [calls(("count", {"name": name})), say("Once.")]
    reading = wire.read(raw, body(*steps, stream=stream) | {"model": "openai/scripted-plain"})
    assert (reading.violations, reading.text) == ([], "Once.")
    first, second = openai_provider.about(name)
    assert first["body"]["response_format"]["type"] == "json_schema"
    assert "tools" not in first["body"]
    assert "call number 1" in second["body"]["messages"][-1]["content"]
    assert all(message["role"] in ("system", "user", "assistant") for message in second["body"]["messages"])
    assert made(hub, "count", name)[0]["status"] == "ok"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_ends_its_tools(hub: Hub, chat_key: str, stream: bool) -> None:
    name = unique("gone")
    folder = hub.data / "toolbox"
    asked = json.dumps(body(calls(("hold", {"name": name})), say("Never."), stream=stream)).encode()
    with socket.create_connection(("127.0.0.1", hub.port), timeout=PATIENCE_SECONDS) as connection:
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{hub.port}\r\nAuthorization: Bearer {chat_key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(asked)}\r\n\r\n"
        )
        connection.sendall(head.encode() + asked)
        until(lambda: (folder / f"{name}.began").exists())
    until(lambda: (folder / f"{name}.cancelled").exists())
    row = made(hub, "hold", name)[0]
    assert (row["status"], row["error_code"]) == ("error", "cancelled")


def test_a_turn_that_is_repeated_under_its_key_does_nothing_twice(hub: Hub, raw: httpx2.Client) -> None:
    name = unique()
    asked = body(calls(("count", {"name": name})), say("Once."))
    key = {"idempotency-key": name}
    assert [wire.read(raw, asked, key).text for _ in range(2)] == ["Once.", "Once."]
    assert (hub.data / "toolbox" / f"{name}.counted").read_text() == "."
    rows = made(hub, "count", name)
    assert [bool(row["duplicate_of"]) for row in rows] == [True, False]


@pytest.mark.parametrize(("name", "retry"), [("count", "false"), ("tell", "true")])
def test_a_failure_after_a_tool_may_be_retried_only_where_nothing_was_done(
    raw: httpx2.Client, name: str, retry: str
) -> None:
    arguments = {"name": unique()} if name == "count" else {"times": 1}
    reading = wire.read(raw, body(calls((name, arguments)), error("empty_500")))
    assert (reading.status, reading.headers["x-should-retry"], reading.violations) == (503, retry, [])
    assert len(reading.body_json["x_mcp"]["invocation_ids"]) == 1


def test_the_retry_of_a_client_is_marked_in_the_audit(hub: Hub, raw: httpx2.Client) -> None:
    name = unique()
    reading = wire.read(raw, body(calls(("count", {"name": name})), say("Done.")), {"x-stainless-retry-count": "2"})
    assert made(hub, "count", name)[0]["request_id"] == f"{reading.headers['x-request-id']} retry 2"


def test_a_provider_learns_no_key_but_its_own(
    raw: httpx2.Client, chat_key: str, openai_provider: ScriptedProvider
) -> None:
    name = unique()
    wire.read(raw, body(calls(("count", {"name": name})), say("Once.")))
    requests = openai_provider.about(name)
    assert len(requests) == 2
    assert chat_key not in str(requests)
    assert {each["headers"]["authorization"] for each in requests} == {f"Bearer {openai_provider.key}"}
