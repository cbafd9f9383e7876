"""Addresses that a person is led to: the error that demands one, and the news that the person is done there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.servers import Hub
from tests.wire.input_requests import (
    ACCEPT,
    ALL,
    COMPLETE,
    answer_to,
    calling,
    demanded,
    modern_call,
    round_of,
    state_of,
    text_of_event,
)
from tests.wire.speech import Speaker, error_of, hello, request
from tests.wire.toolbox import Box, text_of


def test_a_session_is_told_which_address_must_be_opened_first(speaker: Speaker, hub: Hub, box: Box) -> None:
    session = speaker.open_session(**ALL)
    first = demanded(speaker.call(session, "connect", {"name": box.name}))
    assert first["message"] == f"Connect {box.name}."
    assert first["url"].endswith(first["elicitationId"])
    second = demanded(speaker.call(session, "connect", {"name": box.name}))
    assert second["elicitationId"] != first["elicitationId"]  # another call
    box.release()
    assert text_of(speaker.call(session, "connect", {"name": box.name})) == "connected"
    rows = hub.rows(session=session, method="tools/call")
    assert [row["error_code"] for row in rows] == ["", "url_elicitation_required", "url_elicitation_required"]


def test_a_request_id_sent_again_gets_the_same_address(speaker: Speaker, box: Box) -> None:
    session = speaker.open_session(**ALL)
    first, again = (demanded(speaker.call(session, "connect", {"name": box.name}, id="same")) for _ in range(2))
    assert first == again


def test_an_idempotency_key_is_not_caught_at_an_address(speaker: Speaker, box: Box) -> None:
    session = speaker.open_session(**ALL)
    params = {"name": "connect", "arguments": {"name": box.name}, "_meta": {"mcphub/idempotencyKey": box.name}}
    demanded(speaker.in_session(session, "tools/call", params))
    box.release()
    refused = error_of(speaker.in_session(session, "tools/call", params))
    assert refused["data"]["errorCode"] == "duplicate_request"
    assert "new key" in refused["message"]


@pytest.mark.parametrize(
    ("version", "able"), [("2025-06-18", ALL), ("2025-11-25", {"elicitation": {}}), ("2024-11-05", ALL)]
)
def test_no_other_client_sees_the_error(speaker: Speaker, box: Box, version: str, able: Any) -> None:
    session = speaker.open_session(version, **able)
    refused = speaker.call(session, "connect", {"name": box.name})
    assert refused.json()["result"]["isError"] is True
    assert "does not support" in text_of(refused)


def test_a_stateless_client_is_asked_and_told_that_the_person_is_not_done(speaker: Speaker, box: Box) -> None:
    arguments = {"name": box.name}
    first = modern_call(speaker, "connect", arguments)
    ((key, asked),) = round_of(first)["inputRequests"].items()
    assert asked["method"] == "elicitation/create"
    assert asked["params"].keys() == {"mode", "message", "url"}
    assert not {"ttlMs", "cacheScope"} & round_of(first).keys()
    again = modern_call(speaker, "connect", arguments, requestState=state_of(first))
    assert round_of(again)["inputRequests"] == {key: asked}  # the address is the same in each round
    answers = {"inputResponses": {key: ACCEPT}, "requestState": state_of(again)}
    early = modern_call(speaker, "connect", arguments, **answers)
    assert early.json()["result"]["isError"] is True
    assert "not done there" in text_of(early)
    declined = {"inputResponses": {key: {"action": "decline"}}, "requestState": state_of(again)}
    assert "did not agree" in text_of(modern_call(speaker, "connect", arguments, **declined))
    box.release()
    assert text_of(modern_call(speaker, "connect", arguments, **answers)) == "connected"

    unable = modern_call(speaker, "connect", {"name": "x"}, can={"elicitation": {}})
    assert (unable.status_code, error_of(unable)["code"]) == (400, -32021)
    assert error_of(unable)["data"]["requiredCapabilities"] == {"elicitation": {"url": {}}}


def test_the_client_that_was_asked_hears_that_the_person_is_done(speaker: Speaker, hub: Hub, keys: Any) -> None:
    session, bystander = speaker.open_session(**ALL), speaker.open_session(**ALL)
    known = demanded(speaker.call(session, "connect", {"name": "nobody"}))["elicitationId"]
    listening = speaker.streaming("GET", mcp_session_id=session, content_type=None)
    beside = speaker.streaming("GET", mcp_session_id=bystander, content_type=None)
    with listening as (_, heard), beside as (_, overheard):
        assert text_of(speaker.modern_call("person_done", {"id": known})) == "told"
        assert next(heard) == {"jsonrpc": "2.0", "method": COMPLETE, "params": {"elicitationId": known}}
        other = demanded(speaker.call(bystander, "connect", {"name": "nobody"}))["elicitationId"]
        speaker.modern_call("person_done", {"id": other})
        assert next(overheard)["params"] == {"elicitationId": other}  # and nothing before it


def test_http_with_sse_hears_of_it_too(speaker: Speaker) -> None:
    with speaker.streaming("GET", path="/sse", content_type=None) as (_, heard):
        path = next(heard)["endpoint"]
        speaker.post(hello("2025-11-25", speaker.name, id=1, **ALL), path)
        assert next(heard)["id"] == 1
        speaker.post(request("tools/call", {"name": "connect", "arguments": {"name": "nobody"}}, id=2), path)
        error = next(heard)["error"]
        assert error["code"] == -32042
        known = error["data"]["elicitations"][0]["elicitationId"]
        speaker.modern_call("person_done", {"id": known})
        assert next(heard) == {"jsonrpc": "2.0", "method": COMPLETE, "params": {"elicitationId": known}}


def test_a_running_call_says_it_on_its_own_stream(speaker: Speaker) -> None:
    session = speaker.open_session(**ALL)
    with calling(speaker, session, "visit", {"name": "fair"}) as (_, heard):
        asked = next(heard)
        known = asked["params"]["elicitationId"]
        speaker.post(answer_to(asked, ACCEPT), mcp_session_id=session)
        assert next(heard) == {"jsonrpc": "2.0", "method": COMPLETE, "params": {"elicitationId": known}}
        assert text_of_event(next(heard)) == f"accept {known}"


def test_a_stateless_client_never_hears_of_it(speaker: Speaker) -> None:
    first = modern_call(speaker, "visit", {"name": "fair"})
    answers = {"inputResponses": {"elicitation_1": ACCEPT}, "requestState": state_of(first)}
    done = modern_call(speaker, "visit", {"name": "fair"}, **answers)
    assert done.headers["content-type"] == "application/json"  # nothing was said before the result
    known = text_of(done).removeprefix("accept ")
    assert text_of(speaker.modern_call("person_done", {"id": known})) == "told"


@pytest.mark.parametrize("id", ["", "made-up", "ünlesbar", "A" * 80])
def test_an_id_of_nobody_s_is_the_page_s_mistake(speaker: Speaker, id: str) -> None:
    refused = speaker.modern_call("person_done", {"id": id})
    assert refused.json()["result"]["isError"] is True
    assert "ValueError" in text_of(refused)
