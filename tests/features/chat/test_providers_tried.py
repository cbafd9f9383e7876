"""Turns with each provider of *Providers tried*, replayed: whole, streamed, and with a second turn."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest

from invocations.call_source import CallSource
from mcphub.features.chat.dialects import DIALECTS, dialect_of
from mcphub.features.chat.engine.events import ClientToolCalls, ToolFinished, TurnFinished
from mcphub.features.chat.engine.loop import TurnRun
from mcphub.features.chat.engine.metering import Metering
from mcphub.features.chat.engine.turn import Turn, TurnSource
from mcphub.features.chat.errors import ChatError
from mcphub.features.chat.providers.client import ProviderClient
from mcphub.features.chat.providers.prices import Prices
from mcphub.features.chat.providers.snapshot import Model, ModelChoice, Provider
from mcphub.features.quotas.quota import Quotas
from sessions_app.caller import Caller
from tests.features.chat.tools import tool
from tests.features.chat.tried import TRIED, Tried, as_openai, calls, openai_schemas

ADD = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
ODD = {
    "type": "object",
    "anyOf": [{"required": ["ids"]}, {"required": ["mail"]}],
    "properties": {
        "ids": {"type": "array"},
        "mail": {"type": "string", "pattern": r"^(?!\.)[a-z]+@[a-z]+$"},
        "link": {"type": ["string", "null"], "format": "uri", "title": "A link"},
        "mode": {"const": "fast"},
        "level": {"enum": [1, 2]},
        "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
        "free": True,
        "more": {"oneOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}]},
    },
}
FILTERED = {"type": "object", "properties": {"$filter": {"type": "string"}}}
TOOLS = [tool("add", ADD, read_only=True), tool("21st_odd", ODD, read_only=True), tool("filtered", FILTERED)]


class Wire:
    """The provider's side: refuses what it does not take, calls in the first round, then tells the results."""

    def __init__(self, tried: Tried) -> None:
        self.tried = tried
        self.bodies: list[dict[str, Any]] = []
        self.refusals: list[Any] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        assert str(request.url) == f"{self.tried.address}/chat/completions"
        body = json.loads(request.content)
        self.bodies.append(body)
        for demand in self.tried.demands:
            refusal = demand(body)
            if refusal is not None:
                self.refusals.append(refusal)
                return httpx2.Response(refusal[0], json=refusal[1])
        begins = max(at for at, message in enumerate(body["messages"]) if message["role"] == "user")
        results = [message["content"] for message in body["messages"][begins:] if message["role"] == "tool"]
        message = {"role": "assistant", "content": f"Done: {results}"} if results else self.tried.message
        finish = "stop" if results else self.tried.finish
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            return httpx2.Response(
                200, json={"id": "x", "object": "chat.completion", "created": 1, "choices": [choice]}
            )
        deltas = [message] if results else [*(self.tried.pieces or as_openai)(json.loads(json.dumps(message)))]
        events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        frames = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
        content = self.tried.before + frames + b"data: [DONE]\n\n"
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=content)


class Tools:
    """The call path's side: sums."""

    def exchange(self, source: CallSource) -> None:
        return None

    async def call_tool(self, request: Any, exchange: None) -> SimpleNamespace:
        result = {"content": [{"type": "text", "text": str(request.arguments["a"] + request.arguments["b"])}]}
        return SimpleNamespace(invocation_id="i", wire=result, code="", hidden=None)


CALLER = Caller(principal="key:1", label="tester", scopes=frozenset({"tools:call", "chat"}))


@contextlib.asynccontextmanager
async def client_of(wire: Any) -> AsyncIterator[ProviderClient]:
    client = ProviderClient(client=httpx2.AsyncClient(transport=httpx2.MockTransport(wire)))
    try:
        yield client
    finally:
        await client.aclose()


def choice_of(tried: Tried) -> ModelChoice:
    provider = Provider(slug=tried.name, kind=tried.kind, base_url=tried.address, headers={}, retries=0)
    return ModelChoice(Model(provider=provider, name=tried.model), asked_for="m")


async def turn(wire: Wire, messages: list[dict[str, Any]], stream: bool, **more: Any) -> tuple[list[Any], TurnFinished]:
    source = CallSource(caller=CALLER, session_id="s", transport="chat", client_name="")
    asked = Turn(
        source=TurnSource(call=source, entry_point="python"),
        choice=choice_of(wire.tried),
        messages=messages,
        stream=stream,
        **{"tools": TOOLS, "parameters": {"max_completion_tokens": 100, "seed": 1}, **more},
    )
    metering = Metering(CALLER, cast(Any, None), cast(Any, None), Quotas, Prices)
    async with client_of(wire) as client:
        events = [event async for event in TurnRun(asked, cast(Any, Tools()), client, metering).events()]
    return events, events[-1]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("tried", TRIED, ids=lambda tried: tried.name)
def test_two_turns_with_tools_come_to_their_end(tried: Tried, stream: bool) -> None:
    async def scenario() -> None:
        wire = Wire(tried)
        messages: list[dict[str, Any]] = [{"role": "user", "content": "19+23 and 1+2?"}]
        for _ in range(2):
            events, finished = await turn(wire, messages, stream)
            made = [(event.name, event.content) for event in events if isinstance(event, ToolFinished)]
            assert made == [("add", "42"), ("add", "3")]
            assert finished.text == "Done: ['42', '3']"
            messages = [*messages, *finished.messages_added, {"role": "user", "content": "Again."}]
        unforeseen = 1 if tried.name == "vllm" else 0  # its demand is in no table, so it is met by its words
        assert len(wire.refusals) <= 2 * unforeseen
        expected = {"filtered"} if tried.name in ("anthropic", "openrouter") else set()
        assert set(finished.left_out) == expected

    asyncio.run(scenario())


def test_each_dialect_is_tried() -> None:
    spoken = {dialect_of(each.kind, each.address, each.model).name for each in TRIED}
    assert spoken | {"vllm"} == {dialect.name for dialect in DIALECTS}


@pytest.mark.parametrize("other", ["google", "deepseek", "kimi", "mistral", "groq"])
def test_a_conversation_goes_on_with_another_provider(other: str) -> None:
    """What one sent goes to no other, and each gets what it demands of calls that it did not make."""

    async def scenario() -> None:
        by_name = {each.name: each for each in TRIED}
        began = Wire(by_name["openrouter"])
        asked: list[dict[str, Any]] = [{"role": "user", "content": "19+23 and 1+2?"}]
        _, finished = await turn(began, asked, False)
        wire = Wire(by_name[other])
        if other == "mistral":
            wire.tried = by_name["groq"].__class__(**{**vars(by_name[other]), "demands": by_name[other].demands[:2]})
        messages = [*asked, *finished.messages_added, {"role": "user", "content": "Again."}]
        _, finished = await turn(wire, messages, False)
        assert finished.text == "Done: ['42', '3']"
        assert wire.refusals == []
        assert "reasoning_details" not in json.dumps(wire.bodies)

    asyncio.run(scenario())


def test_a_tool_that_cannot_be_sent_is_left_out_and_the_turn_goes_on() -> None:
    def no_odd(body: dict[str, Any]) -> tuple[int, Any] | None:
        names = [each["function"]["name"] for each in body.get("tools", ())]
        odd = next((name for name in names if "odd" in name), None)
        words = f"Invalid schema for function '{odd}': no."
        return (
            None if odd is None else (400, {"error": {"message": words, "param": "tools", "type": "x", "code": None}})
        )

    async def scenario() -> None:
        tried = Tried(
            name="strange", address="https://models.example/v1", model="m", demands=(no_odd,), message=calls()
        )
        wire = Wire(tried)
        _, finished = await turn(wire, [{"role": "user", "content": "?"}], False)
        assert finished.text == "Done: ['42', '3']"
        assert list(finished.left_out) == ["21st_odd"]
        assert len(wire.bodies) == 4  # as it is, bare, without it, and the second round

    asyncio.run(scenario())


def test_a_provider_that_refuses_whatever_tools_ends_the_turn_with_its_words() -> None:
    def never(body: dict[str, Any]) -> tuple[int, Any]:
        return 400, {"error": "tools: schema is not to my taste"}

    async def scenario() -> None:
        wire = Wire(Tried(name="strange", address="https://models.example/v1", model="m", demands=(never,)))
        with pytest.raises(ChatError, match="It says: tools: schema is not to my taste"):
            await turn(wire, [{"role": "user", "content": "?"}], False)
        assert len(wire.bodies) == 2

    asyncio.run(scenario())


def test_a_client_gets_its_calls_with_what_came_beside_them() -> None:
    async def scenario() -> None:
        google = next(each for each in TRIED if each.name == "google")
        wire = Wire(google)
        mine = [{"type": "function", "function": {"name": "add", "parameters": ADD}}]
        events, _ = await turn(wire, [{"role": "user", "content": "?"}], True, tools=[], client_tools=mine)
        (told,) = [event for event in events if isinstance(event, ClientToolCalls)]
        assert told.calls == google.message["tool_calls"]
        results = [{"role": "tool", "tool_call_id": each["id"], "content": "7"} for each in told.calls]
        messages = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": None, "tool_calls": told.calls},
            *results,
        ]
        _, finished = await turn(wire, messages, True, tools=[], client_tools=mine)
        assert finished.text == "Done: ['7', '7']"
        assert wire.refusals == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "tried", [each for each in TRIED if openai_schemas in each.demands], ids=lambda each: each.name
)
def test_without_the_rules_the_provider_would_refuse(tried: Tried) -> None:
    """Keep the fixtures honest: the tools as they are would fail the turn."""
    tools = [{"function": {"name": each.name, "parameters": each.definition["inputSchema"]}} for each in TOOLS]
    assert openai_schemas({"tools": tools}) is not None
