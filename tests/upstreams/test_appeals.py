"""What an upstream's error asks of the client, and addresses that a person is led to: in every pair of eras."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers import Hub, until
from tests.upstreams.conftest import EVERYTHING, Operator, Peer, child, old_python
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
from tests.wire.speech import Speaker, error_of
from tests.wire.toolbox import text_of

OLD = ["led1", "ledio1"]
NEW = ["led2", "ledio2"]


@pytest.fixture(scope="module", autouse=True)
def upstreams(operator: Operator, sdk_peers: tuple[Peer, Peer]) -> Iterator[None]:
    modern, legacy = sdk_peers
    operator.connect_all(
        {
            "led2": {"url": modern.url, **EVERYTHING},
            "led1": {"url": legacy.url, **EVERYTHING},
            "ledshy": {"url": legacy.url, "may_ask": False},
            "ledio1": child("ledio1", "sdk_v1.py", old_python()) | EVERYTHING,
            "ledio2": child("ledio2", "sdk_v2.py", sys.executable) | EVERYTHING,
        }
    )
    yield
    for slug in (*OLD, *NEW, "ledshy"):
        operator.change(slug, enabled=False)


@pytest.fixture
def speaker(speaker: Speaker) -> Speaker:
    tools = (*(f"{kind}.lead" for kind in (*OLD, *NEW)), "ledshy.connect")
    until(lambda: all(f'"{name}"' in speaker.modern("tools/list").text for name in tools))
    return speaker


@pytest.mark.parametrize("kind", OLD)
def test_a_session_is_told_which_address_comes_first_and_when_the_person_is_done(
    kind: str, speaker: Speaker, upstream_hub: Hub
) -> None:
    name = f"{kind}-session"
    session = speaker.open_session(**ALL)
    first = demanded(speaker.call(session, f"{kind}.connect", {"name": name}))
    assert (first["url"], first["message"]) == (
        f"https://example.org/{name}",
        f'The connection "{kind}" asks: Connect {name}.',
    )
    known = first["elicitationId"]
    assert known != f"id-{name}"  # ids of two upstreams may be alike
    with speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, heard):
        assert text_of(speaker.call(session, f"{kind}.arrive", {"name": name})) == "done"
        # What other modules' connections offer may change meanwhile, and the stream tells of that, too.
        news = next(message for message in heard if "list_changed" not in message["method"])
        assert news == {"jsonrpc": "2.0", "method": COMPLETE, "params": {"elicitationId": known}}
    assert text_of(speaker.call(session, f"{kind}.connect", {"name": name})) == "connected"
    rows = upstream_hub.rows(session=session, tool=f"{kind}.connect")
    assert [row["error_code"] for row in rows] == ["", "url_elicitation_required"]


@pytest.mark.parametrize("kind", OLD)
def test_a_client_without_sessions_is_asked_to_open_the_address(kind: str, speaker: Speaker) -> None:
    arguments = {"name": f"{kind}-rounds"}
    first = modern_call(speaker, f"{kind}.connect", arguments)
    ((key, asked),) = round_of(first)["inputRequests"].items()
    assert asked["params"] == {
        "mode": "url",
        "message": f'The connection "{kind}" asks: Connect {kind}-rounds.',
        "url": f"https://example.org/{kind}-rounds",
    }
    answers = {"inputResponses": {key: ACCEPT}, "requestState": state_of(first)}
    early = modern_call(speaker, f"{kind}.connect", arguments, **answers)
    assert early.json()["result"]["isError"] is True
    assert "not done there" in text_of(early)
    modern_call(speaker, f"{kind}.arrive", arguments)
    assert text_of(modern_call(speaker, f"{kind}.connect", arguments, **answers)) == "connected"


@pytest.mark.parametrize("kind", OLD)
def test_a_running_call_says_on_its_own_stream_that_the_person_is_done(kind: str, speaker: Speaker) -> None:
    session = speaker.open_session(**ALL)
    with calling(speaker, session, f"{kind}.lead", {"name": "fair"}) as (_, heard):
        asked = next(heard)
        known = asked["params"]["elicitationId"]
        assert (asked["params"]["url"], known == "id-fair") == ("https://example.org/fair", False)
        speaker.post(answer_to(asked, ACCEPT), mcp_session_id=session)
        assert next(heard) == {"jsonrpc": "2.0", "method": COMPLETE, "params": {"elicitationId": known}}
        assert text_of_event(next(heard)) == "accept"


@pytest.mark.parametrize("kind", NEW)
def test_an_address_without_an_id_gets_one_for_a_session(kind: str, speaker: Speaker) -> None:
    session = speaker.open_session(**ALL)
    with calling(speaker, session, f"{kind}.lead", {"name": "fair"}) as (_, heard):
        asked = next(heard)
        assert asked["params"]["url"] == "https://example.org/fair"
        assert asked["params"]["elicitationId"]
        speaker.post(answer_to(asked, ACCEPT), mcp_session_id=session)
        assert text_of_event(next(heard)) == "accept"


@pytest.mark.parametrize("kind", [*OLD, *NEW])
def test_a_client_without_sessions_is_led_to_an_address_without_an_id(kind: str, speaker: Speaker) -> None:
    first = modern_call(speaker, f"{kind}.lead", {"name": "fair"})
    ((key, asked),) = round_of(first)["inputRequests"].items()
    assert asked["params"].keys() == {"mode", "message", "url"}
    answers = {"inputResponses": {key: ACCEPT}, "requestState": state_of(first)}
    assert text_of(modern_call(speaker, f"{kind}.lead", {"name": "fair"}, **answers)) == "accept"


@pytest.mark.parametrize("tool", ["led1.connect", "ledshy.connect"])
def test_no_other_client_is_sent_to_an_address(tool: str, speaker: Speaker) -> None:
    able: Any = {"elicitation": {"form": {}}} if tool == "led1.connect" else ALL
    refused = speaker.call(speaker.open_session(**able), tool, {"name": "nobody"}).json()["result"]
    assert refused["isError"] is True
    assert "example.org" not in str(refused)


@pytest.mark.parametrize("kind", NEW)
def test_a_capability_that_the_upstream_misses_is_asked_of_the_client(kind: str, speaker: Speaker) -> None:
    """One child serves all clients: what one of them can is not said of another."""
    refused = modern_call(speaker, f"{kind}.sampled", can={})
    assert (refused.status_code, error_of(refused)["code"]) == (400, -32021)
    assert error_of(refused)["data"]["requiredCapabilities"] == {"sampling": {}}
    assert text_of(modern_call(speaker, f"{kind}.sampled")) == "there is a model"
