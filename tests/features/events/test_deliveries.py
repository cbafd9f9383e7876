"""Deliveries of upstreams, before and after the socket: addresses, signatures, what a message does to the rows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from mcphub.features.events import doctor, incoming, offers, taking
from mcphub.features.events.errors import CallbackMissing, DeliveryUnsigned
from mcphub.features.events.incoming import FormerSubscription, SignedHeaders
from mcphub.features.events.models import EventSource, Occurrence, UpstreamCallback, UpstreamEvent
from mcphub.features.events.taking import Taken
from sessions_app.protocol.errors import InvalidRequest, ParseError, PayloadTooLarge, RateLimited
from tests.features.events.upstream import event, event_type
from tests.features.events.webhook_upstream import signed
from tools_catalog import secrets
from tools_catalog.models import McpConnection

SECRET = "whsec_" + "A" * 44
NOW = 1_800_000_000


def sent(**more: str) -> list[tuple[bytes, bytes]]:
    headers = {**signed(SECRET, "evt_1", b"{}", NOW), **{name.replace("_", "-"): text for name, text in more.items()}}
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def test_a_body_is_signed_by_any_of_the_signatures_and_by_no_other_secret() -> None:
    own = dict(signed(SECRET, "evt_1", b"{}", NOW))["webhook-signature"]
    headers = incoming.headers_of(sent(webhook_signature=f"v1a,AAAA v1,AAAA {own}"), NOW)
    assert headers.signs(b"{}", SECRET)
    assert not headers.signs(b"{} ", SECRET)
    assert not headers.signs(b"{}", "whsec_" + "B" * 44)
    assert not SignedHeaders("evt_2", NOW, headers.signatures).signs(b"{}", SECRET)
    assert not SignedHeaders("evt_1", NOW + 1, headers.signatures).signs(b"{}", SECRET)


@pytest.mark.parametrize(
    "wrong",
    [
        {"webhook_timestamp": str(NOW - 301)},
        {"webhook_timestamp": str(NOW + 301)},
        {"webhook_timestamp": f"0{NOW}"},
        {"webhook_timestamp": "soon"},
        {"webhook_timestamp": "9" * 5000},
        {"webhook_id": ""},
        {"webhook_id": "ключ"},
        {"webhook_signature": "v1," + "A" * 3000},
    ],
    ids=str,
)
def test_headers_that_are_no_signature_of_now_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(DeliveryUnsigned):
        incoming.headers_of(sent(**wrong), NOW)


def test_a_header_that_is_missing_or_there_twice_is_refused() -> None:
    for name in (b"webhook-id", b"webhook-timestamp", b"webhook-signature"):
        with pytest.raises(DeliveryUnsigned):
            incoming.headers_of([each for each in sent() if each[0] != name], NOW)
        with pytest.raises(DeliveryUnsigned):
            incoming.headers_of([*sent(), *(each for each in sent() if each[0] == name)], NOW)
    assert incoming.headers_of(sent(), NOW - 299).id == "evt_1"


def test_a_length_beyond_the_bound_is_refused_before_the_body() -> None:
    incoming.check_length([(b"content-length", b"262144")])
    for length in (b"262145", b"9" * 400):
        with pytest.raises(PayloadTooLarge):
            incoming.check_length([(b"content-length", length)])


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000, b'{"eventId": "evt_2"}', b"{}"], ids=len)
def test_a_signed_body_that_is_no_message_is_refused(body: bytes) -> None:
    with pytest.raises((InvalidRequest, ParseError)):
        incoming.message_of(SignedHeaders("evt_1", NOW, ()), body)


def test_addresses_are_the_hubs_own_and_need_https(settings: Any) -> None:
    settings.MCPHUB_PUBLIC_URL = "https://hub.example/hub/"
    address = incoming.address_of(7)
    token = address.removeprefix("https://hub.example/hub/mcp/callbacks/")
    assert incoming.event_of(token) == 7
    for wrong in ("", "7", "7.", token.replace("7.", "8.", 1), token + "0", "٧" + token[1:], "9" * 30 + token, "7.é"):
        with pytest.raises(CallbackMissing):
            incoming.event_of(wrong)
    settings.MCPHUB_PUBLIC_URL = "http://hub.example"
    assert incoming.address_of(7) == ""


@pytest.fixture
def approved(db: None, settings: Any) -> UpstreamEvent:
    settings.MCPHUB_PUBLIC_URL = "https://hub.example"
    connection = McpConnection(slug="shop", prefix="shop.", transport="streamable-http", url="https://shop.example/mcp")
    connection.save()
    EventSource.objects.create(connection=connection)
    offers.reconcile(connection.pk, offers.read([event_type("paid", "webhook")]))
    row = UpstreamEvent.objects.get()
    UpstreamEvent.objects.update(approved=row.offered)
    row.refresh_from_db()
    incoming.prepare(row.pk, incoming.address_of(row.pk), {})
    return row


def test_another_way_is_used_before_webhooks_and_no_approval_changes_by_it() -> None:
    for ways, used in (
        (["webhook"], ["webhook"]),
        (["webhook", "poll"], ["poll"]),
        (["poll", "push"], ["push", "poll"]),
    ):
        (definition,) = offers.read([event_type("paid", *ways)]).definitions.values()
        assert definition["delivery"] == used


def test_a_subscription_keeps_its_secret_until_its_address_or_arguments_change(approved: UpstreamEvent) -> None:
    url = incoming.address_of(approved.pk)
    first = incoming.prepare(approved.pk, url, {})
    assert incoming.prepare(approved.pk, url, {}) == first
    other = "https://other.example/mcp/callbacks/1"
    moved = incoming.prepare(approved.pk, other, {})
    assert moved.former == FormerSubscription(approved.pk, "paid", url, {})
    with_arguments = incoming.prepare(approved.pk, other, {"city": "Berlin"})
    assert with_arguments.former == FormerSubscription(approved.pk, "paid", other, {})
    assert len({first.secret, moved.secret, with_arguments.secret}) == 3
    assert first.secret not in UpstreamCallback.objects.get().secret_ciphertext
    assert UpstreamCallback.objects.get().encrypt_anew() == []


def test_any_worker_stores_a_delivery_once(approved: UpstreamEvent) -> None:
    EventSource.objects.update(leased_by="another", leased_until=timezone.now() + timedelta(hours=1))
    assert taking.take(None, approved.pk, [event("paid", 1)], "c1") == Taken(1, 0, 0)
    assert taking.take(None, approved.pk, [event("paid", 1)], None) == Taken(0, 1, 0)
    assert Occurrence.objects.count() == 1
    approved.refresh_from_db()
    assert approved.cursor == '"c1"'
    assert EventSource.objects.get().leased_by == "another"


def test_a_flood_is_refused_until_the_hour_is_over(approved: UpstreamEvent) -> None:
    EventSource.objects.update(hour_count=taking.MOST_AN_HOUR)
    assert taking.take(None, approved.pk, [event("paid", 1)], "c1").is_paused
    with pytest.raises(RateLimited) as refused:
        incoming.target(approved.pk)
    assert 3000 < (refused.value.retry_after_seconds or 0) <= 3600


def test_an_end_is_shown_once_and_asked_for_again_after_a_pause(approved: UpstreamEvent) -> None:
    for _ in range(2):
        incoming.take_end(approved.pk, "msg_1", {"code": -32012, "message": "Access revoked."})
    row = UpstreamEvent.objects.get()
    assert (row.state, row.failures) == ("failing", 1)
    assert row.problem == "The upstream ended the subscription: Access revoked."
    assert row.due_at > timezone.now()


def test_ids_of_messages_are_kept_in_bounds(approved: UpstreamEvent) -> None:
    for number in range(120):
        assert incoming.take_gap(approved.pk, f"msg_{number}", None) is not None
    assert incoming.take_gap(approved.pk, "msg_119", None) is None
    assert len(UpstreamCallback.objects.get().control_ids) == 50
    assert UpstreamEvent.objects.get().gaps == 120


@pytest.mark.parametrize(
    "change",
    [
        {"approved": {}},
        {"offered": {}},
        {"offered": {"delivery": ["poll"]}},
        {"offered": {"delivery": ["webhook"], "inputSchema": {"type": "object", "required": ["city"]}}},
        {"arguments": {"city": "Berlin"}},
    ],
    ids=str,
)
def test_what_nobody_wants_any_more_is_left(approved: UpstreamEvent, change: dict[str, Any]) -> None:
    assert incoming.left(approved.connection_id) == []
    UpstreamEvent.objects.update(**change)
    url = incoming.address_of(approved.pk)
    assert incoming.left(approved.connection_id) == [FormerSubscription(approved.pk, "paid", url, {})]


def test_an_address_without_an_approved_event_is_as_none(approved: UpstreamEvent) -> None:
    assert incoming.target(approved.pk).connection == "shop"
    McpConnection.objects.update(enabled=False)
    with pytest.raises(CallbackMissing):
        incoming.target(approved.pk)
    McpConnection.objects.update(enabled=True)
    UpstreamEvent.objects.update(approved={})
    with pytest.raises(CallbackMissing):
        incoming.target(approved.pk)


def test_the_secret_is_bound_to_its_event(approved: UpstreamEvent) -> None:
    row = UpstreamCallback.objects.get()
    offers.reconcile(
        approved.connection_id, offers.read([event_type("paid", "webhook"), event_type("sent", "webhook")])
    )
    other = UpstreamCallback(
        event=UpstreamEvent.objects.get(name_there="sent"), secret_ciphertext=row.secret_ciphertext
    )
    with pytest.raises(secrets.SecretError):
        other.secret()


def test_the_doctor_names_what_is_not_received_and_what_is_not_offered(approved: UpstreamEvent) -> None:
    assert list(doctor.check()) == []
    taking.postpone(None, approved.pk, 60, "It comes by webhook alone.")
    EventSource.objects.update(problem="It lists paid twice.")
    assert [(each.level, each.what) for each in doctor.check()] == [
        ("hint", "Not all events of shop are offered: It lists paid twice."),
        ("wrong", "The upstream event shop/paid is not received: It comes by webhook alone."),
    ]
    McpConnection.objects.update(enabled=False)
    assert list(doctor.check()) == []
