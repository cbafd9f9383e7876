"""`/v1/responses`, judged by the official client: items, events, what goes on from what, and what a yes is worth."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import httpx2
import openai
import pytest

from tests import operations
from tests.features.chat import rows
from tests.features.chat.nodes import NodeClient, NodeError
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import Step, calls, error, say, script
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS

MODEL = "openai/scripted-large"
HUB: dict[str, Any] = {"type": "mcp", "server_label": "tools", "server_url": "hub", "require_approval": "never"}
LOOK: dict[str, Any] = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CRM: dict[str, Any] = {"type": "namespace", "name": "crm", "description": "Customers", "tools": [LOOK]}
CALL: dict[str, Any] = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}


def ask(client: openai.OpenAI, *steps: Step, **more: Any) -> Any:
    return client.responses.create(**{"model": MODEL, "input": script(*steps), **more})


def test_a_text_comes_back_as_a_message(client: openai.OpenAI) -> None:
    response = ask(client, say("Жёлтый 😀"))
    assert (response.status, response.output_text, response.error) == ("completed", "Жёлтый 😀", None)
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens == 12
    assert client.responses.retrieve(response.id).output_text == "Жёлтый 😀"
    client.responses.delete(response.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(response.id)


def test_the_events_of_a_stream_build_the_response(client: openai.OpenAI) -> None:
    with client.responses.stream(model=MODEL, input=script(say("one two three"))) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert final.output_text == "one two three"
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert [kind for at, kind in enumerate(kinds) if kind not in kinds[:at]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


def test_a_response_goes_on_from_another(client: openai.OpenAI) -> None:
    first = ask(client, say("My name is Ada."), instructions="Be short.")
    second = client.responses.create(
        model=MODEL, previous_response_id=first.id, input=script(say("Ada.")), instructions="Be long."
    )
    assert (second.output_text, second.previous_response_id) == ("Ada.", first.id)
    assert second.usage.input_tokens == 40  # type: ignore[union-attr]
    branch = client.responses.create(model=MODEL, previous_response_id=first.id, input=script(say("Eva.")))
    assert branch.output_text == "Eva."
    with pytest.raises(openai.BadRequestError) as unknown:
        client.responses.create(model=MODEL, previous_response_id="resp_unknown", input="go on")
    assert (unknown.value.code, unknown.value.param) == ("previous_response_not_found", "previous_response_id")


def test_tools_are_listed_and_called_and_the_audit_has_the_call(client: openai.OpenAI, hub: Hub) -> None:
    steps = (calls(("add", {"a": 2, "b": 3}), ("add", {"a": "two"}), say="Let me see. "), say("Five."))
    response = ask(client, *steps, tools=[{**HUB, "allowed_tools": ["add"]}])
    assert [item.type for item in response.output] == ["mcp_list_tools", "message", "mcp_call", "mcp_call", "message"]
    listed, _, call, refused, _ = response.output
    assert [tool.name for tool in listed.tools] == ["add"]
    assert (call.name, call.server_label, call.output[0], call.error) == ("add", "tools", "5", None)
    assert refused.output is None
    assert refused.error.type == "mcp_tool_execution_error"
    assert response.output_text == "Let me see. Five."
    assert response.usage.input_tokens == 10 + 40
    # What was listed once is not listed again.
    more = ask(client, say("Good."), previous_response_id=response.id, tools=[{**HUB, "allowed_tools": ["add"]}])
    assert [item.type for item in more.output] == ["message"]


def test_a_stream_tells_of_each_call(client: openai.OpenAI) -> None:
    text = script(calls(("add", {"a": 2, "b": 3}), ("echo", {"text": "x"})), say("Done."))
    with client.responses.stream(model=MODEL, input=text, tools=[HUB]) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [item.type for item in final.output] == ["mcp_list_tools", "mcp_call", "mcp_call", "message"]
    assert [item.output[0] for item in final.output if item.type == "mcp_call"] == ["5", "x"]
    kinds = [event.type for event in events]
    assert kinds[2:6] == [
        "response.output_item.added",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.output_item.done",
    ]
    for kind in ("in_progress", "completed"):
        assert kinds.count(f"response.mcp_call.{kind}") == 2
    assert kinds.count("response.completed") == 1


def test_the_clients_own_function_goes_out_and_comes_back(client: openai.OpenAI) -> None:
    own: Any = {"type": "function", "name": "look_up", "parameters": {"type": "object"}, "strict": False}
    tools = [{**HUB, "allowed_tools": ["add"]}, own]
    steps = (calls(("add", {"a": 2, "b": 3}), ("look_up", {"word": "five"}, "call_own")), say("Done."))
    first = ask(client, *steps, tools=tools)
    assert [item.type for item in first.output] == ["mcp_list_tools", "mcp_call", "function_call"]
    call = first.output[-1]
    answered = [{"type": "function_call_output", "call_id": call.call_id, "output": "fünf"}]
    second = client.responses.create(model=MODEL, previous_response_id=first.id, input=answered, tools=tools)  # type: ignore[arg-type]
    assert second.output_text == "Done."


def test_a_request_chooses_a_function_of_a_namespace(
    client: openai.OpenAI, providers: dict[str, ScriptedProvider]
) -> None:
    name = uuid.uuid4().hex
    choice: Any = {"type": "function", "namespace": "crm", "name": "look"}
    text = script(calls(("crm__look", {"name": name}, "call_in")))
    tools: Any = [CRM, CRM]
    made: Any = client.responses.create(model=MODEL, input=text, tools=tools, tool_choice=choice)
    assert (made.output[0].namespace, made.output[0].name) == ("crm", "look")
    sent = providers["openai"].about(name)[-1]["body"]
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "crm__look"}}
    assert [each["function"]["name"] for each in sent["tools"]] == ["crm__look"]


@pytest.mark.parametrize("is_additional", [False, True])
def test_functions_of_a_namespace_go_out_and_come_back_under_their_own_names(
    client: openai.OpenAI, providers: dict[str, ScriptedProvider], is_additional: bool
) -> None:
    own: Any = {"type": "function", "name": "find", "parameters": {"type": "object"}, "defer_loading": True}
    namespace = {"type": "namespace", "name": "crm", "description": "Customers", "tools": [own]}
    searches = [{"type": "tool_search"}, {"type": "web_search", "external_web_access": False}]
    tools = [namespace, *searches]
    item = {"type": "additional_tools", "role": "developer", "tools": [namespace]}
    brought: Any = {"tools": [own]} if is_additional else {"tools": [own, *tools]}
    begin = [item] if is_additional else []
    name = uuid.uuid4().hex
    text = script(calls(("crm__find", {"name": name}, "call_in"), ("find", {}, "call_out")), say("Found."))
    question = {"role": "user", "content": text}
    first: Any = client.responses.create(model=MODEL, input=[*begin, question], store=False, **brought)
    places = [] if is_additional else ["tools[1].description", "tools[2]", "tools[3]"]
    assert [each for each in first.x_mcp["ignored"] if each.startswith("tools")] == places
    inside, outside = first.output
    assert (inside.type, inside.namespace, inside.name) == ("function_call", "crm", "find")
    assert (outside.type, outside.namespace, outside.name) == ("function_call", None, "find")
    calls_again = [each.model_dump(exclude_none=True) for each in first.output]
    results = [{"type": "function_call_output", "call_id": each.call_id, "output": "1"} for each in first.output]
    again: Any = [*begin, question, *calls_again, *results]
    assert client.responses.create(model=MODEL, input=again, store=False, **brought).output_text == "Found."
    sent = providers["openai"].about(name)[-1]["body"]
    assert [each["function"]["name"] for each in sent["tools"]] == ["find", "crm__find"]
    made = [call["function"]["name"] for message in sent["messages"] for call in message.get("tool_calls") or ()]
    assert made == ["crm__find", "find"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_waits_for_a_yes_and_is_made_once(
    client: openai.OpenAI, hub: Hub, providers: dict[str, ScriptedProvider], stream: bool
) -> None:
    name = uuid.uuid4().hex
    tools = [{"type": "mcp", "server_label": "tools", "server_url": "hub", "allowed_tools": ["count"]}]
    first = ask(client, calls(("count", {"name": name})), say("Counted."), tools=tools)
    request = first.output[-1]
    assert (request.type, request.name, json.loads(request.arguments)) == (
        "mcp_approval_request",
        "count",
        {"name": name},
    )
    assert name not in str(hub.rows(tool="count"))
    yes = [{"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}]
    asked: Any = {"model": MODEL, "previous_response_id": first.id, "input": yes, "tools": tools}
    if stream:
        with client.responses.stream(**asked) as events:
            events.until_done()
            second = events.get_final_response()
    else:
        second = client.responses.create(**asked)
    assert [item.type for item in second.output] == ["mcp_call", "message"]
    call = second.output[0]
    assert (call.approval_request_id, call.output) == (request.id, "call number 1")
    assert second.output_text == "Counted."
    third = ask(client, say("Yes."), previous_response_id=second.id)
    told = providers["openai"].about(name)[-1]["body"]["messages"]
    assert [message["content"] for message in told if message["role"] == "tool"] == ["call number 1"]
    assert third.output_text == "Yes."
    with pytest.raises(openai.ConflictError) as again:
        client.responses.create(**asked)
    assert again.value.code == "approval_used"
    row = next(row for row in hub.rows(tool="count") if row["arguments"] == {"name": name})
    assert (row["transport"], row["status"]) == ("chat", "ok")


def test_a_yes_that_comes_too_late_makes_no_call(client: openai.OpenAI, hub: Hub) -> None:
    name = uuid.uuid4().hex
    tools: Any = [{"type": "mcp", "server_label": "tools", "server_url": "hub", "allowed_tools": ["count"]}]
    first = ask(client, calls(("count", {"name": name})), say("Counted."), tools=tools)
    request = first.output[-1].id
    hub.operate(rows.let_approval_expire, request)
    yes: Any = [{"type": "mcp_approval_response", "approval_request_id": request, "approve": True}]
    with pytest.raises(openai.ConflictError) as late:
        client.with_options(max_retries=0).responses.create(
            model=MODEL, previous_response_id=first.id, input=yes, tools=tools
        )
    assert late.value.code == "approval_expired"
    assert name not in str(hub.rows(tool="count"))


def test_a_request_that_cannot_be_carried_out_uses_no_approval_up(client: openai.OpenAI) -> None:
    name = uuid.uuid4().hex
    tools: Any = [{"type": "mcp", "server_label": "tools", "server_url": "hub", "allowed_tools": ["count"]}]
    first = ask(client, calls(("count", {"name": name})), say("Counted."), tools=tools)
    yes = [{"type": "mcp_approval_response", "approval_request_id": first.output[-1].id, "approve": True}]
    asked: Any = {"model": MODEL, "previous_response_id": first.id, "input": yes}
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**asked)
    assert refused.value.param == "tools"
    assert client.responses.create(**asked, tools=tools).output[0].output == "call number 1"  # type: ignore[union-attr]


def test_an_answer_leads_to_its_calls_in_the_audit(client: openai.OpenAI, hub: Hub) -> None:
    answer = client.responses.with_raw_response.create(
        model=MODEL,
        input=script(calls(("add", {"a": 2, "b": 3})), say("Five.")),
        tools=[{**HUB, "allowed_tools": ["add"]}],
        extra_body={"colour": "red"},  # type: ignore[list-item]  # a plain dictionary, as programs send
    )
    response: Any = answer.parse()
    [row] = hub.rows(turn=response.x_mcp["turn_id"])
    [call] = [item for item in response.output if item.type == "mcp_call"]
    assert [row["invocation_id"]] == [call.x_mcp["invocation_id"]] == response.x_mcp["invocations"]
    assert row["request_id"] == answer.headers["x-request-id"]
    assert (response.x_mcp["ignored"], len(response.x_mcp["rounds"])) == (["colour"], 2)


def test_a_no_is_told_to_the_model(client: openai.OpenAI, providers: dict[str, ScriptedProvider]) -> None:
    name = uuid.uuid4().hex
    tools: Any = [{"type": "mcp", "server_label": "tools", "server_url": "hub", "allowed_tools": ["count"]}]
    first = ask(client, calls(("count", {"name": name})), say("As you like."), tools=tools)
    no: Any = [
        {
            "type": "mcp_approval_response",
            "approval_request_id": first.output[-1].id,
            "approve": False,
            "reason": "not on Sundays",
        }
    ]
    second = client.responses.create(model=MODEL, previous_response_id=first.id, input=no, tools=tools)
    assert second.output_text == "As you like."
    assert [item.type for item in second.output] == ["message"]
    told = providers["openai"].about(name)[-1]["body"]["messages"][-1]
    assert (told["role"], "not on Sundays" in told["content"]) == ("tool", True)


def test_an_approval_is_its_callers(client: openai.OpenAI, hub: Hub) -> None:
    tools: Any = [{"type": "mcp", "server_label": "tools", "server_url": "hub", "allowed_tools": ["add"]}]
    first = ask(client, calls(("add", {"a": 1, "b": 1})), tools=tools)
    request = first.output[-1].id
    stranger = hub.operate(operations.issue_key, "s", ["chat"])
    headers = {"authorization": f"Bearer {stranger}"}

    def look() -> httpx2.Response:
        return httpx2.get(f"{hub.url}/v1/approvals/{request}", headers=headers, timeout=PATIENCE_SECONDS)

    until(lambda: look().status_code != 401)
    assert (look().status_code, look().json()["error"]["code"]) == (404, "approval_not_found")
    headers = {"authorization": f"Bearer {client.api_key}"}
    assert look().json()["status"] == "pending"


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ({"server_url": "https://evil.example/mcp"}, "never connects"),
        ({"server_label": "nothing", "server_url": None}, "never connects"),
        ({"connector_id": "connector_gmail"}, "connector_id"),
        ({"require_approval": "sometimes"}, "require_approval"),
        ({"allowed_tools": [1]}, "allowed_tools"),
    ],
)
def test_a_server_is_looked_up_and_never_dialled(client: openai.OpenAI, tool: dict[str, Any], said: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        ask(client, say("x"), tools=[{**HUB, **tool}])
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": []}, "input"),
        ({"input": "  "}, "input"),
        ({"input": "x" * 100_001}, "input"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "computer_call"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input[0].content[0]"),
        ({"background": True}, "background"),
        ({"conversation": "c"}, "conversation"),
        ({"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}, "tools[0].type"),
        ({"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}}, "tool_choice"),
        ({"tools": [{"type": "tool_search", "execution": "client"}]}, "tools[0].type"),
        ({"tools": [{"type": "namespace", "tools": []}]}, "tools[0].name"),
        ({"tools": [{"type": "namespace", "name": "crm"}]}, "tools[0].tools"),
        ({"tools": [{"type": "namespace", "name": "crm", "tools": [{"type": "custom"}]}]}, "tools[0].tools[0].type"),
        (
            {"input": [{"type": "additional_tools", "tools": [{"type": "shell"}]}, {"role": "user", "content": "x"}]},
            "input[0].tools[0].type",
        ),
        ({"input": [{"type": "additional_tools"}, {"role": "user", "content": "x"}]}, "input[0].tools"),
        ({"input": [{**CALL, "namespace": 5}]}, "input[0].namespace"),
        ({"tools": [CRM, {**LOOK, "name": "crm__look"}]}, "tools[1].name"),
        (
            {"tools": [{**CRM, "name": "crm__a"}, {**CRM, "tools": [{**LOOK, "name": "a__look"}]}]},
            "tools[1].tools[0].name",
        ),
        (
            {"tools": [CRM], "tool_choice": {"type": "function", "name": "look", "namespace": []}},
            "tool_choice.namespace",
        ),
        ({"text": "json"}, "text"),
        ({"text": {"format": "json"}}, "text.format"),
        ({"reasoning": "high"}, "reasoning"),
        ({"max_tool_calls": 0}, "max_tool_calls"),
        ({"tool_choice": "maybe"}, "tool_choice"),
        ({"metadata": {"a": "x" * 513}}, "metadata"),
        ({"text": {"format": {"type": "xml"}}}, "text.format"),
    ],
)
def test_what_cannot_be_understood_is_named(client: openai.OpenAI, body: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**{"model": MODEL, "input": "x", **body})
    assert refused.value.param == param


def test_a_failure_before_the_first_word_is_an_error_and_after_it_an_event(client: openai.OpenAI) -> None:
    with pytest.raises(openai.RateLimitError) as quota:
        ask(client, error("insufficient_quota"), stream=True)
    assert quota.value.code == "insufficient_quota"
    events = list(ask(client, say("So far so good", cut="error", after=3), stream=True))
    assert events[-1].type == "response.failed"
    assert events[-1].response.error.code == "server_error"
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_the_javascript_client_understands_it_too(hub: Hub, chat_key: str) -> None:
    text = script(calls(("add", {"a": 2, "b": 3})), say("Five."))
    asked = {"model": MODEL, "input": text, "tools": [{**HUB, "allowed_tools": ["add"]}]}
    kinds = ["mcp_list_tools", "mcp_call", "message"]
    with NodeClient(f"{hub.url}/v1", chat_key) as node:
        assert [item["type"] for item in node.ask("responses", asked)["output"]] == kinds
        events = node.ask("responses_stream", asked)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        final = node.ask("responses_helper", asked)
        assert ([item["type"] for item in final["output"]], final["output_text"]) == (kinds, "Five.")
        with pytest.raises(NodeError) as refused:
            node.ask("responses", {**asked, "previous_response_id": "resp_unknown"})
    assert (refused.value.told["name"], refused.value.told["status"]) == ("BadRequestError", 400)


async def _asynchronously(hub: Hub, key: str) -> tuple[str, list[str]]:
    async with openai.AsyncOpenAI(
        base_url=f"{hub.url}/v1", api_key=key, max_retries=0, timeout=PATIENCE_SECONDS
    ) as client:
        said = await client.responses.create(model=MODEL, input=script(say("Async.")))
        stream = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": script(say("Async."))}], stream=True
        )
        return said.output_text, [chunk.choices[0].delta.content or "" async for chunk in stream]


def test_the_asynchronous_client_understands_it_too(hub: Hub, chat_key: str) -> None:
    said, pieces = asyncio.run(_asynchronously(hub, chat_key))
    assert (said, "".join(pieces)) == ("Async.", "Async.")
