"""The scripted provider is what the tests of the chat lean on: it must be a provider to the official client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import Step, calls, error, say, script
from tests.servers import until
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider("provider-key") as running:
        yield running


@pytest.fixture(scope="module")
def client(provider: ScriptedProvider) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=provider.url, api_key="provider-key", max_retries=0, timeout=PATIENCE_SECONDS) as made:
        yield made


def ask(client: openai.OpenAI, *steps: Step, **more: Any) -> Any:
    messages = [{"role": "user", "content": script(*steps)}]
    return client.chat.completions.create(model="scripted-large", messages=messages, **more)  # type: ignore[call-overload]


@pytest.mark.parametrize("style", ["lf", "crlf", "cr", "multiline"])
def test_any_framing_of_a_stream_can_be_read_with_characters_cut_in_two(client: openai.OpenAI, style: str) -> None:
    stream = ask(client, say("Жёлтый 😀", wire=style, bytes=1, pieces=1), stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "Жёлтый 😀"


def test_the_steps_follow_the_rounds_of_a_turn(client: openai.OpenAI) -> None:
    tools = [{"type": "function", "function": {"name": "starter_sum_1", "parameters": {}}}]
    text = script(calls(("starter.sum", {"q": "ы"})), say("Done."))
    messages: list[Any] = [{"role": "user", "content": text}]
    first = client.chat.completions.create(model="m", messages=messages, tools=tools).choices[0]  # type: ignore[arg-type]
    call = first.message.tool_calls[0]  # type: ignore[index]
    assert (first.finish_reason, call.function.name) == ("tool_calls", "starter_sum_1")  # type: ignore[union-attr]
    messages += [first.message, {"role": "tool", "tool_call_id": call.id, "content": "5"}]
    assert client.chat.completions.create(model="m", messages=messages).choices[0].message.content == "Done."


def test_an_error_may_pass_after_some_attempts(client: openai.OpenAI) -> None:
    steps = error("overloaded", times=1)
    with pytest.raises(openai.InternalServerError):
        ask(client, steps)
    assert ask(client, steps).choices[0].message.content == "At last."


def test_requests_are_recorded_and_leaving_is_seen(client: openai.OpenAI, provider: ScriptedProvider) -> None:
    stream = ask(client, say("never ends, for sure", cut="stall", after=1), stream=True)
    next(iter(stream))
    stream.close()
    request = until(lambda: [each for each in provider.about("for sure") if each["is_gone"]])[0]
    assert request["headers"]["authorization"] == "Bearer provider-key"
