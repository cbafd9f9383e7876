"""Errors of providers in every shape that was reported: their words are kept. Pure."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.chat.providers import error_bodies
from mcphub.features.chat.providers.completions import ProviderCompletion
from mcphub.features.chat.providers.provider_errors import ProviderError, to_chat_error
from mcphub.features.chat.providers.wires.wire import CHAT

_NESTED = json.dumps({"error": {"code": 400, "message": "url is no format here", "status": "INVALID_ARGUMENT"}})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param({"error": {"message": "m", "type": "t", "param": "p", "code": "c"}}, "m", id="openai"),
        pytest.param([{"error": {"code": 400, "message": "API key not valid."}}], "API key not valid.", id="google"),
        pytest.param({"error": "model 'x' not found"}, "model 'x' not found", id="ollama"),
        pytest.param("all is broken", "all is broken", id="json text"),
        pytest.param({"object": "error", "message": "m", "type": "t", "code": 400}, "m", id="vllm before 0.10"),
        pytest.param({"detail": [{"loc": ["body", "n"], "msg": "too large"}]}, "body.n: too large", id="fastapi"),
        pytest.param({"detail": "Not authenticated"}, "Not authenticated", id="fastapi text"),
        pytest.param(
            {"object": "error", "message": {"detail": [{"loc": ["body", "user"], "msg": "Extra inputs"}]}},
            "body.user: Extra inputs",
            id="mistral",
        ),
        pytest.param({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, "m", id="anthropic"),
        pytest.param({"error_code": "ModelArts.81101", "error_msg": "m"}, "m", id="huawei gateway"),
        pytest.param(
            {"code": 20012, "message": "Model does not exist.", "data": None}, "Model does not exist.", id="flat"
        ),
        pytest.param(
            {"base_resp": {"status_code": 1004, "status_msg": "x"}, "msg": "login fail"}, "login fail", id="msg"
        ),
        pytest.param({"success": False, "errors": [{"code": 10000, "message": "m"}]}, "m", id="cloudflare"),
        pytest.param({"Message": "no such region"}, "no such region", id="aws"),
        pytest.param({"error": {"message": _NESTED, "code": 400}}, "url is no format here", id="json in words"),
        pytest.param(
            {"error": {"message": f"litellm.BadRequestError: {_NESTED}"}}, "url is no format here", id="litellm"
        ),
        pytest.param(
            {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": _NESTED}}},
            "url is no format here",
            id="openrouter",
        ),
        pytest.param(
            {"error": {"message": "Provider returned error", "metadata": {"raw": "upstream is full"}}},
            "upstream is full",
            id="openrouter text",
        ),
        pytest.param(
            b"<html><head><title>502 Bad Gateway</title></head><body><h1>x</h1></body></html>",
            "502 Bad Gateway",
            id="html",
        ),
        pytest.param(
            b"<!doctype html><style>p{a:b}</style><p>Sign&nbsp;in &amp; go on</p>", "Sign in & go on", id="html body"
        ),
        pytest.param(b"upstream connect error", "upstream connect error", id="text"),
        pytest.param(b"", "", id="nothing"),
    ],
)
def test_the_words_of_an_error_are_kept(body: Any, words: str) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    error = ProviderError.read(400, {}, raw)
    assert error.message == words
    said = to_chat_error("p", "compatible", error).message
    assert said.endswith(f"It says: {words}" if words else "refuses the request.")


def test_the_code_of_the_innermost_error_counts() -> None:
    body = {
        "error": {
            "message": "Provider returned error",
            "code": 429,
            "metadata": {"raw": json.dumps({"error": {"code": "insufficient_quota", "message": "m"}})},
        }
    }
    error = ProviderError.read(429, {}, json.dumps(body).encode())
    assert to_chat_error("p", "compatible", error).code == "QUOTA_EXCEEDED"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("API key not valid. Please pass a valid API key.", "API key not valid. Please pass a valid API key."),
        ("Incorrect API key provided: sk-abcd1234", "Incorrect API key provided: (not shown)"),
        ("Bad key abcd1234", "Bad (not shown)"),
        ("Bearer abcdefghijklmnopqrst is void", "(not shown) is void"),
    ],
)
def test_words_stay_and_keys_go(text: str, shown: str) -> None:
    assert ProviderError.read(400, {}, json.dumps({"error": text}).encode()).message == shown


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        ({"error": "Unexpected endpoint or method. (POST /chat/completions)"}, True),
        ({"error": {"code": 429, "message": "m"}}, True),
        ({"error": None, "choices": [{}]}, False),
        ({"choices": []}, False),
        ([], False),
    ],
)
def test_an_error_with_status_200_is_one(value: Any, is_one: bool) -> None:
    assert (CHAT.reader(ProviderCompletion()).failure(value) is not None) is is_one


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just('{"error": {"message": "x"}}'),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "message", "detail", "metadata", "raw", "code"]), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(_json)
def test_any_body_is_read(value: Any) -> None:
    found = error_bodies.read(json.dumps(value).encode())
    assert isinstance(found.message, str)
    assert isinstance(found.code, str)
