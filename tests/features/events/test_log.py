"""Events as rows: one for each change of a notice, in the order of commits, to those who may get them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.utils import timezone

from mcphub.features.approvals.models import McpApproval
from mcphub.features.events import delivering, reading, subscribing, sweeping
from mcphub.features.events.access import Receiver
from mcphub.features.events.callbacks import CallbackFailed
from mcphub.features.events.models import EventDelivery, EventLog, EventSubscription, Occurrence
from mcphub.features.events.reading import EventFilter, EventPage
from mcphub.features.notifications import noticing, sources
from mcphub.features.notifications.models import Notice, new_secret
from sessions_app.caller import Caller
from sessions_app.protocol.errors import InvalidParams
from tools_catalog.catalog.selection import Selection

pytestmark = pytest.mark.django_db
DOWN = EventFilter("connection.down")


def receiver(principal: str = "key:1", *scopes: str, **fields: Any) -> Receiver:
    scopes = ("tools:list", *scopes)
    caller = Caller(principal=principal, label=principal, scopes=frozenset(scopes), **fields)
    return Receiver.of(caller, Selection())


def operator() -> Receiver:
    return receiver("key:1", "audit:read")


def states_of(page: EventPage) -> list[Any]:
    return [each.wire["data"]["state"] for each in page.found]


def test_a_state_is_an_event_when_it_begins_comes_back_and_ends() -> None:
    first = noticing.note("connection.down", "1", {"connection": "shop", "error": "refused"})
    assert first is not None
    noticing.note("connection.down", "1", {"connection": "shop"})
    rows = Notice.objects.filter(pk=first.pk)
    assert noticing.end(rows) == 1
    assert noticing.end(rows) == 0
    noticing.note("connection.down", "1", {"connection": "shop", "error": "again"})
    page = reading.page(operator(), DOWN, 0)
    assert states_of(page) == ["began", "ended", "began"]
    assert page.found[-1].wire["data"]["facts"]["error"] == "again"
    assert states_of(reading.page(operator(), EventFilter("connection.down", "ended"), 0)) == ["ended"]
    assert len({each.wire["eventId"] for each in page.found}) == 3


def test_a_notice_that_is_rolled_back_is_no_event() -> None:
    before = EventLog.now().newest
    with transaction.atomic():
        noticing.note("connection.down", "1", {})
        transaction.set_rollback(True)
    assert EventLog.now().newest == before
    assert not Occurrence.objects.exists()


def test_a_flood_of_notices_is_in_the_log_of_events() -> None:
    count = noticing.MOST_AN_HOUR + 20
    for number in range(count):
        noticing.note("connection.changed", f"event {number}", {})
        noticing.note("connection.changed", f"event {number}", {})
    assert Occurrence.objects.filter(name="connection.changed").count() == count
    assert Occurrence.objects.filter(name="more").count() == 1


def test_pages_go_on_where_the_last_one_ended_and_the_cursor_moves_past_what_is_of_others() -> None:
    for number in range(5):
        noticing.note("connection.down", str(number), {})
    noticing.note("tool.slow", "echo", {})
    head = EventLog.now().newest
    first = reading.page(operator(), DOWN, 0, 3)
    assert (len(first.found), first.has_more) == (3, True)
    rest = reading.page(operator(), DOWN, first.position, 3)
    assert (len(rest.found), rest.has_more, rest.position) == (2, False, head)
    assert reading.page(operator(), DOWN, rest.position).found == ()


def test_a_cursor_before_what_is_kept_is_truncated() -> None:
    for number in range(6):
        noticing.note("connection.down", str(number), {})
    begun = EventLog.now().newest - 6
    Occurrence.objects.filter(position=begun + 1).update(happened_at=timezone.now() - timedelta(days=8))
    assert sweeping.purge() == 1
    assert sweeping.purge(most=3) == 2
    start = reading.begin(DOWN, begun, None)
    assert (start.is_truncated, start.position) == (True, begun + 3)
    late = reading.page(operator(), DOWN, begun)
    assert (late.is_truncated, len(late.found)) == (True, 3)
    assert not reading.begin(DOWN, begun + 3, None).is_truncated


def test_a_cursor_of_a_log_that_was_restored_begins_now() -> None:
    noticing.note("connection.down", "1", {})
    start = reading.begin(DOWN, EventLog.now().newest + 10, None)
    assert (start.is_truncated, start.position) == (True, EventLog.now().newest)


def test_what_is_older_than_wanted_is_skipped_and_said() -> None:
    for number in range(3):
        noticing.note("connection.down", str(number), {})
    first = Occurrence.objects.order_by("position")[0]
    Occurrence.objects.filter(pk=first.pk).update(happened_at=timezone.now() - timedelta(hours=1))
    start = reading.begin(DOWN, first.position - 1, timedelta(minutes=5))
    assert (start.is_truncated, start.position) == (True, first.position)
    assert not reading.begin(DOWN, first.position, timedelta(minutes=5)).is_truncated


@pytest.mark.parametrize("cursor", ["", "5", "p", "p-1", "p1.5", "p" + "9" * 19, 5, True, [], "p٣"])
def test_a_cursor_of_others_is_refused(cursor: Any) -> None:
    with pytest.raises(InvalidParams):
        reading.position_of(cursor)


def test_callers_get_their_own_matters_with_the_facts_that_are_for_them() -> None:
    facts = {"tool": "echo", "caller": "mine", "expires": "soon", "principal": "key:7", "workspace": "ours"}
    noticing.note("approval.waits", "a", facts)
    wanted = EventFilter("approval.waits")
    (mine,) = reading.page(receiver("key:7"), wanted, 0).found
    assert mine.wire["data"]["facts"] == {"tool": "echo", "caller": "mine", "expires": "soon"}
    assert "text" not in mine.wire["data"]
    for other in (
        receiver("key:8"),
        receiver("key:7", workspace=9, workspace_slug="theirs"),
        receiver("key:9", "audit:read", workspace=9, workspace_slug="theirs"),
    ):
        assert reading.page(other, wanted, 0).found == ()
    for reader in (operator(), receiver("key:9", "audit:read", workspace=5, workspace_slug="ours")):
        (whole,) = reading.page(reader, wanted, 0).found
        assert whole.wire["data"]["facts"] == facts
        assert reading.page(reader, EventFilter("approval.waits", mine=True), 0).found == ()


def test_nobody_shares_matters_of_anonymous_callers() -> None:
    noticing.note("approval.waits", "a", {"tool": "echo", "principal": "anonymous"})
    assert reading.page(receiver("anonymous"), EventFilter("approval.waits"), 0).found == ()


def test_a_person_gets_what_their_permissions_let_them_read() -> None:
    viewer = User.objects.create_user("viewer", is_staff=True)
    principal = f"user:{viewer.pk}"
    assert not receiver(principal, "audit:read").may_get("tool.slow")
    viewer.groups.add(Group.objects.get(name="Viewer"))
    assert receiver(principal, "audit:read").may_get("tool.slow")
    assert not receiver(principal).may_get("tool.slow")
    assert receiver(principal).may_get("approval.waits")


def test_an_approval_that_is_decided_is_an_event_with_the_decision() -> None:
    now = timezone.now()
    row = McpApproval.objects.create(
        id="a", principal="key:7", caller_label="robot", tool_name="echo", tool_version="1", arguments={}, binding="b",
        created_at=now, expires_at=now + timedelta(hours=1),
    )  # fmt: skip
    sources.reconcile(sources.states(), sources.STATES)
    McpApproval.objects.filter(pk=row.pk).update(status=McpApproval.Status.DENIED, decided_at=now)
    sources.reconcile(sources.states(), sources.STATES)
    page = reading.page(receiver("key:7"), EventFilter("approval.waits"), 0)
    assert states_of(page) == ["began", "ended"]
    assert page.found[1].wire["data"]["facts"]["decision"] == "denied"


# Callbacks --------------------------------------------------------------------------------------------------


def subscribed() -> EventSubscription:
    row = EventSubscription(
        mark="sub_1",
        name="connection.changed",
        principal="key:1",
        subscriber={},
        shown_url="https://client.example/…",
        expires_at=timezone.now() + timedelta(hours=1),
        read_upto=EventLog.now().newest,
    )
    row.seal("url", "https://client.example/hook")
    row.seal("secret", new_secret())
    row.save()
    return row


def changed(count: int) -> list[Occurrence]:
    for number in range(count):
        noticing.note("connection.changed", f"event {number}", {})
    return list(Occurrence.objects.filter(name="connection.changed").order_by("position"))


def test_the_cursor_of_a_callback_waits_for_what_has_not_arrived() -> None:
    row = subscribed()
    rows = changed(3)
    waiting = [EventDelivery.objects.create(subscription=row, occurrence=each) for each in rows]
    EventSubscription.objects.update(read_upto=rows[-1].position)
    row.refresh_from_db()
    assert delivering.safe_position(row.pk, rows[0].position) == rows[0].position
    assert delivering.safe_position(row.pk, rows[2].position) == rows[0].position - 1
    delivering.note_arrival(row.pk, waiting[2].pk)
    assert subscribing.watermark(row) == rows[0].position - 1
    for each in waiting[:2]:
        delivering.note_arrival(row.pk, each.pk)
    noticing.note("tool.slow", "echo", {})
    assert subscribing.watermark(row) == EventLog.now().newest
    row.refresh_from_db()
    assert row.sent == 3


def test_an_event_that_never_arrives_is_abandoned() -> None:
    row = subscribed()
    (event,) = changed(1)
    delivery = EventDelivery.objects.create(subscription=row, occurrence=event)
    letter = delivering.EventLetter(delivery.pk, event.position, {})
    for tries in range(delivering.MOST_TRIES):
        delivery.refresh_from_db()
        assert delivery.tries == tries
        delivering.note_failure(row.pk, (letter,), CallbackFailed("timeout"))
    assert not EventDelivery.objects.exists()
    row.refresh_from_db()
    assert (row.abandoned, row.last_error) == (1, "timeout")


def test_one_worker_sends_for_a_subscription_and_a_dead_one_loses_its_lease() -> None:
    row = subscribed()
    assert delivering.claim("one", 8) == []
    changed(1)
    assert delivering.claim("one", 8) == [row.pk]
    assert delivering.claim("two", 8) == []
    EventSubscription.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
    assert delivering.claim("two", 8) == [row.pk]
    delivering.release(row.pk, "one")
    assert delivering.claim("one", 8) == []
    delivering.release(row.pk, "two")
    assert delivering.claim("one", 8) == [row.pk]
    assert delivering.claim("two", 8, lambda process_id: process_id == "one") == [row.pk]
    delivering.release_all("one")
    assert delivering.claim("one", 8) == []
    delivering.release_all("two")
    assert delivering.claim("one", 8) == [row.pk]


def test_what_is_removed_is_no_gap_for_a_callback_that_waits_for_other_events() -> None:
    row = subscribed()
    for number in range(3):
        noticing.note("connection.down", str(number), {})
    assert sweeping.purge(most=1) == 2
    row.refresh_from_db()
    assert row.read_upto == EventLog.now().removed_upto


def test_an_expired_subscription_goes_with_its_deliveries() -> None:
    row = subscribed()
    (event,) = changed(1)
    EventDelivery.objects.create(subscription=row, occurrence=event)
    EventSubscription.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert delivering.claim("one", 8) == []
    sweeping.purge_subscriptions()
    assert not EventSubscription.objects.exists()


def test_addresses_and_secrets_are_encrypted_and_move_to_a_new_key() -> None:
    row = subscribed()
    assert "client.example/hook" not in row.url_ciphertext
    assert row.unseal("url") == "https://client.example/hook"
    assert row.encrypt_anew() == []
