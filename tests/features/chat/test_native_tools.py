"""Tools that a provider loads once the hub's search has found them: OpenAI's Responses, Claude's Messages."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from benchmarks import offers
from mcphub.features.chat.dialects import native_wire
from mcphub.features.chat.engine.events import ToolFinished
from tests.features.chat.loading import LoadingPeer, turn
from tests.features.chat.native import STUBBORN, NativeRequest
from tests.features.chat.script import calls, say, script
from tests.features.chat.tools import tool
from tests.search import quality
from tools_catalog.catalog.toolsets import Toolset

NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
TOOLS = [tool(name, NUMBERS, read_only=True) for name in ("far.add_numbers", "divide_numbers", "greet_people")]
TOOLSET = Toolset("all", TOOLS, groups=frozenset(), searches=True, words="")
FUNCTION = "far_add_numbers_"
STEPS = [
    calls(("search_tools", {"query": "add numbers", "limit": 1}), think="Search first."),
    calls(("far.add_numbers", {"a": 19, "b": 23}), think="Found."),
    say("It is 42."),
]
NATIVE = ["responses", "messages"]


def question(*steps: Any) -> list[dict[str, Any]]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": script(*steps)}]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("offered", NATIVE)
def test_a_found_tool_is_loaded_and_called_by_its_own_name(offered: str, stream: bool) -> None:
    async def scenario() -> None:
        peer = LoadingPeer()
        events, finished, tools = await turn(peer, TOOLSET, offered, question(*STEPS), stream=stream)
        assert finished.text == "It is 42."
        assert tools.calls == [
            ("search_tools", {"query": "add numbers", "limit": 1}),
            ("far.add_numbers", {"a": 19, "b": 23}),
        ]
        assert [each.name for each in events if isinstance(each, ToolFinished)] == ["search_tools", "far.add_numbers"]
        assert list(finished.functions.values()) == ["far.add_numbers"]
        assert [each["tools_offered"] for each in finished.rounds] == [offered] * 3
        assert finished.usage is not None
        # A second turn of the conversation goes on with what is loaded.
        again = [*question(*STEPS), *finished.messages_added, *question(STEPS[1], say("42 again."))[1:]]
        _, finished, _ = await turn(peer, TOOLSET, offered, again, stream=stream)
        assert (finished.text, finished.notices) == ("42 again.", [])
        assert len(peer.requests) == len(peer.bodies(offered)) == 5

    asyncio.run(scenario())


def test_tasks_take_fewer_tokens_by_three_tools_and_fewest_where_the_provider_loads() -> None:
    tools = offers.definitions(500)
    toolset = Toolset("all", tools.values(), groups=frozenset(), searches=True, words="")
    asked = [each for each in quality.questions() if offers.wanted_of(list(tools), each.wanted)][::25]
    eager = offers.eager(tools, asked)
    three, *native = (asyncio.run(offers.offered(how, toolset, asked)) for how in ("search", *NATIVE))
    assert eager.completed == len(asked)
    assert min(each.completed for each in (three, *native)) >= 0.8 * len(asked)
    assert three.tokens_a_task <= 0.3 * eager.tokens_a_task
    for each in native:
        assert each.tokens_a_task <= 0.6 * three.tokens_a_task


@pytest.mark.parametrize("offered", NATIVE)
def test_what_the_provider_has_cached_does_not_change(offered: str) -> None:
    async def scenario() -> None:
        peer = LoadingPeer()
        _, finished, _ = await turn(peer, TOOLSET, offered, question(*STEPS))
        again = [*question(*STEPS), *finished.messages_added, *question(STEPS[1], say("42 again."))[1:]]
        await turn(peer, TOOLSET, offered, again)
        said = "input" if offered == "responses" else "messages"
        assert len(peer.bodies(offered)) == 5
        for before, after in zip(peer.bodies(offered), peer.bodies(offered)[1:], strict=False):
            assert {**after, said: None} == {**before, said: None}
            assert after[said][: len(before[said])] == before[said]

    asyncio.run(scenario())


def test_requests_and_answers_are_those_of_the_official_client() -> None:
    async def scenario() -> None:
        peer = LoadingPeer()
        parameters = {"max_completion_tokens": 50, "reasoning_effort": "low", "response_format": {"type": "text"}}
        image = {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}
        asked = question(*STEPS)
        asked[1]["content"] = [{"type": "text", "text": asked[1]["content"]}, image]
        await turn(peer, TOOLSET, "responses", asked, parameters=parameters)
        for body in peer.bodies("/responses"):
            TypeAdapter(ResponseCreateParamsNonStreaming).validate_python(body)
            assert [each["type"] for each in body["tools"]] == ["tool_search"]
            native = NativeRequest("/responses", body)
            Response.model_validate(native.whole(native.answer(say("Fine."))), strict=True)
        loaded = [item for item in peer.bodies("/responses")[-1]["input"] if item.get("type") == "tool_search_output"]
        assert [each["name"].startswith(FUNCTION) for each in loaded[0]["tools"]] == [True]
        assert loaded[0]["tools"][0]["parameters"]["properties"]["a"] == {"type": "integer"}

    asyncio.run(scenario())


def test_a_search_loads_few_tools_unless_the_model_asks_for_more() -> None:
    async def scenario() -> None:
        _, _, tools = await turn(
            LoadingPeer(), TOOLSET, "messages", question(calls(("search_tools", {"query": "numbers"})), say("x"))
        )
        assert tools.calls == [("search_tools", {"query": "numbers", "limit": 5})]

    asyncio.run(scenario())


def test_a_search_without_a_hit_is_told_in_words() -> None:
    async def scenario() -> None:
        peer = LoadingPeer()
        steps = [calls(("search_tools", {"query": "qqqq"})), say("Nothing.")]
        for offered in NATIVE:
            _, finished, _ = await turn(peer, TOOLSET, offered, question(*steps))
            assert finished.text == "Nothing."
        result = peer.bodies("/messages")[-1]["messages"][-1]["content"][0]
        assert json.loads(result["content"])["unmatched"] == ["qqqq"]

    asyncio.run(scenario())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("offered", NATIVE)
def test_a_provider_that_refuses_gets_three_tools_for_the_conversation(offered: str, stream: bool) -> None:
    async def scenario() -> None:
        peer = LoadingPeer()
        steps = [
            calls(("search_tools", {"query": "add numbers"})),
            calls(("call_tool", {"name": "far.add_numbers", "arguments": {"a": 1, "b": 2}})),
            say("3."),
        ]
        _, finished, tools = await turn(peer, TOOLSET, offered, question(*steps), stream=stream, model=STUBBORN)
        assert (finished.text, tools.calls[-1]) == ("3.", ("far.add_numbers", {"a": 1, "b": 2}))
        [notice] = finished.notices
        assert notice.startswith(f"p/{STUBBORN} refused to load tools ({offered}): this conversation goes on")
        assert [each["tools_offered"] for each in finished.rounds] == [offered, "search", "search", "search"]
        again = [*question(*steps), *finished.messages_added, *question(say("Fine."))[1:]]
        _, finished, _ = await turn(peer, TOOLSET, offered, again, stream=stream, model=STUBBORN)
        assert (finished.text, finished.notices, len(peer.bodies(offered))) == ("Fine.", [], 1)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("offered", "more"),
    [("responses", {"stop": "x"}), ("messages", {"response_format": {"type": "json_object"}}), ("search", {})],
)
def test_a_request_that_a_wire_has_no_place_for_gets_three_tools(offered: str, more: dict[str, Any]) -> None:
    async def scenario() -> None:
        peer = LoadingPeer()
        _, finished, _ = await turn(peer, TOOLSET, offered, question(say("Hi.")), parameters=more)
        assert (finished.text, finished.notices) == ("Hi.", [])
        [body] = peer.bodies("/chat/completions")
        assert {each["function"]["name"] for each in body["tools"]} == set(TOOLSET.searching)

    asyncio.run(scenario())


def test_all_tools_at_once_are_listed_by_their_own_names() -> None:
    async def scenario() -> None:
        peer = LoadingPeer()
        _, _, tools = await turn(
            peer, TOOLSET, "eager", question(calls(("divide_numbers", {"a": 1, "b": 2})), say("x"))
        )
        assert len(peer.bodies("/chat/completions")[0]["tools"]) == len(TOOLS)
        assert tools.calls == [("divide_numbers", {"a": 1, "b": 2})]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("kind", "url", "model", "wire"),
    [
        ("openai", "https://api.openai.com/v1", "gpt-5.4-mini", "responses"),
        ("openai", "https://api.openai.com/v1", "gpt-6", "responses"),
        ("openai", "https://api.openai.com/v1", "gpt-5.1", ""),
        ("openai", "https://x.openai.azure.com/openai/v1", "gpt-5.5", ""),
        ("compatible", "https://api.anthropic.com/v1", "claude-sonnet-4-5-20250929", "messages"),
        ("compatible", "https://api.anthropic.com/v1", "claude-haiku-4-5", "messages"),
        ("compatible", "https://api.anthropic.com/v1", "claude-3-7-sonnet-latest", ""),
        ("compatible", "https://openrouter.ai/api/v1", "anthropic/claude-sonnet-4-5", ""),
        ("compatible", "http://127.0.0.1:8080/v1", "gpt-5.4", ""),
    ],
)
def test_only_documented_models_of_their_maker_load_by_default(kind: str, url: str, model: str, wire: str) -> None:
    assert native_wire(kind, url, model) == wire
