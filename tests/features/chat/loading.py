"""Turns of the engine in one process, with a searched toolset and a provider that may load tools."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import httpx2

from invocations.call_source import CallSource
from mcphub.features.chat.engine.events import TurnFinished
from mcphub.features.chat.engine.loop import TurnRun
from mcphub.features.chat.engine.metering import Metering
from mcphub.features.chat.engine.turn import Turn, TurnSource
from mcphub.features.chat.providers.client import ProviderClient
from mcphub.features.chat.providers.prices import Prices
from mcphub.features.chat.providers.snapshot import Model, ModelChoice, Provider
from mcphub.features.quotas.quota import Quotas
from sessions_app.caller import Caller
from tests.features.chat.answers import Answer
from tests.features.chat.native import NativeRequest, Refused, refusal
from tests.features.chat.script import Step, steps_of
from tools_catalog.catalog.toolsets import Toolset

CALLER = Caller(principal="key:1", label="tester", scopes=frozenset({"tools:call", "chat"}))


class LoadingPeer:
    """The provider's side, on each wire."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []

    def step(self, messages: list[dict[str, Any]]) -> Step:
        steps, turn, _ = steps_of(messages)
        return steps[turn]

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        path, body = request.url.path, json.loads(request.content)
        self.requests.append((path, body))
        if path.endswith("/chat/completions"):
            return httpx2.Response(200, json=Answer(self.step(body["messages"]), body).whole())
        try:
            native = NativeRequest(path, body)
            answer = native.answer(self.step(native.messages))
        except Refused as refused:
            return httpx2.Response(400, json=refusal(path, str(refused)))
        if not body.get("stream"):
            return httpx2.Response(200, json=native.whole(answer))
        frames = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in native.events(answer))
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=frames.encode())

    def bodies(self, path: str) -> list[dict[str, Any]]:
        return [body for each, body in self.requests if each.endswith(path)]


class _EverythingShown:
    """Permissions of a caller that is shown each definition as it is."""

    def shown(self, tool: Any) -> dict[str, Any]:
        definition: dict[str, Any] = tool.definition
        return definition


_CONTEXT = cast(Any, SimpleNamespace(permissions=_EverythingShown()))


class SearchedTools:
    """The call path's side: searches for real, and sums, or has one result."""

    def __init__(self, result: Any = None) -> None:
        self._result = result
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def exchange(self, source: CallSource) -> None:
        return None

    async def call_tool(self, request: Any, exchange: None) -> SimpleNamespace:
        self.calls.append((request.name, request.arguments))
        if request.check is not None:
            request.check(None)
        if request.selection is not None:
            found = await request.selection.find(request.name, CALLER).backend.call(request.arguments, _CONTEXT)
            wire = {"content": found.content, "structuredContent": found.structured}
        else:
            text = str(sum(request.arguments.values())) if self._result is None else json.dumps(self._result)
            wire = {"content": [{"type": "text", "text": text}]}
        return SimpleNamespace(invocation_id="i", wire=wire, code="", hidden=None)


async def turn(
    peer: LoadingPeer,
    toolset: Toolset,
    offered: str,
    messages: list[dict[str, Any]],
    *,
    stream: bool = False,
    model: str = "m",
    result: Any = None,
    **more: Any,
) -> tuple[list[Any], TurnFinished, SearchedTools]:
    provider = Provider(
        slug="p", kind="compatible", base_url="https://models.example/v1", headers={}, retries=0, tools_offered=offered
    )
    asked = Turn(
        source=TurnSource(
            call=CallSource(caller=CALLER, session_id="s", transport="chat", client_name=""), entry_point="python"
        ),
        choice=ModelChoice(Model(provider=provider, name=model), asked_for="m"),
        messages=messages,
        tools=[toolset.find(name, CALLER) for name in toolset.searching],
        reached=list(toolset.tools.values()),
        searched=toolset,
        stream=stream,
        **more,
    )
    tools, metering = SearchedTools(result), Metering(CALLER, cast(Any, None), cast(Any, None), Quotas, Prices)
    client = ProviderClient(client=httpx2.AsyncClient(transport=httpx2.MockTransport(peer)))
    try:
        events = [event async for event in TurnRun(asked, cast(Any, tools), client, metering).events()]
    finally:
        await client.aclose()
    return events, events[-1], tools
