"""What providers say, as the hub reads it: answers whole and in pieces, and each published error. Pure."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.chat.providers.completions import Malformed, ProviderCompletion
from mcphub.features.chat.providers.provider_errors import ProviderError, may_retry, to_chat_error
from tests.features.chat.complaints import COMPLAINTS


def said(name: str, kind: str = "openai") -> Any:
    told = COMPLAINTS[name]
    return to_chat_error("p", kind, ProviderError.read(told.status, dict(told.headers), told.body))


@pytest.mark.parametrize(
    ("name", "kind", "code", "status", "retry"),
    [
        ("invalid_request", "openai", "INVALID_QUERY", 400, False),
        ("context_length_exceeded", "openai", "INVALID_QUERY", 400, False),
        ("content_filter", "openai", "CONTENT_FILTER", 400, False),
        ("invalid_api_key", "openai", "AUTHENTICATION_FAILED", 502, False),
        ("forbidden", "openai", "AUTHENTICATION_FAILED", 502, False),
        ("model_not_found", "openai", "INVALID_QUERY", 404, False),
        ("rate_limit_exceeded", "openai", "PROVIDER_UNAVAILABLE", 503, True),
        ("insufficient_quota", "openai", "QUOTA_EXCEEDED", 429, False),
        ("credit_balance_exhausted", "openai", "QUOTA_EXCEEDED", 429, False),
        ("server_error", "openai", "PROVIDER_UNAVAILABLE", 503, True),
        ("overloaded", "openai", "PROVIDER_UNAVAILABLE", 503, True),
        ("html_502", "openai", "PROVIDER_UNAVAILABLE", 503, True),
        ("empty_500", "openai", "PROVIDER_UNAVAILABLE", 503, True),
        ("ModelArts.81001", "huawei_maas", "INVALID_QUERY", 400, False),
        ("ModelArts.81002", "huawei_maas", "AUTHENTICATION_FAILED", 502, False),
        ("ModelArts.81003", "huawei_maas", "AUTHENTICATION_FAILED", 502, False),
        ("ModelArts.81004", "huawei_maas", "AUTHENTICATION_FAILED", 502, False),
        ("ModelArts.81005", "huawei_maas", "QUOTA_EXCEEDED", 429, False),
        ("ModelArts.81006", "huawei_maas", "QUOTA_EXCEEDED", 429, False),
        ("ModelArts.81009", "huawei_maas", "INVALID_QUERY", 404, False),
        ("ModelArts.81011", "huawei_maas", "CONTENT_FILTER", 400, False),
        ("ModelArts.81101", "huawei_maas", "PROVIDER_UNAVAILABLE", 503, True),
        ("ModelArts.81103", "huawei_maas", "PROVIDER_UNAVAILABLE", 503, True),
        ("APIG.0203", "huawei_maas", "PROVIDER_UNAVAILABLE", 503, True),
        ("vllm_bad_request", "huawei_maas", "INVALID_QUERY", 400, False),
        ("vllm_not_found", "huawei_maas", "INVALID_QUERY", 404, False),
    ],
)
def test_each_published_error_has_its_meaning(name: str, kind: str, code: str, status: int, retry: bool) -> None:
    error = said(name, kind)
    assert (error.code, error.http_status, error.should_retry) == (code, status, retry)


def test_waits_are_passed_on_and_keys_are_not() -> None:
    assert said("rate_limit_long").retry_after == 600
    told = ProviderError.read(400, {"retry-after-ms": "1500"}, b'{"error":{"message":"Bad key sk-abcdefgh1234 given"}}')
    assert told.retry_after == 1.5
    assert "abcdefgh" not in to_chat_error("p", "openai", told).message
    assert "sk-inv" not in said("invalid_api_key").message


@pytest.mark.parametrize(
    ("name", "again"),
    [
        ("overloaded", True),
        ("rate_limit_exceeded", True),
        ("html_502", True),
        ("insufficient_quota", False),
        ("server_error", False),
        ("invalid_request", False),
    ],
)
def test_only_passing_failures_are_tried_again(name: str, again: bool) -> None:
    told = COMPLAINTS[name]
    complaint = ProviderError.read(told.status, dict(told.headers), told.body)
    assert may_retry(to_chat_error("p", "openai", complaint), complaint) is again


@given(st.binary(max_size=300), st.integers(min_value=400, max_value=599), st.sampled_from(["openai", "huawei_maas"]))
def test_any_error_body_has_a_meaning(body: bytes, status: int, kind: str) -> None:
    error = to_chat_error("p", kind, ProviderError.read(status, {}, body))
    assert 400 <= error.http_status < 600
    assert error.message


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "message",
                    "content",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "id",
                    "index",
                    "usage",
                    "prompt_tokens",
                    "completion_tokens",
                    "finish_reason",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.lists(_json, max_size=5))
def test_no_chunk_breaks_the_reader(values: list[Any]) -> None:
    answer = ProviderCompletion()
    for value in values:
        with contextlib.suppress(Malformed):
            answer.read_chunk(value)
        with contextlib.suppress(Malformed):
            ProviderCompletion().read_whole(value)
    assert isinstance(answer.text, str)
    assert all(isinstance(call.arguments, str) for call in answer.calls)


def test_calls_in_pieces_come_together() -> None:
    answer = ProviderCompletion()
    deltas: list[dict[str, Any]] = [
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x"'}}]},
        {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "g", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": {"y": 2}}}]},
    ]
    for delta in deltas:
        answer.read_chunk({"choices": [{"delta": delta}]})
    assert [(call.id, call.name, call.arguments) for call in answer.calls] == [
        ("a", "f", '{"x":1}'),
        ("b", "g", '{"y":2}'),
    ]


def piece(**call: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"tool_calls": [call]}}]}


ONE = ("a", "f", '{"x":1}')
WHOLE = {"id": "a", "function": {"name": "f", "arguments": '{"x":1}'}}
STREAMS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str, str]]]] = {
    "the tail of a second call has another number than its head": (
        [
            piece(index=0, **WHOLE),
            piece(index=0, id="b", function={"name": "f", "arguments": '{"x"'}),
            piece(index=1, function={"arguments": ":2}"}),
        ],
        [ONE, ("b", "f", '{"x":2}')],
    ),
    "the whole arguments once more": ([piece(index=0, **WHOLE), piece(index=0, **WHOLE)], [ONE]),
    "no arguments twice": (
        [
            piece(index=0, id="a", function={"name": "f", "arguments": "{}"}),
            piece(index=0, function={"arguments": "{}"}),
        ],
        [("a", "f", "{}")],
    ),
    "a last piece without a function": ([piece(index=0, **WHOLE), piece(index=0, function=None)], [ONE]),
    "a call that is null": ([piece(index=0, **WHOLE), {"choices": [{"delta": {"tool_calls": [None]}}]}], [ONE]),
    "calls that are one": ([{"choices": [{"delta": {"tool_calls": WHOLE}}]}], [ONE]),
    "an id that is a number": ([piece(index=0, **{**WHOLE, "id": 7})], [("7", *ONE[1:])]),
    "name and arguments beside the id": ([piece(index=0, id="a", name="f", arguments='{"x":1}')], [ONE]),
    "numbers that are texts": (
        [piece(index="0", **WHOLE), piece(index="1", id="b", function={"name": "g", "arguments": "{}"})],
        [ONE, ("b", "g", "{}")],
    ),
    "arguments before the name": (
        [piece(id="a", function={"arguments": '{"x"'}), piece(id="a", function={"name": "f", "arguments": ":1}"})],
        [ONE],
    ),
    "calls in a choice of their own": (
        [{"choices": [{"delta": {}}, {"index": 1, "delta": {"tool_calls": [{"index": 0, **WHOLE}]}}]}],
        [ONE],
    ),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_streamed_calls_are_read_as_they_are_meant(kind: str) -> None:
    chunks, calls = STREAMS[kind]
    answer = ProviderCompletion()
    for chunk in chunks:
        answer.read_chunk(chunk)
    assert [(call.id, call.name, call.arguments) for call in answer.calls] == calls


def test_calls_in_choices_of_their_own_are_all_read() -> None:
    answer = ProviderCompletion()
    said: dict[str, Any] = {"message": {"content": "I look."}, "finish_reason": "tool_calls"}
    answer.read_whole({"choices": [said, {"message": {"tool_calls": [WHOLE]}, "finish_reason": "tool_calls"}]})
    assert (answer.text, answer.finish_reason) == ("I look.", "tool_calls")
    assert [(call.id, call.name, call.arguments) for call in answer.calls] == [ONE]
