"""Events that an upstream sends by webhook alone: subscribed, verified, renewed, received once at any worker, ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests import operations
from tests.features.events import operations as events
from tests.features.events.upstream import CITIES, event, event_type, log_name
from tests.features.events.webhook_upstream import WebhookUpstream, signed
from tests.servers import Hub, kill_processes, until
from tests.upstreams import connecting
from tests.wire.speech import Speaker

pytestmark = pytest.mark.program
NAME = "shop/order.sent"
ROW = "events.UpstreamEvent"


@pytest.fixture(scope="module")
def upstream() -> Iterator[WebhookUpstream]:
    types = [event_type("order.sent", "webhook"), event_type("order.near", "webhook", inputSchema=CITIES)]
    with WebhookUpstream(types, ttl_seconds=11) as running:
        yield running


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, upstream: WebhookUpstream) -> Iterator[Hub]:
    environment = {
        "MCPHUB_EGRESS_ALLOW": "127.0.0.1",
        "MCPHUB_PUBLIC_URL": "https://hub.example",
        "MCPHUB_ALLOWED_HOSTS": "hub.example,127.0.0.1",
        "MCPHUB_BEHIND_PROXY": "1",
    }
    with Hub(tmp_path_factory.mktemp("hub"), flags=["--workers", "2"], environment=environment) as running:
        upstream.hub = running.url
        running.operate(connecting.connect, {"slug": "shop", "transport": "streamable-http", "url": upstream.url})
        until(lambda: NAME in running.operate(operations.values, ROW, "name"))
        running.operate(operations.approve_offers, "shop")
        running.operate(events.approve_event, NAME)
        until(lambda: "order.sent" in upstream.subscriptions)
        yield running


@pytest.fixture(scope="module")
def speaker(hub: Hub) -> Iterator[Speaker]:
    with Speaker(hub.url, hub.operate(operations.issue_key, "robot", ["tools:list"])) as made:
        yield made


def page(speaker: Speaker, cursor: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = speaker.modern("events/poll", {"name": NAME, "cursor": cursor}).json()["result"]
    return found


def numbers(speaker: Speaker, cursor: str) -> list[int]:
    return [each["data"]["number"] for each in page(speaker, cursor)["events"]]


def value(hub: Hub, column: str) -> Any:
    (found,) = hub.operate(operations.values, ROW, column, name=NAME)
    return found


def test_an_event_is_received_once_whichever_worker_gets_it(
    hub: Hub, speaker: Speaker, upstream: WebhookUpstream
) -> None:
    cursor, before = page(speaker)["cursor"], value(hub, "repeated")
    for number in (*range(10), *range(10)):
        assert upstream.deliver("order.sent", event("order.sent", number)).status_code == 200
    until(lambda: numbers(speaker, cursor) == list(range(10)))
    assert value(hub, "repeated") == before + 10
    delivery = upstream.subscriptions["order.sent"]
    assert delivery["url"].startswith("https://hub.example/mcp/callbacks/")
    assert delivery["secret"] not in str(hub.operate(operations.values, "events.UpstreamCallback", "secret_ciphertext"))


def test_an_event_that_lies_is_acknowledged_counted_and_not_passed_on(
    hub: Hub, speaker: Speaker, upstream: WebhookUpstream
) -> None:
    cursor, before = page(speaker)["cursor"], value(hub, "refused")
    wrong = [event("order.sent", 30, data={"number": "x"}), event("order.paid", 31)]
    for each in wrong:
        assert upstream.deliver("order.sent", each).status_code == 200
    assert upstream.deliver("order.sent", event("order.sent", 32)).status_code == 200
    assert upstream.deliver("order.sent", event("order.sent", 32, data={"number": 99})).status_code == 200
    until(lambda: numbers(speaker, cursor) == [32])
    assert value(hub, "refused") == before + len(wrong) + 1


def test_what_the_secret_did_not_sign_now_is_refused(hub: Hub, speaker: Speaker, upstream: WebhookUpstream) -> None:
    cursor, sent = page(speaker)["cursor"], event("order.sent", 40)
    other = "whsec_" + "B" * 44
    assert upstream.deliver("order.sent", sent, secret=other).status_code == 401
    assert upstream.deliver("order.sent", sent, seconds=int(time.time()) - 301).status_code == 401
    assert upstream.deliver("order.sent", sent, seconds=int(time.time()) + 400).status_code == 401
    assert upstream.deliver("order.sent", sent, "another-id").status_code == 400
    delivery = upstream.subscriptions["order.sent"]
    url = delivery["url"]
    assert upstream.post(url, b"{}", {"content-type": "application/json"}).status_code == 401
    assert upstream.post(url, b"[]", signed(delivery["secret"], "evt", b"[]")).status_code == 400
    large = b'{"eventId": "evt", "x": "' + b"x" * 270_000 + b'"}'
    assert upstream.post(url, large, signed(delivery["secret"], "evt", large)).status_code == 413
    unknown = url[:-1] + ("0" if url[-1] != "0" else "1")
    for address in (
        unknown,
        url.rpartition(".")[0],
        url.rpartition("/")[0] + "/x",
        url.replace("callbacks/", "callbacks/9"),
    ):
        answer = upstream.post(address, b"{}", signed(delivery["secret"], "evt", b"{}"))
        assert (answer.status_code, "callback" in answer.text) == (404, True)
    assert numbers(speaker, cursor) == []
    assert upstream.deliver("order.sent", sent).status_code == 200
    until(lambda: numbers(speaker, cursor) == [40])


def test_a_gap_counts_once_and_messages_of_later_versions_do_nothing(hub: Hub, upstream: WebhookUpstream) -> None:
    before = value(hub, "gaps")
    for _ in range(2):
        assert upstream.deliver("order.sent", {"type": "gap", "cursor": None}, "msg_gap_1").status_code == 200
    assert value(hub, "gaps") == before + 1
    assert upstream.deliver("order.sent", {"type": "of-later"}, "msg_later").status_code == 200
    assert value(hub, "gaps") == before + 1


def test_a_subscription_is_renewed_in_time_also_after_the_worker_was_killed(
    hub: Hub, speaker: Speaker, upstream: WebhookUpstream
) -> None:
    secret, before = upstream.subscriptions["order.sent"]["secret"], len(upstream.subscribed)
    until(lambda: len(upstream.subscribed) > before)
    kill_processes(hub.operate(events.receivers))
    again = len(upstream.subscribed)
    until(lambda: len(upstream.subscribed) > again)
    assert {each["delivery"]["secret"] for each in upstream.subscribed[before:]} == {secret}
    cursor = page(speaker)["cursor"]
    assert upstream.deliver("order.sent", event("order.sent", 60)).status_code == 200
    until(lambda: numbers(speaker, cursor) == [60])


def test_other_arguments_are_another_subscription_and_the_former_one_ends(
    hub: Hub, speaker: Speaker, upstream: WebhookUpstream
) -> None:
    name, berlin, paris = "shop/order.near", {"city": "Berlin"}, {"city": "Paris"}
    at_berlin, at_paris = log_name("order.near", berlin), log_name("order.near", paris)
    hub.operate(events.approve_event, name, berlin)
    until(lambda: at_berlin in upstream.subscriptions)
    former = upstream.subscriptions[at_berlin]
    cursor = speaker.modern("events/poll", {"name": name}).json()["result"]["cursor"]
    assert upstream.deliver(at_berlin, event("order.near", 1)).status_code == 200
    hub.operate(events.approve_event, name, paris)
    until(lambda: at_paris in upstream.subscriptions)
    assert at_berlin not in upstream.subscriptions
    assert upstream.deliver(at_paris, event("order.near", 2), secret=former["secret"]).status_code == 401
    assert upstream.deliver(at_paris, event("order.near", 3)).status_code == 200
    found = speaker.modern("events/poll", {"name": name, "cursor": cursor}).json()["result"]["events"]
    assert [each["data"]["number"] for each in found] == [1, 3]
    hub.operate(events.stop_event, name)
    until(lambda: at_paris not in upstream.subscriptions)


def test_a_type_that_is_stopped_is_unsubscribed_and_its_address_is_gone(hub: Hub, upstream: WebhookUpstream) -> None:
    delivery = upstream.subscriptions["order.sent"]
    hub.operate(events.stop_event, NAME)
    until(lambda: not upstream.subscriptions)
    late = upstream.post(delivery["url"], b"{}", signed(delivery["secret"], "evt", b"{}"))
    assert late.status_code == 404
    hub.operate(events.approve_event, NAME)
    until(lambda: "order.sent" in upstream.subscriptions)
    assert upstream.subscriptions["order.sent"]["secret"] != delivery["secret"]
