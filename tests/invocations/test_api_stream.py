"""A live stream of calls goes on as long as who began it may have what it shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission

from invocations.rest import live
from tests.factories import McpToolInvocationFactory
from tests.rest import by_person
from tests.waiting import PATIENCE_SECONDS

STREAM = "/api/invocations/stream/"
VIEW, BODIES = "invocations.view_mcptoolinvocation", "invocations.read_bodies"


@pytest.fixture(autouse=True)
def _often(transactional_db, monkeypatch):
    """It is asked at every look whether the reader still may, and nothing is known of other tests' rows."""
    monkeypatch.setattr(live, "_CHECK_SECONDS", -1)
    monkeypatch.setattr(live, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(live, "settling", live.SettlingCalls())
    live.begin()  # a hub of another file may have stopped in this process


def opened(client, **query: str) -> AsyncIterator[bytes]:
    answer = client.get(STREAM, query)
    assert answer.status_code == 200
    return aiter(answer)


def take_away(permission: str) -> None:
    person = get_user_model().objects.get()
    person.user_permissions.remove(Permission.objects.get(codename=permission.partition(".")[2]))


async def rest_of(parts: AsyncIterator[bytes]) -> bytes:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return b"".join([part async for part in parts])


async def told(parts: AsyncIterator[bytes], word: str) -> bool:
    """Read on until the word comes; False where the stream ends before."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for part in parts:
            if word.encode() in part:
                return True
    return False


@pytest.mark.parametrize("query", [{"fields": "invocation_id,arguments"}, {"arguments": "$.text=1"}])
def test_stream_ends_when_a_person_loses_the_right_to_bodies_that_it_shows_or_searches(query):
    parts = opened(by_person(VIEW, BODIES), **query)

    async def scenario() -> bytes:
        assert (await anext(parts)).startswith(b"retry: ")
        await sync_to_async(take_away)(BODIES)
        return await rest_of(parts)

    async_to_sync(scenario)()
    assert not live._open


def test_stream_without_bodies_goes_on_when_a_person_loses_the_right_to_them():
    parts = opened(by_person(VIEW, BODIES))

    async def scenario() -> None:
        await anext(parts)
        await sync_to_async(take_away)(BODIES)
        await sync_to_async(McpToolInvocationFactory)(invocation_id="still-told")
        assert await told(parts, "still-told")
        await sync_to_async(take_away)(VIEW)
        await rest_of(parts)

    async_to_sync(scenario)()
    assert not live._open


def test_stream_ends_when_its_person_is_no_longer_active():
    parts = opened(by_person(VIEW))

    async def scenario() -> None:
        await anext(parts)
        await sync_to_async(get_user_model().objects.update)(is_active=False)
        await rest_of(parts)

    async_to_sync(scenario)()
    assert not live._open
