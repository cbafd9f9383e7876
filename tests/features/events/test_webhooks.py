"""Events at callbacks of clients: verified, signed, once each through the end of a worker, until the right is lost."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests import operations
from tests.features.events import operations as events
from tests.features.events.receivers import CallbackReceiver
from tests.servers import Hub, free_port, kill_processes, until
from tests.wire.speech import LEGACY, META, Speaker

pytestmark = pytest.mark.program
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER = "whsec_" + base64.b64encode(bytes(range(40))).decode()
CHANGED = "connection.changed"


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CallbackReceiver]:
    with CallbackReceiver(tmp_path_factory.mktemp("receiver"), [SECRET, OTHER]) as running:
        yield running


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, receiver: CallbackReceiver) -> Iterator[Hub]:
    environment = {
        "MCPHUB_APPS": "tests.features.events.trusting",
        "RECEIVER_CERTIFICATE": str(receiver.certificate),
        "MCPHUB_EGRESS_ALLOW": "127.0.0.1",
    }
    with Hub(tmp_path_factory.mktemp("hub"), flags=["--workers", "2"], environment=environment) as running:
        yield running


@pytest.fixture
def speaker(hub: Hub, request: pytest.FixtureRequest, receiver: CallbackReceiver) -> Iterator[Speaker]:
    """A caller of its own for each test, so that no test has the subscriptions of another."""
    receiver.status, receiver.control_status, receiver.echoes, receiver.is_plain = 200, 200, True, False
    receiver.events.clear()
    receiver.controls.clear()
    name = request.node.name[:100]
    with Speaker(hub.url, hub.operate(operations.issue_key, name, ["tools:list", "audit:read"])) as made:
        yield made
        hub.operate(events.forget, name)


def ask(speaker: Speaker, method: str, **params: Any) -> dict[str, Any]:
    found: dict[str, Any] = speaker.modern(method, params).json()
    return found


def subscribe(speaker: Speaker, receiver: CallbackReceiver, **more: Any) -> dict[str, Any]:
    params = {"name": CHANGED, "delivery": {"mode": "webhook", "url": receiver.url, "secret": SECRET}, **more}
    return ask(speaker, "events/subscribe", **params)


def test_a_verified_callback_gets_each_event_signed_with_its_id_and_a_cursor(
    hub: Hub, speaker: Speaker, receiver: CallbackReceiver
) -> None:
    made = subscribe(speaker, receiver, cursor=None)["result"]
    assert (made["truncated"], made["resultType"]) == (False, "complete")
    (challenge,) = receiver.controls
    assert (challenge["type"], challenge["headers"]["x-mcp-subscription-id"]) == ("verification", made["id"])
    assert challenge["headers"]["webhook-id"].startswith("msg_verification_")
    for number in range(3):
        hub.operate(events.note, CHANGED, f"sent {number}", {"connection": "shop"})
    until(lambda: len(receiver.events) == 3)
    first = receiver.events[0]
    assert first["headers"]["webhook-id"] == first["eventId"]
    assert first["headers"]["x-mcp-subscription-id"] == made["id"]
    assert first["headers"]["content-type"] == "application/json"
    assert sorted(receiver.subjects()) == ["sent 0", "sent 1", "sent 2"]
    polled = ask(speaker, "events/poll", name=CHANGED, cursor=made["cursor"])["result"]
    assert [each["eventId"] for each in polled["events"]] == [each["eventId"] for each in receiver.events]
    rest = ask(speaker, "events/poll", name=CHANGED, cursor=receiver.events[-1]["cursor"])["result"]
    assert rest["events"] == []
    # A second subscription of the caller to the same callback needs no other challenge.
    assert "result" in subscribe(speaker, receiver, arguments={"mine": True})
    assert len(receiver.controls) == 1


def test_a_refresh_keeps_the_subscription_and_rotates_its_secret(
    hub: Hub, speaker: Speaker, receiver: CallbackReceiver
) -> None:
    made = subscribe(speaker, receiver, ttlMs=3_600_000)["result"]
    delivery = {"url": receiver.url, "secret": OTHER}
    again = ask(speaker, "events/subscribe", name=CHANGED, arguments={}, delivery=delivery, cursor=made["cursor"])
    assert again["result"]["id"] == made["id"]
    assert again["result"]["deliveryStatus"]["active"] is True
    hub.operate(events.note, CHANGED, "rotated", {"connection": "shop"})
    until(lambda: receiver.events)
    assert len(receiver.events[0]["headers"]["webhook-signature"].split()) == 2
    stored = hub.operate(operations.values, "events.EventSubscription", "shown_url", mark=made["id"])
    assert stored == [receiver.url.rpartition("/hook/")[0] + "/…"]


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [({"ttlMs": 1}, 4, 6), ({"ttlMs": 7_200_000}, 119, 121), ({"ttlMs": None}, 1439, 1441), ({}, 59, 61)],
)
def test_a_lifetime_is_granted_within_bounds(
    speaker: Speaker, receiver: CallbackReceiver, asked: dict[str, Any], least: int, most: int
) -> None:
    before = datetime.now(UTC)
    granted = datetime.fromisoformat(subscribe(speaker, receiver, **asked)["result"]["refreshBefore"]) - before
    assert timedelta(minutes=least) <= granted <= timedelta(minutes=most)


def test_unsubscribing_ends_deliveries_and_another_time_finds_nothing(
    hub: Hub, speaker: Speaker, receiver: CallbackReceiver
) -> None:
    subscribe(speaker, receiver)
    key = {"name": CHANGED, "delivery": {"url": receiver.url}}
    other = hub.operate(operations.issue_key, "thief", ["tools:list", "audit:read"])
    with Speaker(hub.url, other) as thief:
        assert ask(thief, "events/unsubscribe", **key)["error"]["code"] == -32023
    assert "error" not in ask(speaker, "events/unsubscribe", **key)
    missing = ask(speaker, "events/unsubscribe", **key)["error"]
    assert (missing["code"], missing["data"]["kind"]) == (-32023, "subscription")
    assert hub.operate(operations.values, "events.EventSubscription", "name") == []


def test_a_callback_that_does_not_want_events_gets_none(speaker: Speaker, receiver: CallbackReceiver) -> None:
    for receiver.echoes, receiver.is_plain in ((False, False), (True, True)):
        refused = subscribe(speaker, receiver)["error"]
        assert (refused["code"], refused["data"]["reason"]) == (-32027, "challenge_failed")
    delivery = {"url": f"https://127.0.0.1:{free_port()}/", "secret": SECRET}
    refused = ask(speaker, "events/subscribe", name=CHANGED, delivery=delivery)["error"]
    assert (refused["code"], refused["data"]["reason"]) == (-32027, "connection_refused")


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("http://127.0.0.1/hook", SECRET),
        ("https://10.0.0.1/hook", SECRET),
        ("https://[::1]/hook", SECRET),
        ("https://169.254.169.254/latest", SECRET),
        ("https://user:word@example.com/", SECRET),
        ("https://example.com/a b", SECRET),
        ("file:///etc/passwd", SECRET),
        (5, SECRET),
        ("https://127.0.0.1/hook", "whsec_c2hvcnQ="),
        ("https://127.0.0.1/hook", SECRET.removeprefix("whsec_")),
        ("https://127.0.0.1/hook", None),
    ],
)
def test_addresses_and_secrets_that_are_none_are_invalid(speaker: Speaker, url: Any, secret: Any) -> None:
    delivery = {"mode": "webhook", "url": url, "secret": secret}
    assert ask(speaker, "events/subscribe", name=CHANGED, delivery=delivery)["error"]["code"] == -32602


def test_other_ways_and_callers_without_a_name_are_refused(hub: Hub, speaker: Speaker) -> None:
    delivery = {"mode": "push", "url": "https://127.0.0.1/hook", "secret": SECRET}
    unsupported = ask(speaker, "events/subscribe", name=CHANGED, delivery=delivery)["error"]
    assert (unsupported["code"], unsupported["data"]["value"]) == (-32026, "push")
    assert ask(speaker, "events/subscribe", name=CHANGED)["error"]["code"] == -32602
    assert ask(speaker, "events/subscribe", name=CHANGED, delivery=delivery, ttlMs="1")["error"]["code"] in (
        -32602,
        -32026,
    )


def test_chatgpt_gets_the_codes_of_its_draft_and_who_declares_the_extension_those_of_the_extension(
    speaker: Speaker, receiver: CallbackReceiver
) -> None:
    receiver.echoes = False
    delivery = {"mode": "webhook", "url": receiver.url, "secret": SECRET}
    asked: dict[str, dict[str, Any]] = {
        "unknown": {"name": "nothing", "delivery": delivery},
        "refused": {"name": CHANGED, "delivery": delivery},
        "pushed": {"name": CHANGED, "delivery": {**delivery, "mode": "push"}},
        "invalid": {"name": CHANGED},
    }

    def codes(client: str, **capabilities: Any) -> dict[str, int]:
        meta = {f"{META}clientInfo": {"name": client, "version": "1.0.0"}, f"{META}clientCapabilities": capabilities}
        return {
            case: ask(speaker, "events/subscribe", **params, _meta=meta)["error"]["code"]
            for case, params in asked.items()
        }

    final = {"unknown": -32023, "refused": -32027, "pushed": -32026, "invalid": -32602}
    assert codes("openai-mcp (ChatGPT)") == {"unknown": -32011, "refused": -32015, "pushed": -32014, "invalid": -32602}
    assert codes("openai-mcp", extensions={"io.modelcontextprotocol/events": {}}) == final
    assert codes("another") == final


def test_sessions_may_subscribe_too(speaker: Speaker, receiver: CallbackReceiver) -> None:
    session = speaker.open_session(LEGACY)
    params = {"name": CHANGED, "delivery": {"url": receiver.url, "secret": SECRET}}
    made = speaker.in_session(session, "events/subscribe", params).json()["result"]
    assert made["id"].startswith("sub_")
    assert "resultType" not in made


def test_a_client_of_callbacks_alone_needs_no_other_way_and_no_other_message(
    hub: Hub, speaker: Speaker, receiver: CallbackReceiver, request: pytest.FixtureRequest
) -> None:
    """As ChatGPT is described: it reads `capabilities.events`, and takes challenges and events, no `gap`, no end."""
    receiver.control_status = 400
    assert ask(speaker, "server/discover")["result"]["capabilities"]["events"] == {}
    listed = {each["name"]: each for each in ask(speaker, "events/list")["result"]["events"]}
    assert all("webhook" in each["delivery"] for each in listed.values())
    params = {
        "name": "tool.slow",
        "arguments": {},
        "delivery": {"mode": "webhook", "url": receiver.url, "secret": SECRET},
    }
    made = ask(speaker, "events/subscribe", **params)["result"]
    hub.operate(events.note, "tool.slow", "by callback", {"tool": "echo"})
    until(lambda: receiver.subjects() == ["by callback"])
    (got,) = receiver.events
    assert got["headers"]["webhook-id"] == got["eventId"]
    assert got["headers"]["x-mcp-subscription-id"] == made["id"]
    assert got["headers"]["content-type"] == "application/json"
    assert {"eventId", "name", "timestamp", "data", "cursor"} == set(got) - {"headers"}
    hub.operate(events.set_scopes, request.node.name[:100], ["tools:list"])
    hub.operate(events.note, "tool.slow", "no more", {"tool": "echo"})
    until(lambda: hub.operate(operations.values, "events.EventSubscription", "name") == [])
    assert [each["type"] for each in receiver.controls] == ["verification", "terminated"]
    assert receiver.subjects() == ["by callback"]


def test_who_loses_the_right_gets_the_end_and_no_further_event(
    hub: Hub, speaker: Speaker, receiver: CallbackReceiver, request: pytest.FixtureRequest
) -> None:
    params = {"name": "tool.slow", "delivery": {"url": receiver.url, "secret": SECRET}}
    assert "result" in ask(speaker, "events/subscribe", **params)
    hub.operate(events.set_scopes, request.node.name[:100], ["tools:list"])
    hub.operate(events.note, "tool.slow", "echo", {"tool": "echo"})
    until(lambda: len(receiver.controls) == 2)
    assert (receiver.controls[1]["type"], receiver.controls[1]["error"]["code"]) == ("terminated", -32024)
    until(lambda: hub.operate(operations.values, "events.EventSubscription", "name") == [])
    assert receiver.events == []


def test_a_failing_callback_is_tried_again_and_one_that_is_gone_is_not(
    hub: Hub, speaker: Speaker, receiver: CallbackReceiver
) -> None:
    made = subscribe(speaker, receiver)["result"]
    receiver.status = 302
    hub.operate(events.note, CHANGED, "later", {"connection": "shop"})
    until(lambda: hub.operate(operations.values, "events.EventSubscription", "last_error", mark=made["id"])[0])
    status = subscribe(speaker, receiver)["result"]["deliveryStatus"]
    assert status["lastError"] == "http_4xx"
    receiver.status = 200
    hub.operate(events.make_due)
    until(lambda: receiver.subjects() == ["later"])
    assert receiver.tries[receiver.events[0]["eventId"]] >= 2
    receiver.status = 410
    hub.operate(events.note, CHANGED, "unwanted", {"connection": "shop"})
    until(lambda: hub.operate(operations.values, "events.EventSubscription", "abandoned", mark=made["id"]) == [1])
    assert hub.operate(operations.values, "events.EventDelivery", "tries", subscription__mark=made["id"]) == []


def test_a_worker_that_is_killed_loses_no_event_and_makes_none_anew(
    hub: Hub, speaker: Speaker, receiver: CallbackReceiver
) -> None:
    subscribe(speaker, receiver)
    cursor = ask(speaker, "events/poll", name=CHANGED)["result"]["cursor"]
    count = 60
    hub.operate(events.note_many, CHANGED, "through", count // 2)
    until(lambda: receiver.events)
    kill_processes(hub.operate(events.senders))
    hub.operate(events.note_many, CHANGED, "after", count // 2)
    until(lambda: len({each["eventId"] for each in receiver.events}) == count)
    seen, more = list[str](), True
    while more:
        answer = ask(speaker, "events/poll", name=CHANGED, cursor=cursor)["result"]
        seen, cursor, more = seen + [each["eventId"] for each in answer["events"]], answer["cursor"], answer["hasMore"]
    assert sorted(seen) == sorted({each["eventId"] for each in receiver.events})
