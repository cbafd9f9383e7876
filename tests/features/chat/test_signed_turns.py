"""Calls that carry a signature, over the wire: it comes back in the round, in the next turn, and through the client."""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx2
import pytest

from tests.features.chat.answers import signature
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import calls, say, script
from tests.features.chat.test_tool_turns import MODEL

SIGNED = {"sign": "c2ln", "think": "I should look."}


def words() -> tuple[str, str]:
    mark = f"signed-{uuid.uuid4().hex[:12]}"
    return mark, script(calls(("tell", {"times": 1}), **SIGNED), say("Done."), prompt=mark)


def sent(provider: ScriptedProvider, mark: str) -> list[dict[str, Any]]:
    """The message with calls of each request with these words that has one."""
    requests = [each["body"]["messages"] for each in provider.about(mark)]
    return [message for messages in requests for message in messages if message.get("tool_calls")]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", ["chat/completions", "responses"])
def test_a_signature_comes_back_within_the_turn_and_in_the_next(
    raw: httpx2.Client, providers: dict[str, ScriptedProvider], wire: str, stream: bool
) -> None:
    provider = providers["openai"]
    mark, text = words()
    is_chat = wire == "chat/completions"
    body: dict[str, Any] = {"model": MODEL, "stream": stream}
    if is_chat:
        body |= {"messages": [{"role": "user", "content": text}], "x_mcp": {"tools": "all", "session_id": "new"}}
    else:
        tools = [{"type": "mcp", "server_label": "hub", "server_url": "hub", "require_approval": "never"}]
        body |= {"input": text, "tools": tools}
    first = raw.post(f"/{wire}", json=body)
    assert first.status_code == 200, first.text
    assert "Done." in first.text
    said = sent(provider, mark)
    assert [each["tool_calls"][0]["extra_content"] for each in said] == [signature("c2ln")]
    assert said[0]["reasoning_content"] == "I should look."

    if is_chat:
        more = {**body, "messages": [{"role": "user", "content": "And now?"}]}
        more["x_mcp"] = {"tools": "all", "session_id": first.headers["x-session-id"]}
    else:
        lines = [line.removeprefix("data: ") for line in first.text.splitlines() if line.startswith("data: ")]
        response = json.loads(lines[-1])["response"] if stream else first.json()
        more = {**body, "input": "And now?", "previous_response_id": response["id"]}
    second = raw.post(f"/{wire}", json=more)
    assert second.status_code == 200, second.text
    assert sent(provider, mark)[-1] == said[0]
    assert "x_mcp_vendor" not in json.dumps(provider.about(mark))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_client_that_runs_its_own_function_gets_the_signature(raw: httpx2.Client, stream: bool) -> None:
    text = script(calls(("mine", {}), **SIGNED), say("Done."))
    tools = [{"type": "function", "function": {"name": "mine"}}]
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}], "tools": tools, "stream": stream}
    answer = raw.post("/chat/completions", json=body).text
    assert '"extra_content":{"google":{"thought_signature":"c2ln"}}' in answer
