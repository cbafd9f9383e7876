"""`/v1/responses`, judged by the official client: items, events, what goes on from what, and what a yes is worth."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.chat.script import Step, say, script

MODEL = "openai/scripted-large"
HUB: dict[str, Any] = {"type": "mcp", "server_label": "tools", "server_url": "hub", "require_approval": "never"}


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
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
        "response.output_text.delta", "response.output_text.done", "response.content_part.done",
        "response.output_item.done", "response.completed",
    ]  # fmt: skip


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
