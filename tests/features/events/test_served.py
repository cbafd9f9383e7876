"""Events at the wire: listed and polled by those who may get them (SEP-3415)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from sessions_app.protocol import revisions
from tests import operations
from tests.features.events import operations as events
from tests.servers import Hub, until
from tests.wire.piped import beside
from tests.wire.speech import LEGACY, Speaker, hello

pytestmark = pytest.mark.program
EXTENSION = "io.modelcontextprotocol/events"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(
        tmp_path_factory.mktemp("hub"),
        flags=["--workers", "2"],
        environment={"MCPHUB_LIMITS": "heartbeat_seconds=2", "MCPHUB_ALLOW_ANONYMOUS": "1"},
    ) as running:
        yield running


@pytest.fixture(scope="module")
def keys(hub: Hub) -> dict[str, str]:
    return {
        "operator": hub.operate(operations.issue_key, "operator", ["tools:list", "audit:read"]),
        "poor": hub.operate(operations.issue_key, "poor", ["tools:list"]),
        "caller": hub.operate(operations.issue_key, "caller", ["tools:call"]),
    }


@pytest.fixture
def speaker(hub: Hub, keys: dict[str, str]) -> Iterator[Speaker]:
    with Speaker(hub.url, keys["operator"]) as made:
        yield made


@pytest.fixture
def poor(hub: Hub, keys: dict[str, str]) -> Iterator[Speaker]:
    with Speaker(hub.url, keys["poor"]) as made:
        yield made


def ask(speaker: Speaker, method: str, **params: Any) -> dict[str, Any]:
    found: dict[str, Any] = speaker.modern(method, params).json()
    return found


def polled(speaker: Speaker, name: str, **params: Any) -> dict[str, Any]:
    found: dict[str, Any] = ask(speaker, "events/poll", name=name, **params)["result"]
    return found


def test_the_extension_is_declared_and_served_in_sessions_too(speaker: Speaker) -> None:
    capabilities = ask(speaker, "server/discover")["result"]["capabilities"]
    assert capabilities["extensions"][EXTENSION] == {}
    assert capabilities["events"] == {}  # where clients of the draft look
    for version in revisions.HANDSHAKE:
        declared = speaker.post(hello(version, speaker.name)).json()["result"]["capabilities"]
        assert declared["events"] == {}
        assert (EXTENSION in declared.get("extensions", {})) == (version >= "2025-11-25")
    session = speaker.open_session(LEGACY)
    listed = speaker.in_session(session, "events/list").json()["result"]
    assert listed["events"]
    assert "resultType" not in listed


def test_the_list_has_what_the_caller_may_get_with_schemas(speaker: Speaker, poor: Speaker) -> None:
    whole = {each["name"]: each for each in ask(speaker, "events/list")["result"]["events"]}
    part = {each["name"] for each in ask(poor, "events/list")["result"]["events"]}
    assert {"approval.waits", "connection.down", "audit.alarm", "budget.near", "definition.changed"} <= set(whole)
    assert "test" not in whole
    assert part < set(whole)
    assert "audit.alarm" not in part
    entry = whole["connection.down"]
    assert "poll" in entry["delivery"]
    assert entry["inputSchema"]["properties"]["state"]["enum"] == ["began", "ended"]
    assert set(entry["payloadSchema"]["required"]) == {"state", "title", "subject", "alarm", "facts"}


def test_a_poll_begins_now_and_then_returns_each_event_once_from_every_worker(hub: Hub, speaker: Speaker) -> None:
    hub.operate(events.note, "connection.changed", "before", {"connection": "shop"})
    begun = polled(speaker, "connection.changed", cursor=None)
    assert (begun["events"], begun["truncated"], begun["hasMore"]) == ([], False, False)
    assert begun["nextPollMs"] > 0
    for number in range(7):
        hub.operate(
            events.note, "connection.changed", f"s{number}", {"connection": "shop", "by": "eve", "fields": "url"}
        )
    cursor, seen = begun["cursor"], list[dict[str, Any]]()
    while True:
        answer = polled(speaker, "connection.changed", cursor=cursor, maxEvents=2)
        assert len(answer["events"]) <= 2
        seen, cursor = seen + answer["events"], answer["cursor"]
        if not answer["hasMore"]:
            break
    assert [each["data"]["subject"] for each in seen] == [f"s{number}" for number in range(7)]
    assert len({each["eventId"] for each in seen}) == 7
    assert seen[0]["data"]["text"] == "eve changed the connection shop: Address. Its history shows before and after."
    assert seen[0]["name"] == "connection.changed"
    assert polled(speaker, "connection.changed", cursor=cursor)["events"] == []


def test_payloads_are_valid_by_their_schema(hub: Hub, speaker: Speaker) -> None:
    schemas = {each["name"]: each["payloadSchema"] for each in ask(speaker, "events/list")["result"]["events"]}
    for name in ("connection.down", "connection.changed"):
        cursor = polled(speaker, name)["cursor"]
        hub.operate(events.note, name, "valid", {"connection": "shop"})
        event = polled(speaker, name, cursor=cursor)["events"][0]
        jsonschema.validate(event["data"], schemas[name])


def test_a_caller_without_the_permission_gets_its_own_matters(hub: Hub, poor: Speaker) -> None:
    cursor = polled(poor, "approval.waits")["cursor"]
    own = hub.operate(events.principal_of, "poor")
    hub.operate(events.note, "approval.waits", "theirs", {"tool": "x", "principal": "key:999"})
    hub.operate(events.note, "approval.waits", "own", {"tool": "x", "principal": own})
    until(lambda: [each["data"]["subject"] for each in polled(poor, "approval.waits", cursor=cursor)["events"]][:1])
    found = polled(poor, "approval.waits", cursor=cursor)["events"]
    assert {each["data"]["subject"] for each in found} == {"own"}


def test_errors_are_those_of_the_extension(hub: Hub, keys: dict[str, str], speaker: Speaker, poor: Speaker) -> None:
    missing = ask(speaker, "events/poll", name="none")["error"]
    assert (missing["code"], missing["data"]["kind"]) == (-32023, "event")
    assert ask(speaker, "events/poll", name="test")["error"]["code"] == -32023
    assert ask(poor, "events/poll", name="audit.alarm")["error"]["code"] == -32024
    for params in (
        {},
        {"name": 5},
        {"name": "connection.down", "arguments": []},
        {"name": "connection.down", "arguments": {"sate": "began"}},
        {"name": "connection.down", "arguments": {"state": "happened"}},
        {"name": "connection.changed", "arguments": {"state": "began"}},
        {"name": "connection.down", "arguments": {"state": ["began"]}},
        {"name": "connection.down", "arguments": {"mine": 1}},
        {"name": "connection.down", "cursor": "x"},
        {"name": "connection.down", "maxEvents": 0},
        {"name": "connection.down", "maxAgeMs": "1"},
    ):
        assert ask(speaker, "events/poll", **params)["error"]["code"] == -32602, params
    with Speaker(hub.url, keys["caller"]) as caller:
        assert caller.modern("events/list").status_code == 403


def test_callers_without_an_identity_poll_and_subscribe_nothing(hub: Hub) -> None:
    with Speaker(hub.url, None) as nobody:
        assert {way for each in ask(nobody, "events/list")["result"]["events"] for way in each["delivery"]} == {
            "poll",
            "push",
        }
        assert polled(nobody, "approval.waits")["events"] == []
        delivery = {"url": "https://client.example/", "secret": "whsec_" + "A" * 40}
        refused = ask(nobody, "events/subscribe", name="approval.waits", delivery=delivery)
        assert refused["error"]["code"] == -32024


# Streams ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def streaming(speaker: Speaker, id: str, **params: Any) -> Iterator[Iterator[dict[str, Any]]]:
    body, headers = speaker.modern_body("events/stream", params, id), speaker.modern_headers("events/stream", params)
    with speaker.streaming("POST", body, **headers) as (answer, said):
        assert answer.status_code == 200
        yield said


def method_of(message: dict[str, Any]) -> str:
    assert message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
    return str(message["method"]).removeprefix("notifications/events/")


def without_heartbeats(said: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A busy machine makes a stream silent long enough for one, anywhere."""
    return (message for message in said if method_of(message) != "heartbeat")


def test_streams_of_every_worker_get_each_event_once_in_order(hub: Hub, speaker: Speaker) -> None:
    with contextlib.ExitStack() as open_streams:
        said = [
            open_streams.enter_context(streaming(speaker, f"s{number}", name="connection.changed"))
            for number in range(4)
        ]
        for each in said:
            assert method_of(next(each)) == "active"
        for number in range(5):
            hub.operate(events.note, "connection.changed", f"streamed {number}", {"connection": "shop"})
        for number, each in enumerate(said):
            messages = [next(without_heartbeats(each)) for _ in range(5)]
            assert {method_of(message) for message in messages} == {"event"}
            subjects = [message["params"]["data"]["subject"] for message in messages]
            assert subjects == [f"streamed {at}" for at in range(5)]
            assert messages[0]["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == f"s{number}"
        cursor = messages[2]["params"]["cursor"]
    with streaming(speaker, "again", name="connection.changed", cursor=cursor) as again:
        assert method_of(next(again)) == "active"
        messages = [next(without_heartbeats(again)) for _ in range(2)]
        assert [message["params"]["data"]["subject"] for message in messages] == ["streamed 3", "streamed 4"]


def test_a_stream_has_signs_of_life_with_a_cursor_and_ends_with_the_right(hub: Hub) -> None:
    key = hub.operate(operations.issue_key, "losing", ["tools:list", "audit:read"])
    with Speaker(hub.url, key) as losing, streaming(losing, "l", name="tool.slow") as said:
        assert method_of(next(said)) == "active"
        beat = next(said)
        assert (method_of(beat), beat["params"]["cursor"][:1]) == ("heartbeat", "p")
        hub.operate(events.set_scopes, "losing", ["tools:list"])
        last = [message for message in said if message.get("method") != "notifications/events/heartbeat"]
    assert method_of(last[0]) == "terminated"
    assert last[0]["params"]["error"]["code"] == -32024
    assert last[1]["id"] == "l"
    assert last[1]["result"]["resultType"] == "complete"


def test_a_stream_that_cannot_be_is_an_error_at_once(speaker: Speaker) -> None:
    refused = speaker.modern("events/stream", {"name": "none"})
    assert refused.headers["content-type"].startswith("application/json")
    assert refused.json()["error"]["code"] == -32023
    session = speaker.open_session(LEGACY)
    assert speaker.in_session(session, "events/stream", {"name": "tool.slow"}).json()["error"]["code"] == -32601


def test_streams_of_a_pipe_share_it_and_one_is_cancelled_alone(hub: Hub) -> None:
    with beside(hub) as pipe:

        def heard() -> dict[str, Any]:
            while (message := pipe.hear_no_news()).get("method") == "notifications/events/heartbeat":
                pass
            found: dict[str, Any] = message
            return found

        for id in (1, "1"):
            pipe.say(pipe.modern("events/stream", {"name": "connection.changed"}, id))
            assert method_of(heard()) == "active"
        hub.operate(events.note, "connection.changed", "piped", {"connection": "shop"})
        both = [heard(), heard()]
        assert {method_of(each) for each in both} == {"event"}
        ids = {each["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for each in both}
        assert ids == {1, "1"}
        pipe.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "1"}})
        pipe.say(pipe.modern("server/discover", id="read"))
        assert heard()["id"] == "read"
        hub.operate(events.note, "connection.changed", "piped again", {"connection": "shop"})
        last = heard()["params"]
        assert last["_meta"]["io.modelcontextprotocol/subscriptionId"] == 1
        assert last["data"]["subject"] == "piped again"
