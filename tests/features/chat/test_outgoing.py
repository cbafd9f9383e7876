"""Pieces of answers put together, and what goes back to which model. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.features.chat.dialects import dialect_of
from mcphub.features.chat.engine import outgoing
from mcphub.features.chat.messages import VENDOR
from mcphub.features.chat.providers.completions import ProviderCompletion

ANY = dialect_of("compatible", "https://models.example/v1", "m")


def call(index: Any = None, id: str = "", name: str = "", arguments: str = "", **more: Any) -> dict[str, Any]:
    function = {each: value for each, value in (("name", name), ("arguments", arguments)) if value}
    own = {each: value for each, value in (("index", index), ("id", id)) if value not in (None, "")}
    return {**own, "function": function, **more}


@pytest.mark.parametrize(
    ("pieces", "made"),
    [
        pytest.param(
            [call(0, "1", "f"), call(0, arguments='{"a":1}'), call(0, "2", "f"), call(0, arguments='{"a":2}')],
            [("1", "f", '{"a":1}'), ("2", "f", '{"a":2}')],
            id="one index, two ids",
        ),
        pytest.param(
            [call(0, "", "f", "{}"), call(0, "", "g", "{}")], [("", "f", "{}"), ("", "g", "{}")], id="two names"
        ),
        pytest.param(
            [call(0, "", "f", '{"a":1}'), call(0, "", "f", '{"a":2}')],
            [("", "f", '{"a":1}'), ("", "f", '{"a":2}')],
            id="one function twice, whole, without ids",
        ),
        pytest.param(
            [call(0, "1", "f", '{"a"'), call(0, "1", "f", ":1}")], [("1", "f", '{"a":1}')], id="id and name repeated"
        ),
        pytest.param(
            [call(0, "1", "f", '{"a"'), call(0, "zz", arguments=":1}")],
            [("1", "f", '{"a":1}')],
            id="an id for each piece",
        ),
        pytest.param(
            [
                call(None, "1", "f", '{"a"'),
                call(None, "2", "g", "{"),
                call(None, "1", arguments=":1}"),
                call(None, "2", arguments="}"),
            ],
            [("1", "f", '{"a":1}'), ("2", "g", "{}")],
            id="ids instead of indexes",
        ),
        pytest.param(
            [call(None, "1", "f", '{"a"'), call(None, arguments=":1}")], [("1", "f", '{"a":1}')], id="neither"
        ),
    ],
)
def test_streamed_calls_are_told_apart(pieces: list[dict[str, Any]], made: list[tuple[str, str, str]]) -> None:
    answer = ProviderCompletion()
    for piece in pieces:
        answer.read_chunk({"choices": [{"delta": {"tool_calls": [piece]}}]})
    assert [(each.id, each.name, each.arguments) for each in answer.calls] == made


def test_a_function_call_of_the_first_wire_is_a_call() -> None:
    answer = ProviderCompletion()
    for function in ({"name": "f", "arguments": ""}, {"arguments": '{"a":'}, {"arguments": "1}"}):
        answer.read_chunk({"choices": [{"delta": {"function_call": function}}]})
    assert [(each.name, each.arguments) for each in answer.calls] == [("f", '{"a":1}')]


def test_pieces_of_vendor_members_come_together() -> None:
    answer = ProviderCompletion()
    for delta in (
        {"reasoning_content": "ha", "phase": "final"},
        {"reasoning_content": "ha", "phase": "final", "extra_content": {"google": {"a": 1}}},
        {"extra_content": {"google": {"b": 2}}, "annotations": [{}], "nothing": None},
        {"tool_calls": [{**call(0, "1", "f"), "extra_content": {"google": {"thought_signature": "s"}}}]},
        {"tool_calls": [call(0, arguments="{}")]},
    ):
        answer.read_chunk({"choices": [{"delta": delta}]})
    extra = {"google": {"a": 1, "b": 2}}
    assert answer.vendor == {"reasoning_content": "haha", "phase": "final", "extra_content": extra}
    assert answer.calls[0].vendor == {"extra_content": {"google": {"thought_signature": "s"}}}


def kept(model: str = "p/m", **vendor: Any) -> dict[str, Any]:
    answer = ProviderCompletion()
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}", "note": "n"}, "sign": "s"}]
    answer.read_whole({"choices": [{"message": {"content": None, "tool_calls": calls, **vendor}}]})
    message = {"role": "assistant", "content": None, "tool_calls": [each.wire() for each in answer.calls]}
    outgoing.keep(message, answer, answer.calls, model)
    return message


def test_what_a_model_sent_goes_back_to_it_and_to_no_other() -> None:
    message = kept(reasoning="r")
    (back,) = outgoing.outgoing([message], "p/m", ANY)
    assert back["reasoning"] == "r"
    assert back["tool_calls"][0] == {
        "id": "1",
        "type": "function",
        "function": {"name": "f", "arguments": "{}", "note": "n"},
        "sign": "s",
    }
    (other,) = outgoing.outgoing([message], "p/other", ANY)
    assert other == {name: value for name, value in message.items() if name != VENDOR}


def test_thoughts_without_a_call_do_not_go_back() -> None:
    answer = ProviderCompletion()
    answer.read_whole({"choices": [{"message": {"content": "so", "reasoning_content": "r", "reasoning_details": [1]}}]})
    message: dict[str, Any] = {"role": "assistant", "content": "so"}
    outgoing.keep(message, answer, [], "p/m")
    assert outgoing.outgoing([message], "p/m", ANY)[0] == {
        "role": "assistant",
        "content": "so",
        "reasoning_details": [1],
    }


def test_too_much_beside_an_answer_is_not_kept() -> None:
    assert VENDOR not in kept(blob="x" * outgoing.MOST_VENDOR_BYTES)


def test_a_closed_wire_gets_no_members_that_a_client_sends() -> None:
    groq = dialect_of("compatible", "https://api.groq.com/openai/v1", "m")
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": {}}]
    message = {"role": "assistant", "content": None, "reasoning_content": "r", "tool_calls": calls}
    (sent,) = outgoing.outgoing([message], "groq/m", groq)
    assert sent.keys() == {"role", "content", "tool_calls"}
    assert sent["tool_calls"][0].keys() == {"id", "type", "function"}
