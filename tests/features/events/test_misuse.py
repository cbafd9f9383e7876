"""Events asked for by callers that mislead: cursors of others, positions that cannot be, requests that multiply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import operations
from tests.features.events import operations as events
from tests.servers import Hub
from tests.wire.speech import Speaker

pytestmark = pytest.mark.program
CHANGED = "connection.changed"
SECRET = "whsec_" + "A" * 43 + "="


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("hub")) as running:
        yield running


@pytest.fixture(scope="module")
def speaker(hub: Hub) -> Iterator[Speaker]:
    with Speaker(hub.url, hub.operate(operations.issue_key, "reader", ["tools:list", "audit:read"])) as made:
        yield made


def asked(speaker: Speaker, method: str, **params: Any) -> dict[str, Any]:
    found: dict[str, Any] = speaker.modern(method, params).json()
    return found


@pytest.mark.parametrize("cursor", ["", "p", "p-1", "p9" * 200, "p0x10", "p1e3", "p٣", "q1", 7, ["p1"], {"a": 1}, True])
def test_a_cursor_that_the_hub_never_made_is_invalid(speaker: Speaker, cursor: Any) -> None:
    assert asked(speaker, "events/poll", name=CHANGED, cursor=cursor)["error"]["code"] == -32602


def test_a_cursor_from_the_future_begins_now_and_says_so(hub: Hub, speaker: Speaker) -> None:
    page = asked(speaker, "events/poll", name=CHANGED, cursor="p999999999")["result"]
    assert (page["events"], page["truncated"]) == ([], True)
    hub.operate(events.note, CHANGED, "after", {"connection": "shop"})
    again = asked(speaker, "events/poll", name=CHANGED, cursor=page["cursor"])["result"]
    assert [each["data"]["subject"] for each in again["events"]] == ["after"]


def test_the_cursor_of_a_caller_with_more_rights_shows_another_nothing_more(hub: Hub, speaker: Speaker) -> None:
    begin = asked(speaker, "events/poll", name="tool.slow", cursor=None)["result"]["cursor"]
    hub.operate(events.note, "tool.slow", "secret matter", {"tool": "echo"})
    assert asked(speaker, "events/poll", name="tool.slow", cursor=begin)["result"]["events"]
    with Speaker(hub.url, hub.operate(operations.issue_key, "poor", ["tools:list"])) as poor:
        assert asked(poor, "events/poll", name="tool.slow", cursor=begin)["error"]["code"] == -32024


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/x",
        "https://localhost/x",
        "https://LOCALHOST./x",
        "https://user:pass@client.example/x",
        "http://client.example/x",
        "https://client.example:0/x",
        "https://client.example\\@127.0.0.1/x",
        "https://client.example/\r\nHost: evil",
        "https://[::1]/x",
        "https://0x7f000001/x",
        "https://①②⑦.0.0.1/x",
        "https:///x",
        "file:///etc/passwd",
        "https://169.254.169.254/latest",
    ],
)
def test_a_callback_of_a_misleading_address_is_refused_before_anything_is_sent(speaker: Speaker, url: str) -> None:
    delivery = {"mode": "webhook", "url": url, "secret": SECRET}
    assert asked(speaker, "events/subscribe", name=CHANGED, delivery=delivery)["error"]["code"] == -32602


def test_new_callbacks_of_one_caller_are_bounded(hub: Hub) -> None:
    with Speaker(hub.url, hub.operate(operations.issue_key, "flood", ["tools:list", "audit:read"])) as flood:
        codes = [
            asked(
                flood,
                "events/subscribe",
                name=CHANGED,
                delivery={"url": f"https://nowhere-{number}.invalid/hook", "secret": SECRET},
            )["error"]["code"]
            for number in range(23)
        ]
    assert set(codes[:20]) == {-32027}
    assert codes[20:] == [-32025] * 3
    assert hub.operate(operations.values, "events.EventSubscription", "name") == []


def test_a_name_or_arguments_that_grow_are_invalid_and_small_in_the_answer(speaker: Speaker) -> None:
    found = speaker.modern("events/poll", {"name": "x" * 100_000}).json()["error"]
    assert len(str(found)) < 2000
    for arguments in ({"state": "began" * 1000}, {"mine": "yes"}, {"workspace": "other"}, [], "x"):
        assert asked(speaker, "events/poll", name=CHANGED, arguments=arguments)["error"]["code"] == -32602
