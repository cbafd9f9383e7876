"""Notices as rows: each once, to those who want it and may read it, counted up when its state comes back."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.utils import timezone

from mcphub.features.notifications import metrics, noticing, sending, service, sources
from mcphub.features.notifications.catalogue import words_of
from mcphub.features.notifications.models import Delivery, Notice, Subscription, new_secret
from sessions_app.history import events
from sessions_app.history.models import WaitingChange
from tools_catalog.models import McpConnection
from tools_catalog.models.links import McpConnectionLink

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> User:
    user = User.objects.create_user("viewer", is_staff=True)
    user.groups.add(Group.objects.get(name="Viewer"))
    return user


def subscribed(owner: User | Group, way: str = "webhook", **fields: Any) -> Subscription:
    fields["group" if isinstance(owner, Group) else "person"] = owner
    row = Subscription(name=fields.pop("name", way), way=way, **fields)
    row.set_address({"console": "", "email": "a@example.org"}.get(way, "https://hooks.example/secret"))
    if way == "webhook":
        row.set_secret(new_secret())
    row.full_clean()
    row.save()
    return row


def test_a_notice_is_delivered_to_who_wants_it_and_may_read_it(viewer: User) -> None:
    wants = subscribed(viewer, kinds=["connection.down"])
    subscribed(viewer, "email", kinds=["tool.slow"])
    subscribed(viewer, "slack", enabled=False)
    noticing.note("connection.down", "1", {"connection": "shop"})
    assert [row.subscription for row in Delivery.objects.all()] == [wants]
    subscribed(viewer, "teams")
    noticing.note("key.ends", "1", {})  # a Viewer may not read keys
    assert not Delivery.objects.filter(notice__kind="key.ends").exists()
    noticing.note("key.ends", "2", {}, person=viewer)  # but of one's own
    assert Delivery.objects.filter(notice__kind="key.ends").count() == 1


def test_what_comes_back_soon_counts_up_and_later_is_new(viewer: User, settings: Any) -> None:
    subscribed(viewer)
    first = noticing.note("connection.down", "1", {})
    assert first is not None
    assert noticing.note("connection.down", "1", {}) is None
    noticing.end(Notice.objects.filter(pk=first.pk))
    assert noticing.note("connection.down", "1", {}) is None
    assert Notice.objects.get(pk=first.pk).count == 2
    noticing.end(Notice.objects.filter(pk=first.pk))
    Notice.objects.filter(pk=first.pk).update(ended_at=timezone.now() - timedelta(hours=1))
    assert noticing.note("connection.down", "1", {}) is not None
    assert Delivery.objects.count() == 2


def test_metrics_count_deliveries_that_wait_or_were_given_up(viewer: User) -> None:
    subscribed(viewer)
    for number in range(3):
        noticing.note("connection.down", f"{number}", {})
    first = Delivery.objects.order_by("pk")[0]
    Delivery.objects.filter(pk=first.pk).update(state=Delivery.State.DEAD)
    (family,) = metrics.deliveries()
    assert {each.labels["state"]: each.value for each in family.samples} == {"waiting": 2, "dead": 1}


def test_a_change_that_waits_is_reported_to_others_than_its_proposers(viewer: User) -> None:
    proposer = User.objects.create_superuser("proposer")
    change = WaitingChange.objects.create(
        subject_model="sessions_app.apikey",
        subject_id="1",
        before={},
        after={},
        proposed_by=f"user:{proposer.pk}",
        proposer_label="proposer",
        people=[proposer.pk],
    )
    confirmer = User.objects.create_superuser("confirmer")
    subscribed(proposer)
    wants = subscribed(confirmer)
    noticing.note("change.waits", str(change.pk), {"by": "proposer", "subject": "a key", "expires": "tomorrow"})
    assert [row.subscription for row in Delivery.objects.all()] == [wants]
    assert (noticing.live_for(proposer).count(), noticing.live_for(confirmer).count()) == (0, 1)


def test_a_flood_is_one_notice_more(viewer: User) -> None:
    subscribed(viewer)
    for number in range(noticing.MOST_AN_HOUR + 20):
        noticing.note("connection.changed", f"event {number}", {})
    assert Notice.objects.filter(kind="connection.changed").count() == noticing.MOST_AN_HOUR + 20
    assert Delivery.objects.filter(notice__kind="connection.changed").count() == noticing.MOST_AN_HOUR
    assert Notice.objects.get(kind="more").count == 20


def test_a_connection_is_down_where_no_process_reaches_it() -> None:
    connection = McpConnection(slug="shop", transport="streamable-http", url="https://shop.example/mcp")
    connection.save()
    for process, status in (("one", "error"), ("two", "connected")):
        McpConnectionLink.objects.create(connection=connection, process_id=process, status=status, error_message="no")
    assert ("connection.down", str(connection.pk)) not in sources.states()
    McpConnectionLink.objects.filter(process_id="two").delete()
    sources.reconcile(sources.states(), sources.STATES)
    assert Notice.objects.get(kind="connection.down").words == "The upstream shop cannot be reached: no"
    McpConnectionLink.objects.create(connection=connection, process_id="three", status="connected")
    sources.reconcile(sources.states(), sources.STATES)
    assert Notice.objects.get(kind="connection.down").ended_at is not None


def test_the_history_is_told_once_however_often_it_is_read() -> None:
    begun = sources.newest_event()
    events.record("key.ends_soon", label="robot", after={"expires_at": "2026-12-01"})
    reached = sources.tell_events(begun)
    assert reached > begun
    sources.tell_events(begun)
    sources.tell_events(reached)
    (notice,) = Notice.objects.filter(kind="key.ends")
    assert "robot" in notice.words


def test_one_worker_looks_and_the_next_goes_on_where_it_stopped() -> None:
    assert service.leased("history", "one") == sources.newest_event()
    assert service.leased("history", "two") is None
    service.Position.objects.update(leased_until=timezone.now() - timedelta(seconds=1), value=7)
    assert service.leased("history", "two") == 7
    assert service.leased("history", "one") is None


def test_one_worker_sends_and_a_dead_one_loses_its_lease(viewer: User) -> None:
    row = subscribed(viewer)
    noticing.note("connection.down", "1", {})
    assert sending.claim("one", 8) == [row.pk]
    assert sending.claim("two", 8) == []
    Subscription.objects.update(leased_until=timezone.now() - timedelta(seconds=1))
    assert sending.claim("two", 8) == [row.pk]
    post = sending.collect(row.pk)
    assert post is not None
    (letter,) = post.letters
    sending.finish(row.pk, "two", [letter.delivery_id], [], None)
    assert Delivery.objects.get().state == "sent"
    assert sending.claim("one", 8) == []


def test_who_may_not_read_any_more_is_told_nothing_more(viewer: User) -> None:
    row = subscribed(viewer)
    noticing.note("connection.down", "1", {})
    viewer.groups.clear()
    assert sending.collect(row.pk) is None
    assert Delivery.objects.get().state == "dead"


def test_a_group_gets_what_it_may_read_and_keeps_its_place_when_a_member_goes(viewer: User) -> None:
    group = Group.objects.get(name="Viewer")
    row = subscribed(group)
    noticing.note("key.ends", "1", {})  # a Viewer may not read keys
    noticing.note("key.ends", "2", {}, person=viewer)  # of one member alone
    assert not Delivery.objects.exists()
    noticing.note("connection.down", "1", {})
    viewer.delete()
    post = sending.collect(row.pk)
    assert post is not None
    assert len(post.letters) == 1
    group.permissions.clear()
    assert sending.collect(row.pk) is None
    assert Delivery.objects.get().state == "dead"


def test_a_group_has_no_console_and_a_subscription_one_owner(viewer: User) -> None:
    group = Group.objects.get(name="Viewer")
    with pytest.raises(ValidationError, match="no console of its own"):
        subscribed(group, "console")
    for owners in ({}, {"person": viewer, "group": group}):
        with pytest.raises(ValidationError, match="subscription_one_owner"):
            Subscription(name="both", way="email", **owners).full_clean()
    subscribed(group, "email")
    with pytest.raises(ValidationError, match="already a subscription"):
        subscribed(group, "email")


def test_a_delivery_is_given_up_after_its_tries_and_replayed_under_its_id(viewer: User, settings: Any) -> None:
    settings.MCPHUB_NOTICE_TRIES = 2
    row = subscribed(viewer)
    noticing.note("connection.down", "1", {})
    delivery = Delivery.objects.get()
    for _ in range(2):
        sending.finish(row.pk, "one", [], [delivery.pk], sending.NotSent("It answered with status 500."))
    given_up = Delivery.objects.get()
    assert (given_up.state, given_up.tries) == ("dead", 2)
    assert Subscription.objects.get().failing_since is not None
    assert noticing.replay(Delivery.objects.all()) == 1
    assert Delivery.objects.get().mark == delivery.mark
    assert sending.claim("one", 8) == [row.pk]


@pytest.mark.parametrize(
    ("way", "address"),
    [
        ("webhook", "http://hooks.example/x"),
        ("webhook", "https://10.0.0.1/x"),
        ("slack", "https://169.254.169.254/latest"),
        ("webhook", "https://hooks.example/x y"),
        ("webhook", "file:///etc/passwd"),
        ("email", "nobody"),
        ("email", "a@example.org\nBcc: b@example.org"),
        ("console", "a@example.org"),
        ("teams", ""),
    ],
)
def test_bad_addresses_are_refused(viewer: User, way: str, address: str) -> None:
    with pytest.raises(ValidationError):
        Subscription(person=viewer, name="bad", way=way).set_address(address)


def test_address_and_secret_are_encrypted_and_stay_out_of_the_history(viewer: User) -> None:
    row = subscribed(viewer)
    stored = Subscription.objects.values_list("address_ciphertext", "secret_ciphertext", "shown_address").get()
    assert "secret" not in " ".join(stored)
    assert row.address() == "https://hooks.example/secret"
    for event in events.AuditEvent.objects.filter(kind__startswith="subscription."):
        assert "hooks.example/secret" not in str(event.after)
        assert "whsec" not in str(event.after)


def test_the_badge_counts_what_a_person_chose_and_has_not_seen(viewer: User) -> None:
    subscribed(viewer, "console", kinds=["tool.slow"])
    noticing.note("connection.down", "1", {})
    slow = noticing.note("tool.slow", "shop", {})
    assert slow is not None
    assert list(noticing.live_for(viewer)) == [slow]
    noticing.see(viewer, 10**15)
    assert noticing.seen_upto(viewer) == slow.pk
    noticing.see(viewer, 1)
    assert noticing.seen_upto(viewer) == slow.pk


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("created", "ada created the connection shop."),
        ("created_at, id, slug", "ada created the connection shop."),
        ("deleted", "ada deleted the connection shop."),
        ("connect_seconds, url", "ada changed the connection shop: "),
    ],
)
def test_an_edit_of_a_connection_is_one_sentence_without_names_of_columns(fields: str, words: str) -> None:
    told = words_of("connection.changed", {"by": "ada", "connection": "shop", "fields": fields})
    assert told.startswith(words)
    assert told.endswith(" Its history shows before and after.")
    assert not {"created_at", "connect_seconds"} & set(re.split(r"\W+", told))
