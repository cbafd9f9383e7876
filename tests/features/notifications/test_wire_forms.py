"""The forms of notices outside, and when they are sent."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.utils import translation
from hypothesis import given
from hypothesis import strategies as st

from invocations.figures.tallies import Tally, class_of
from mcphub.features.notifications import messages, sources
from mcphub.features.notifications.catalogue import KINDS, words_of
from mcphub.features.notifications.messages import Told
from mcphub.features.notifications.models import end_of_quiet
from mcphub.features.notifications.sending import pause

NOW = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)


def told(**fields: Any) -> Told:
    words: dict[str, Any] = {
        "id": 1,
        "kind": "test",
        "title": "A test",
        "words": "It arrives.",
        "subject": "",
        "count": 1,
        "first_at": NOW,
        "last_at": NOW,
        "link": "https://hub.example/admin/telling/notice/1/change/",
    }
    return Told(**{**words, **fields})


@given(st.text(max_size=300), st.binary(min_size=24, max_size=64), st.integers(0, 2**33))
def test_a_webhook_is_signed_as_standard_webhooks_says(words: str, key: bytes, seconds: int) -> None:
    body = messages.webhook_body(told(words=words))
    headers = messages.webhook_headers("msg_1", seconds, body, key)
    expected = hmac.digest(key, b"msg_1.%d.%b" % (seconds, body), hashlib.sha256)
    version, _comma, signature = headers["webhook-signature"].partition(",")
    assert version == "v1"
    assert base64.b64decode(signature) == expected
    assert json.loads(body)["data"]["text"] == words


def test_the_signature_of_the_specification_s_own_example() -> None:
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    assert (
        messages.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', key)
        == "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


@given(st.text(max_size=200))
def test_names_of_upstreams_mention_nobody_in_a_chat(words: str) -> None:
    text = messages.slack([told(words=words)])["text"]
    assert "<" not in text
    assert ">" not in text
    block = messages.teams([told(words=words)])["attachments"][0]["content"]["body"][1]["text"]
    for sign in "[]()*_<>":
        assert block.count(sign) == block.count("\\" + sign)


def test_many_notices_are_one_message_that_says_how_many_there_are() -> None:
    many = [told(id=number) for number in range(50)]
    assert "and 30 more" in messages.slack(many)["text"]
    assert messages.heading(many) == "MCP Hub: 50 notifications"
    assert messages.mail_text(many, "https://hub.example/").count("It arrives.") == 50


def test_every_kind_has_words_in_both_languages_and_says_what_is_missing() -> None:
    for kind in KINDS.values():
        with translation.override("en"):
            english = words_of(kind.name, {})
        with translation.override("ru"):
            assert words_of(kind.name, {}) != english


@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)),
    st.times(),
    st.times(),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]),
)
def test_nothing_is_sent_in_quiet_hours_and_nothing_waits_longer_than_a_day(
    moment: datetime, begin: time, end: time, zone: str
) -> None:
    due = end_of_quiet(moment, begin, end, ZoneInfo(zone))
    assert moment <= due <= moment + timedelta(hours=25)
    if due > moment:
        assert begin != end


def test_a_night_ends_in_the_morning() -> None:
    night = (time(22), time(7), ZoneInfo("Europe/Berlin"))
    assert end_of_quiet(datetime(2026, 11, 25, 23, tzinfo=UTC), *night) == datetime(2026, 11, 26, 6, tzinfo=UTC)
    assert end_of_quiet(datetime(2026, 11, 26, 5, tzinfo=UTC), *night) == datetime(2026, 11, 26, 6, tzinfo=UTC)
    assert end_of_quiet(NOW, *night) == NOW


def test_pauses_grow_and_have_a_bound() -> None:
    assert 4 <= pause(1) <= 6
    assert 24 <= pause(2) <= 36
    assert pause(100) <= 14_400 * 1.2


def test_a_tool_is_judged_by_its_own_usual() -> None:
    fine = Tally(1000, 10)
    fine.durations[class_of(200)] = 1000
    worse = Tally(20, 8)
    worse.durations[class_of(5000)] = 20
    assert sources.judged("shop", fine, fine) == {}
    found = sources.judged("shop", worse, fine)
    assert set(found) == {("tool.errors", "shop"), ("tool.slow", "shop")}
    assert found["tool.errors", "shop"]["share"] == 40
    # What always fails so often is no news.
    assert ("tool.errors", "shop") not in sources.judged("shop", worse, Tally(1000, 400, worse.durations))
