"""The state that travels with a stateless client: encrypted, bound, short-lived, bounded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from invocations.call.context import CallContext, CallInput
from invocations.call.running import UnrecordedWork
from invocations.call_source import CallSource
from invocations.configuration import Configuration
from invocations.exchange import CallExchange
from mcphub.server.input_rounds import LARGEST_STATE_BYTES, InputRounds
from sessions_app.caller import Caller
from sessions_app.protocol import revisions
from sessions_app.protocol.errors import AskFailed, InvalidParams
from tools_catalog.call.input_requests import InputRequest, Sample

MODERN = revisions.revision("2026-07-28")
WORDS = Sample("Words?")
SAID = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "so"}}


class Given(Exception):
    """The call was given up."""


class Call(CallInput):
    async def suspend(self) -> Any:
        raise Given


def call(principal: str = "key:1") -> Call:
    caller = Caller(principal=principal, label="", scopes=frozenset())
    source = CallSource(
        caller=caller,
        session_id="s",
        transport="sse",
        protocol_version="2026-07-28",
        client_capabilities={"sampling": {}},
    )
    return Call(
        CallContext(
            CallExchange(source=source, configuration=Configuration()),
            "tool",
            "first-id",
            UnrecordedWork(source, "1", None, 10),
        )
    )


def play(params: dict[str, Any], principal: str = "key:1", **questions: InputRequest) -> Any:
    """Play one round of a tool that asks `questions`: its answers, or the state of the next round."""
    context = call(principal)
    rounds = InputRounds.of(context._call.source, MODERN, "tools/call", params)
    rounds.check()
    try:
        return asyncio.run(rounds.ask(context, questions))
    except Given:
        return rounds.suspended("first-id").wire["requestState"]


def test_an_expired_state_is_refused(settings: Any) -> None:
    settings.MCPHUB_ANSWER_SECONDS = -1
    state = play({"name": "t"}, words=WORDS)
    with pytest.raises(InvalidParams, match="expired"):
        play({"name": "t", "requestState": state}, words=WORDS)


def test_a_state_of_another_secret_is_refused(settings: Any) -> None:
    state = play({"name": "t"}, words=WORDS)
    settings.SECRET_KEY = "x" * 50
    with pytest.raises(InvalidParams, match="not one that the hub gave"):
        play({"name": "t", "requestState": state}, words=WORDS)


def test_a_state_is_bound_to_caller_and_parameters_but_not_to_what_surrounds_them() -> None:
    state = play({"name": "t", "arguments": {"a": 1}}, words=WORDS)
    good = {"name": "t", "arguments": {"a": 1}, "requestState": state, "inputResponses": {"words": SAID}, "_meta": {}}
    assert play(good, words=WORDS)["words"].text == "so"
    for params in ({**good, "name": "u"}, {**good, "arguments": {"a": 2}}, {**good, "more": 1}):
        with pytest.raises(InvalidParams):
            play(params, words=WORDS)
    with pytest.raises(InvalidParams):
        play(good, "key:2", words=WORDS)


def test_a_call_that_asks_nothing_digests_none_of_its_parameters() -> None:
    """Parameters are relayed by the megabyte; what no JSON can hold tells whether they are read."""
    call_input = call()
    rounds = InputRounds.of(call_input._call.source, MODERN, "tools/call", {"name": "t", "arguments": {"a": object()}})
    rounds.check()
    assert (rounds.resume_token, rounds.continues) == ("", "")
    with pytest.raises(Given):
        asyncio.run(rounds.ask(call_input, {"words": WORDS}))
    with pytest.raises(ValueError, match="JSON"):
        rounds.suspended("first-id")


def test_answers_are_carried_to_the_last_round() -> None:
    first = play({"name": "t"}, words=WORDS)
    second = play(
        {"name": "t", "requestState": first, "inputResponses": {"words": SAID}}, words=WORDS, more=Sample("More?")
    )
    last = {"name": "t", "requestState": second, "inputResponses": {"more": SAID, "words": {"role": 5}}}
    assert {key: each.text for key, each in play(last, words=WORDS, more=Sample("More?")).items()} == {
        "words": "so",
        "more": "so",
    }


def test_answers_may_not_grow_without_bound() -> None:
    first = play({"name": "t"}, words=WORDS)
    long = {**SAID, "content": {"type": "text", "text": "x" * LARGEST_STATE_BYTES}}
    with pytest.raises(AskFailed, match="longer than"):
        play({"name": "t", "requestState": first, "inputResponses": {"words": long}}, words=WORDS, more=Sample("?"))


def test_two_states_of_the_same_round_differ() -> None:
    assert play({"name": "t"}, words=WORDS) != play({"name": "t"}, words=WORDS)
