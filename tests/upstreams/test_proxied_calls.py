"""A tool of another server is a tool of the hub: listed, called, recorded, over every transport and both eras."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.servers import Hub, until
from tests.upstreams.conftest import Operator, Peer, child, old_python
from tests.wire.speech import Speaker
from tests.wire.toolbox import text_of

KINDS = ["http2", "http1", "sse1", "stdio2", "stdio1"]


@pytest.fixture(scope="module", autouse=True)
def upstreams(operator: Operator, sdk_peers: tuple[Peer, Peer]) -> Iterator[None]:
    """One upstream of each kind, connected under the name of its kind."""
    modern, legacy = sdk_peers
    with Peer("sdk_v1.py", "sse", python=old_python(), path="/sse") as streaming:
        operator.connect_all(
            {
                "http2": {"url": modern.url},
                "http1": {"url": legacy.url},
                "sse1": {"url": streaming.url, "transport": "sse"},
                "stdio2": child("peer2", "sdk_v2.py", sys.executable),
                "stdio1": child("peer1", "sdk_v1.py", old_python()),
            }
        )
        yield
        for kind in KINDS:
            operator.change(kind, enabled=False)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_reaches_the_upstream_and_is_on_record(kind: str, speaker: Speaker, upstream_hub: Hub) -> None:
    until(lambda: f"{kind}.echo" in speaker.modern("tools/list").text)
    assert text_of(speaker.modern_call(f"{kind}.echo", {"text": "over there"})) == "over there"
    row = upstream_hub.row(client=speaker.name, method="tools/call")
    assert (row["tool_name"], row["status"], row["arguments"]) == (f"{kind}.echo", "ok", {"text": "over there"})
    assert row["connection"] == kind


@pytest.mark.parametrize("kind", KINDS)
def test_clients_of_sessions_reach_it_too_and_hear_progress(kind: str, speaker: Speaker) -> None:
    session = speaker.open_session()
    params = {"name": f"{kind}.steps", "arguments": {"times": 3}, "_meta": {"progressToken": "t"}}
    body = {"jsonrpc": "2.0", "id": "steps", "method": "tools/call", "params": params}
    with speaker.streaming("POST", body, mcp_session_id=session) as (_, heard):
        said = list(heard)
    assert [message["params"]["progress"] for message in said[:-1] if "progress" in message["params"]] == [1, 2, 3]
    assert said[-1]["result"]["content"][0]["text"] == "3 steps"


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_may_be_as_large_as_the_connection_allows(kind: str, speaker: Speaker) -> None:
    text = "x" * 1_500_000
    assert text_of(speaker.modern_call(f"{kind}.echo", {"text": text})) == text


@pytest.mark.parametrize("kind", KINDS)
def test_its_state_is_shown(kind: str, operator: Operator) -> None:
    row = until(lambda: (row := operator.row(kind))["status"] == "connected" and row)
    assert row["version"] == ("2026-07-28" if kind.endswith("2") else "2025-11-25")
    assert set(row["states"].values()) == {"approved"}


def test_the_failure_of_an_upstream_tool_is_told_as_one(speaker: Speaker, upstream_hub: Hub) -> None:
    answer = speaker.modern_call("http2.fail", {"words": "no such ticket"}).json()["result"]
    assert answer["isError"] is True
    assert "no such ticket" in answer["content"][0]["text"]
    assert upstream_hub.row(client=speaker.name, method="tools/call")["error_code"] == "execution_error"


def test_callers_of_one_upstream_with_sessions_have_sessions_of_their_own(speaker: Speaker, upstream_hub: Hub) -> None:
    key = upstream_hub.command("token", "create", "another").split()[-1]
    with Speaker(upstream_hub.url, key) as other:
        marks = [text_of(each.modern_call("http1.session_mark", {})) for each in (speaker, other, speaker, other)]
    assert marks[0] == marks[2] != marks[1] == marks[3]


def test_a_child_process_gets_nothing_of_the_hubs_environment(speaker: Speaker) -> None:
    told = speaker.modern_call("stdio2.who", {}).json()["result"]["structuredContent"]
    assert told["home_key"] is None
