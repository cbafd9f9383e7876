"""Accounts in memory, while many calls need them and others change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.models import BusEvent
from tests.factories import McpConnectionFactory
from tools_catalog.accounts.resolving import Accounts, Key
from tools_catalog.models import UpstreamAccount

pytestmark = pytest.mark.usefixtures("transactional_db")
STRANGER: Key = ("connection", 10**6, "user:9")


@pytest.fixture
def row() -> UpstreamAccount:
    made = UpstreamAccount(connection=McpConnectionFactory(slug="git"), principal="user:7", state="connected")
    made.access = made.sealed("access", "first")
    made.save()
    return made


@pytest.fixture
def key(row: UpstreamAccount) -> Key:
    return "connection", row.connection_id, "user:7"  # type: ignore[return-value]  # the fixture has a connection


def looks(work: Callable[[], Awaitable[object]]) -> int:
    """Return how often accounts were read."""
    with CaptureQueriesContext(connection) as queries:
        async_to_sync(work)()
    return sum("tools_catalog_upstreamaccount" in query["sql"] for query in queries)


async def begun(accounts: Accounts, key: Key) -> None:
    """Return once the database is asked, and has not answered."""
    for _ in range(2):  # the caller's task, then the one that looks
        await asyncio.sleep(0)
    assert accounts._reading[key].has_begun


async def read(accounts: Accounts, key: Key, *forgotten: str) -> bool:
    """Read an account; others change while it is read. Return whether it is kept."""
    reading = asyncio.create_task(accounts.stored(key))
    await begun(accounts, key)
    for number in forgotten:
        accounts.forget(number)
    await reading
    return key in accounts._known


def test_a_thousand_calls_that_need_an_account_are_one_look(key: Key) -> None:
    accounts = Accounts()

    async def all_at_once() -> None:
        found = await asyncio.gather(*(accounts.stored(key) for _ in range(1000)))
        assert {stored.access for stored in found if stored} == {"first"}

    assert looks(all_at_once) == 1


def test_a_thousand_calls_of_somebody_without_an_account_are_two_looks(key: Key) -> None:
    accounts = Accounts()

    async def all_at_once() -> None:
        looking = [asyncio.create_task(accounts.stored(STRANGER)) for _ in range(500)]
        await asyncio.sleep(0)
        looking += [asyncio.create_task(accounts.stored(STRANGER, again=True)) for _ in range(500)]
        await asyncio.gather(*looking)

    assert looks(all_at_once) <= 2


def test_a_look_anew_does_not_join_one_that_has_begun(row: UpstreamAccount, key: Key) -> None:
    accounts = Accounts()

    async def connected_meanwhile() -> str:
        first = asyncio.create_task(accounts.stored(key))
        await begun(accounts, key)
        await sync_to_async(UpstreamAccount.objects.filter(pk=row.pk).update)(access=row.sealed("access", "second"))
        found = await accounts.stored(key, again=True)
        await first
        assert found is not None
        return found.access

    assert async_to_sync(connected_meanwhile)() == "second"


def test_only_a_change_of_its_own_makes_a_look_stale(row: UpstreamAccount, key: Key) -> None:
    assert async_to_sync(read)(Accounts(), key, str(row.pk + 1))
    assert not async_to_sync(read)(Accounts(), key, str(row.pk))
    assert not async_to_sync(read)(Accounts(), key, "")
    assert not async_to_sync(read)(Accounts(), STRANGER, str(row.pk))  # it may be the stranger's


def test_a_change_of_one_account_leaves_the_others_known(row: UpstreamAccount, key: Key) -> None:
    accounts = Accounts()
    assert async_to_sync(read)(accounts, key)
    assert async_to_sync(read)(accounts, STRANGER)
    accounts.forget(str(row.pk + 1))
    assert list(accounts._known) == [key]
    accounts.forget(str(row.pk))
    assert not accounts._known


def test_a_call_that_ends_does_not_end_the_look_of_the_others(key: Key) -> None:
    accounts = Accounts()

    async def first_leaves() -> Any:
        first, second = (asyncio.create_task(accounts.stored(key)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert async_to_sync(first_leaves)().access == "first"


def test_the_change_of_an_account_is_announced_with_its_number(row: UpstreamAccount) -> None:
    BusEvent.objects.all().delete()
    UpstreamAccount.objects.filter(pk=row.pk).update(generation=7)
    assert list(BusEvent.objects.filter(subject="accounts_changed").values_list("payload", flat=True)) == [str(row.pk)]
