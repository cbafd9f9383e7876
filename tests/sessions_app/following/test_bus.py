"""The change bus: whatever changes configuration is announced, and each process hears of it once and in time."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, Permission, User
from django.db import connection, connections, transaction
from django.utils import timezone

from sessions_app import bus
from sessions_app.caller import Keys
from sessions_app.kit.database import Dedicated
from sessions_app.models import ApiKey, BusEvent, McpWorkspace
from tests.factories import UserFactory
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.usefixtures("transactional_db")

postgresql_only = pytest.mark.postgresql
"""SQLite has one writer at a time, so what these tests need cannot be made there."""


def announced(subject="keys_changed"):
    count = BusEvent.objects.filter(subject=subject).count()
    BusEvent.objects.all().delete()
    return count > 0


def sql(statement, *values):
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def test_every_kind_of_change_to_a_key_is_announced():
    key, _ = ApiKey.issue("machine")
    assert announced()
    key.rotate()
    assert announced()
    ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now())
    assert announced()
    group = Group.objects.create(name="people")
    key.groups.add(group)
    assert announced()
    key.groups.clear()
    assert announced()
    key.groups.add(group)
    BusEvent.objects.all().delete()
    group.delete()
    assert announced()
    ApiKey.objects.all().revoke("lost")
    assert announced()


def test_a_change_of_a_person_announces_that_persons_keys_alone():
    """To read all keys again stops each process for seconds where there are many."""
    ann, bob = UserFactory(), UserFactory()
    mine = {str(ApiKey.issue(name, owner=ann)[0].pk) for name in ("one", "two")}
    ApiKey.issue("bob", owner=bob)
    ApiKey.issue("machine")
    group, permission = Group.objects.create(name="people"), Permission.objects.first()

    def payloads():
        found = set(BusEvent.objects.filter(subject="keys_changed").values_list("payload", flat=True))
        BusEvent.objects.all().delete()
        return found

    payloads()
    for change in (
        lambda: ann.groups.add(group),
        lambda: ann.groups.remove(group),
        lambda: ann.user_permissions.add(permission),
        lambda: ann.user_permissions.clear(),
        lambda: User.objects.filter(pk=ann.pk).update(username="other"),
        lambda: User.objects.filter(pk=ann.pk).update(is_superuser=True),
    ):
        change()
        assert payloads() == mine
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert payloads() >= mine
    group.delete()


def test_a_change_of_a_group_or_a_workspace_concerns_keys_of_its_people_alone():
    ann, bob = UserFactory(), UserFactory()
    group, permission = Group.objects.create(name="people"), Permission.objects.first()
    ann.groups.add(group)
    own = McpWorkspace.objects.create(slug="own")
    hers = ApiKey.issue("hers", owner=ann)[0].pk
    within = ApiKey.issue("within", owner=bob, workspace=own)[0].pk
    ApiKey.issue("of the workspace", workspace=own)
    ApiKey.issue("machine")

    def named(change, most=10):
        BusEvent.objects.all().delete()
        change()
        names = BusEvent.objects.filter(subject="keys_changed").values_list("payload", flat=True)
        return Keys.named(set(names), most)

    for change in (lambda: group.permissions.add(permission), lambda: group.permissions.clear()):
        assert named(change) == {hers}
    for role in ("members", "auditors", "operators"):
        assert named(lambda role=role: getattr(own, role).add(group)) == {within}
        assert named(lambda role=role: getattr(own, role).clear()) == {within}
    assert named(lambda: McpWorkspace.objects.filter(pk=own.pk).update(title="Ours")) == set()
    assert named(lambda: group.permissions.add(permission), most=0) is None
    group.delete()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sessions_app_apikey SET revoked_at = CURRENT_TIMESTAMP",
        "UPDATE sessions_app_apikey SET scopes = '[]'",
        "UPDATE sessions_app_apikey SET calls_per_minute = 5",
        "DELETE FROM sessions_app_apikey",
    ],
)
def test_change_by_raw_sql_is_announced_too(statement):
    ApiKey.issue("machine")
    BusEvent.objects.all().delete()
    sql(statement)
    assert announced()


def test_use_of_a_key_is_no_news():
    ApiKey.issue("machine")
    BusEvent.objects.all().delete()
    ApiKey.objects.update(last_used_at=timezone.now())
    assert not announced()


def test_news_of_a_transaction_that_is_rolled_back_are_none():
    def fail():
        with transaction.atomic():
            ApiKey.issue("machine")
            bus.publish("x", "y")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not BusEvent.objects.exists()


def test_old_news_are_removed():
    bus.publish("x", "old")
    BusEvent.objects.update(created_at=timezone.now() - timedelta(seconds=bus.KEEP_SECONDS + 1))
    bus.publish("x", "new")
    assert bus.purge() == 1
    assert list(BusEvent.objects.values_list("payload", flat=True)) == ["new"]


class Hearing:
    """A follower on the running loop, and what it heard."""

    def __init__(self):
        self.follower = bus.BusFollower()
        self.heard = asyncio.Queue()
        self.follower.on(["x"], lambda event: self.heard.put_nowait(event.payload))

    async def __aenter__(self):
        await asyncio.to_thread(self.follower.start, asyncio.get_running_loop())
        return self

    async def __aexit__(self, *_):
        await asyncio.to_thread(self.follower.stop)

    async def next(self):
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.heard.get()


publish = sync_to_async(bus.publish)


def run(scenario):
    async def whole():
        try:
            await scenario()
        finally:
            await sync_to_async(connections.close_all)()

    asyncio.run(whole())


def test_follower_hears_in_order_what_is_published_after_its_start_and_nothing_older():
    async def scenario():
        await publish("x", "before")
        async with Hearing() as one, Hearing() as other:
            for word in ("a", "b", "c"):
                await publish("y", "not asked for")
                await publish("x", word)
            for hearing in (one, other):
                assert [await hearing.next() for _ in range(3)] == ["a", "b", "c"]
                assert hearing.heard.empty()
                assert hearing.follower.failing_since is None

    run(scenario)


def test_listener_that_fails_does_not_keep_the_others_from_hearing(caplog):
    async def scenario():
        async with Hearing() as hearing:
            hearing.follower._listeners["x"].insert(0, lambda event: 1 / 0)
            await publish("x", "a")
            await publish("x", "b")
            assert [await hearing.next() for _ in range(2)] == ["a", "b"]

    run(scenario)
    assert "A listener of x failed" in caplog.text


def unfinished(word):
    """Begin a transaction that publishes, and leave it open."""
    slow = Dedicated()
    slow.raw.execute("BEGIN")
    slow.raw.execute(
        "INSERT INTO sessions_app_busevent (subject, payload, created_at) VALUES ('x', %s, now())", (word,)
    )
    return slow


@postgresql_only
def test_late_commit_below_the_highest_id_is_heard_once():
    """Ids are given out before the commit: a transaction that took its id first may commit last."""

    slow = unfinished("late")

    async def scenario():
        async with Hearing() as hearing:
            await publish("x", "early")
            assert await hearing.next() == "early"
            slow.raw.execute("COMMIT")
            assert await hearing.next() == "late"
            await publish("x", "last")
            assert await hearing.next() == "last"

    run(scenario)
    slow.close()


@postgresql_only
def test_commit_that_was_under_way_when_the_follower_started_is_heard():
    slow = unfinished("under way")

    async def scenario():
        await publish("x", "older, with a higher id")
        async with Hearing() as hearing:
            slow.raw.execute("COMMIT")
            assert await hearing.next() == "under way"

    run(scenario)
    slow.close()


def test_follower_goes_on_after_its_connection_broke(caplog):
    async def scenario():
        async with Hearing() as hearing:
            await publish("x", "a")
            assert await hearing.next() == "a"
            await sync_to_async(sql)("ALTER TABLE sessions_app_busevent RENAME TO away")
            await until(lambda: hearing.follower.failing_since is not None)
            await sync_to_async(sql)("ALTER TABLE away RENAME TO sessions_app_busevent")
            await publish("x", "b")
            assert await hearing.next() == "b"
            assert hearing.follower.failing_since is None

    run(scenario)
    assert "The change bus cannot be read" in caplog.text


def test_follower_ends_by_itself_when_its_loop_is_closed():
    follower = bus.BusFollower()

    async def begin():
        await asyncio.to_thread(follower.start, asyncio.get_running_loop())

    asyncio.run(begin())
    bus.publish("x", "nobody hears")
    follower._thread.join(PATIENCE_SECONDS)
    assert follower._thread not in threading.enumerate()


def test_follower_that_never_started_stops():
    bus.BusFollower().stop()
