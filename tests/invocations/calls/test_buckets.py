"""Token buckets: exact between processes, never filled by a clock that goes back."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from invocations.ledger import limits
from invocations.ledger.limits import Quota, draw
from sessions_app.models import RateLimitBucket
from tests.invocations.calls.call_path import CallPath, run

pytestmark = pytest.mark.usefixtures("transactional_db")

QUOTA = Quota("chat", 10, 1 / 3600)
"""Fills so slowly that a test on a loaded machine sees nothing of it."""


def edit(**columns):
    return sync_to_async(RateLimitBucket.objects.update)(**columns)


def row():
    return sync_to_async(RateLimitBucket.objects.get)()


def test_many_drawing_at_once_from_two_processes_get_exactly_what_is_there():
    async def scenario():
        async with CallPath() as one, CallPath() as other:
            drawn = await asyncio.gather(
                *(draw(call_path.ledger, "key:1", QUOTA) for _ in range(15) for call_path in (one, other))
            )
        assert sorted(answer.remaining for answer in drawn if not answer.wait_seconds) == list(range(10))
        assert {answer.remaining for answer in drawn if answer.wait_seconds} == {0}
        found = await row()
        assert (found.client_id, found.request_count, int(found.tokens)) == ("key:1 chat", 30, 0)

    run(scenario)


def test_a_bucket_says_when_it_was_drawn_from_last():
    async def scenario():
        async with CallPath() as call_path:
            await draw(call_path.ledger, "key:1", QUOTA)
            first = await row()
            await draw(call_path.ledger, "key:1", QUOTA)
            second = await row()
        assert first.last_request < second.last_request
        assert (first.request_count, second.request_count) == (1, 2)

    run(scenario)


def test_what_is_refused_draws_nothing():
    async def scenario():
        async with CallPath() as call_path:
            await draw(call_path.ledger, "key:1", QUOTA)
            await edit(tokens=0.5)
            first = await draw(call_path.ledger, "key:1", QUOTA)
            assert first.wait_seconds == pytest.approx(1800, rel=0.1)
            assert (await row()).tokens == pytest.approx(0.5, abs=0.1)

    run(scenario)


def test_time_fills_the_bucket_to_the_brim_and_no_further():
    async def scenario():
        async with CallPath() as call_path:
            await draw(call_path.ledger, "key:1", QUOTA)
            await edit(tokens=0, last_refill=timezone.now() - timedelta(hours=2))
            assert (await draw(call_path.ledger, "key:1", QUOTA)).remaining == 1
            await edit(last_refill=timezone.now() - timedelta(days=2))
            assert (await draw(call_path.ledger, "key:1", QUOTA)).remaining == 9

    run(scenario)


@pytest.mark.parametrize("ahead", [timedelta(seconds=30), timedelta(hours=3)])
def test_a_clock_that_goes_back_adds_nothing(ahead):
    async def scenario():
        async with CallPath() as call_path:
            await draw(call_path.ledger, "key:1", QUOTA)
            later = timezone.now() + ahead
            await edit(tokens=0, last_refill=later)
            for _ in range(3):
                refused = await draw(call_path.ledger, "key:1", QUOTA)
                assert refused.wait_seconds >= 3000
                assert (await row()).tokens < 0.1
            # A row far ahead was written before the clock was set back: from now on it fills again.
            assert ((await row()).last_refill == later) == (ahead < timedelta(minutes=1))

    run(scenario)


def test_a_bucket_follows_its_quota():
    async def scenario():
        async with CallPath() as call_path:
            await draw(call_path.ledger, "key:1", QUOTA)
            assert (await draw(call_path.ledger, "key:1", Quota("chat", 3, 1 / 3600))).remaining == 2
            found = await row()
        assert (found.capacity, found.refill_per_second) == (3, pytest.approx(1 / 3600))

    run(scenario)


def test_buckets_that_are_full_again_are_removed():
    async def scenario():
        async with CallPath() as call_path:
            for client in ("key:1", "key:2"):
                await draw(call_path.ledger, client, QUOTA)
            await draw(call_path.ledger, "key:3", Quota("chat", 10, 1 / 86400))
        await edit(last_refill=timezone.now() - timedelta(days=2))
        await sync_to_async(RateLimitBucket.objects.filter(client_id="key:2 chat").update)(last_refill=timezone.now())
        assert await sync_to_async(limits.purge)() == 1
        left = await sync_to_async(lambda: sorted(RateLimitBucket.objects.values_list("pk", flat=True)))()
        assert left == ["key:2 chat", "key:3 chat"]

    run(scenario)
