"""What an upstream asks reaches the client that called, in every pair of eras; and `_meta` passes on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests import operations
from tests.servers import until
from tests.upstreams.bridging import ANSWERS
from tests.upstreams.conftest import EVERYTHING, Operator, Peer, child, old_python
from tests.wire.input_requests import ALL, answer_to, calling, modern_call, round_of
from tests.wire.speech import META, Speaker
from tests.wire.toolbox import text_of

KINDS = ["ask2", "ask1", "askio1", "askio2"]
GUARDRAIL = "tools_catalog.McpGuardrail"
TOLD_WITH_EACH_REQUEST = {"ask2", "askio2"}
"""Upstreams that learn with a request what its client can be asked, and refuse it."""
TOOLS = {"confirm": "accept True", "think": "thought", "where": "file:///home/ada"}


@pytest.fixture(scope="module", autouse=True)
def upstreams(operator: Operator, sdk_peers: tuple[Peer, Peer]) -> Iterator[None]:
    modern, legacy = sdk_peers
    with Peer("chaos.py", "http") as bare:
        operator.connect_all(
            {
                "ask2": {"url": modern.url, **EVERYTHING},
                "ask1": {"url": legacy.url, **EVERYTHING},
                "shy": {"url": modern.url, "may_ask": False},
                "bare": {"url": bare.url},
                "plain1": {"url": legacy.url},
                "plain2": {"url": modern.url},
                "askio1": child("askio1", "sdk_v1.py", old_python()) | EVERYTHING,
                "askio2": child("askio2", "sdk_v2.py", sys.executable) | EVERYTHING,
            }
        )
        yield
        for slug in (*KINDS, "shy", "bare", "plain1", "plain2"):
            operator.change(slug, enabled=False)


@pytest.fixture
def speaker(speaker: Speaker) -> Speaker:
    tools = (*(f"{kind}.confirm" for kind in (*KINDS, "shy")), "bare.echo", "plain1.think", "plain2.think")
    until(lambda: all(f'"{name}"' in speaker.modern("tools/list").text for name in tools))
    return speaker


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_client_with_a_session_is_asked_on_the_stream_of_its_call(kind: str, tool: str, speaker: Speaker) -> None:
    session = speaker.open_session(**ALL)
    with calling(speaker, session, f"{kind}.{tool}") as (_, heard):
        asked = next(heard)
        speaker.post(answer_to(asked, ANSWERS[asked["method"]]), mcp_session_id=session)
        answer = next(heard)
    assert answer["result"]["content"][0]["text"] == TOOLS[tool]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tool", TOOLS)
def test_a_client_without_sessions_is_asked_by_rounds(kind: str, tool: str, speaker: Speaker) -> None:
    first = round_of(modern_call(speaker, f"{kind}.{tool}"))
    answers = {key: ANSWERS[asked["method"]] for key, asked in first["inputRequests"].items()}
    second = modern_call(speaker, f"{kind}.{tool}", inputResponses=answers, requestState=first["requestState"])
    assert text_of(second) == TOOLS[tool]


@pytest.fixture(scope="module")
def guarded(operator: Operator, upstreams: None) -> Iterator[None]:
    row = {"name": "mails", "applies_to": "tool", "target": "*.think", "direction": "arguments"}
    operator.hub.operate(operations.create_of, GUARDRAIL, {**row, "detectors": "email", "action": "mask"})
    operator.hub.settle()
    yield
    operator.hub.operate(operations.delete, GUARDRAIL)
    operator.hub.settle()


@pytest.mark.parametrize("kind", KINDS)
def test_an_upstream_gets_answers_as_guardrails_leave_them(kind: str, guarded: None, speaker: Speaker) -> None:
    words = {"type": "text", "text": "to a@example.org"}
    answer = {"role": "assistant", "model": "m", "content": words}
    session = speaker.open_session(**ALL)
    with calling(speaker, session, f"{kind}.think") as (_, heard):
        speaker.post(answer_to(next(heard), answer), mcp_session_id=session)
        assert next(heard)["result"]["content"][0]["text"] == "to [masked:email]"
    first = round_of(modern_call(speaker, f"{kind}.think"))
    answers = dict.fromkeys(first["inputRequests"], answer)
    second = modern_call(speaker, f"{kind}.think", inputResponses=answers, requestState=first["requestState"])
    assert text_of(second) == "to [masked:email]"


@pytest.mark.parametrize("kind", ["ask1", "askio1"])
def test_what_a_call_did_before_it_asked_is_not_done_again(kind: str, speaker: Speaker) -> None:
    state, answers = None, {}
    for _ in range(2):
        more = {"inputResponses": answers, "requestState": state} if state else {}
        asked = round_of(modern_call(speaker, f"{kind}.charge", **more))
        state = asked["requestState"]
        answers = {key: ANSWERS[each["method"]] for key, each in asked["inputRequests"].items()}
    done = modern_call(speaker, f"{kind}.charge", inputResponses=answers, requestState=state)
    assert text_of(done) == "0 more, accept accept"
    # Whoever comes back a second time with what was answered finds nothing to go on with, and starts nothing.
    again = modern_call(speaker, f"{kind}.charge", inputResponses=answers, requestState=state).json()["result"]
    assert again["isError"] is True
    assert "not made again" in again["content"][0]["text"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_person_may_decline(kind: str, speaker: Speaker) -> None:
    session = speaker.open_session(elicitation={})
    with calling(speaker, session, f"{kind}.confirm") as (_, heard):
        speaker.post(answer_to(next(heard), {"action": "decline"}), mcp_session_id=session)
        assert next(heard)["result"]["content"][0]["text"] == "decline"


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_that_cannot_be_asked_gets_an_error_and_no_question(kind: str, speaker: Speaker) -> None:
    session = speaker.open_session()
    answer = speaker.call(session, f"{kind}.confirm").json()
    described = modern_call(speaker, f"{kind}.confirm", can={})
    if kind in TOLD_WITH_EACH_REQUEST:
        assert answer["error"]["data"]["errorCode"] == "missing_client_capability"
        assert described.status_code == 400
        assert described.json()["error"]["data"]["errorCode"] == "missing_client_capability"
    else:
        assert answer["result"]["isError"] is True
        assert described.status_code == 200
        assert described.json()["result"]["isError"] is True


def test_a_connection_may_forbid_questions(speaker: Speaker) -> None:
    session = speaker.open_session(**ALL)
    answer = speaker.call(session, "shy.confirm").json()["result"]
    assert answer["isError"] is True


@pytest.mark.parametrize("tool", ["plain1.think", "plain1.where", "plain2.think", "plain2.where"])
def test_a_connection_asks_neither_model_nor_folders_unless_it_may(tool: str, speaker: Speaker) -> None:
    answer = speaker.call(speaker.open_session(**ALL), tool).json()
    assert "error" in answer or answer["result"]["isError"] is True
    described = modern_call(speaker, tool).json()
    assert "error" in described or described["result"]["isError"] is True


@pytest.mark.parametrize("tool", ["ask1.sign_in", "ask2.sign_in"])
def test_a_form_for_a_password_reaches_nobody(tool: str, speaker: Speaker) -> None:
    answer = speaker.call(speaker.open_session(**ALL), tool).json()["result"]
    assert answer["isError"] is True
    assert "asks for a credential" in answer["content"][0]["text"]


def told(answer: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text_of(answer))
    return found


def test_meta_passes_on_but_for_the_keys_of_one_hop(speaker: Speaker) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    meta = {"example.org/x": {"a": 1}, "traceparent": trace, "tracestate": "v=1", "mcphub/idempotencyKey": "k"}
    got = told(speaker.modern_call("bare.echo", {}, **meta))["meta"]
    assert {key: got[key] for key in ("example.org/x", "traceparent", "tracestate")} == {
        "example.org/x": {"a": 1},
        "traceparent": trace,
        "tracestate": "v=1",
    }
    assert not [key for key in got if key.startswith((META, "mcphub/"))]


OF_VENDORS = {
    "openai/locale": "de-DE",
    "openai/subject": "v1/4711",
    "openai/userLocation": {"country": "DE", "timezone": "Europe/Berlin"},
    "openai/widgetSessionId": "w-1",
    "openai/outputTemplate": "ui://widget/board.html",
    "openai/toolInvocation/invoking": "Reading…",
    "anthropic/maxResultSizeChars": 500_000,
    "anthropic/requiresUserInteraction": True,
    "claudecode/toolUseId": "toolu_1",
    "fastmcp": {"tags": ["money"]},
    "_fastmcp": {"tags": []},
    "com.microsoft.copilot/conversation": None,
    "vscode.conversationId": "c-1",
    "dev.langchain/run": ["a", 1.5],
}
"""Members as clients and servers of others send them, in the order in which they send them."""


@pytest.mark.parametrize("in_session", [False, True])
def test_meta_of_vendors_passes_untouched_in_both_directions(in_session: bool, speaker: Speaker) -> None:
    arguments = {"meta": {**OF_VENDORS, "mcphub/made-up": 1}}
    if in_session:
        params = {"name": "bare.echo", "arguments": arguments, "_meta": OF_VENDORS}
        answer = speaker.in_session(speaker.open_session(), "tools/call", params)
    else:
        answer = speaker.modern_call("bare.echo", arguments, **OF_VENDORS)
    sent = {key: value for key, value in told(answer)["meta"].items() if not key.startswith(META)}
    assert list(sent.items()) == list(OF_VENDORS.items())
    own = "mcphub/made-up"
    back = {key: value for key, value in answer.json()["result"]["_meta"].items() if key in OF_VENDORS or key == own}
    assert list(back.items()) == list(OF_VENDORS.items())


@pytest.mark.parametrize("trace", ["garbage", "00-0af7651916cd43dd8448eb211c80319c", ""])
def test_a_trace_that_is_none_is_not_passed_on(trace: str, speaker: Speaker) -> None:
    got = told(speaker.modern_call("bare.echo", {}, traceparent=trace, tracestate="v=1", other=1))["meta"]
    assert got == {"other": 1}
