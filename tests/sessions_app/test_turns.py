"""Turns of requests: behind how many of a flood's requests another caller waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

import pytest

from sessions_app.kit.places import NoPlace, RequestTurn, Turns

MOST, FEW, ALONE_AFTER = 16, 4, 512


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def waiting(turns: Turns, caller: str, times: int = 1) -> list[asyncio.Task[RequestTurn]]:
    """Ask for turns that are not there at once."""
    tasks = []
    for _ in range(times):
        assert turns.begin_at_once(caller) is None
        tasks.append(asyncio.create_task(turns.begin(caller)))
        await asyncio.sleep(0)
    return tasks


def held(turns: Turns, caller: str, times: int) -> list[RequestTurn]:
    """Begin so many turns, of which there are enough."""
    found = [turns.begin_at_once(caller) for _ in range(times)]
    return [turn for turn in found if turn is not None]


class QueueBehind:
    """What is behind the turns: one queue, first come first served, such as the event loop and the ledger have."""

    def __init__(self) -> None:
        self.turns = Turns(MOST, FEW)
        self.served: list[str] = []
        self._queue: deque[tuple[str, RequestTurn, asyncio.Future[None]]] = deque()

    async def call(self, caller: str) -> None:
        turn = self.turns.begin_at_once(caller) or await self.turns.begin(caller)
        done = asyncio.get_running_loop().create_future()
        self._queue.append((caller, turn, done))
        await done

    async def serve(self) -> None:
        caller, turn, done = self._queue.popleft()
        self.served.append(caller)
        self.turns.end(turn)
        done.set_result(None)
        for _ in range(3):
            await asyncio.sleep(0)


@pytest.mark.parametrize("flood", [10, 100, 2000])
def test_another_caller_waits_behind_a_few_however_large_the_flood_is(flood: int) -> None:
    async def go() -> None:
        hub = QueueBehind()
        greedy = [asyncio.create_task(hub.call("greedy")) for _ in range(flood)]
        await asyncio.sleep(0)
        behind = []
        for _ in range(5):
            before = len(hub.served)
            other = asyncio.create_task(hub.call("other"))
            await asyncio.sleep(0)
            while not other.done():
                await hub.serve()
            behind.append(len(hub.served) - before - 1)
        # The first comes while the flood is alone and holds all places; from then on the flood holds few.
        assert behind[0] <= MOST
        assert max(behind[1:]) <= FEW
        for task in greedy:
            task.cancel()

    run(go())


def test_of_many_floods_each_holds_a_few() -> None:
    async def go() -> None:
        hub = QueueBehind()
        floods = [asyncio.create_task(hub.call(f"flood {number % 3}")) for number in range(900)]
        await asyncio.sleep(0)
        while len(hub.served) < 100:
            await hub.serve()
        other = asyncio.create_task(hub.call("other"))
        await asyncio.sleep(0)
        before = len(hub.served)
        while not other.done():
            await hub.serve()
        assert len(hub.served) - before - 1 <= 3 * FEW
        for task in floods:
            task.cancel()

    run(go())


def test_who_is_alone_holds_all_places_until_another_comes_and_again_after_many_requests() -> None:
    turns = Turns(MOST, FEW)
    alone = held(turns, "greedy", MOST + 5)
    assert len(alone) == MOST
    turns.end(alone.pop())
    [other] = held(turns, "other", 1)
    for turn in alone:
        turns.end(turn)
    few = held(turns, "greedy", MOST)
    assert len(few) == FEW
    turns.end(other)
    for turn in few:
        turns.end(turn)
    for _ in range(ALONE_AFTER):
        for turn in held(turns, "greedy", 1):
            turns.end(turn)
    assert len(held(turns, "greedy", MOST + 5)) == MOST


def test_a_request_that_waits_elsewhere_keeps_its_place_until_somebody_wants_it() -> None:
    async def go() -> None:
        turns = Turns(2, 1)
        first, second = held(turns, "greedy", 2)
        first.is_away = True
        assert first.is_held
        [third] = await waiting(turns, "greedy")
        assert not first.is_held
        turns.end(first)  # it has its answer: its place is another's
        assert (await third).is_held
        [fourth] = await waiting(turns, "greedy")
        second.is_away = True  # after others began to wait
        turns.look()
        assert not second.is_held
        assert (await fourth).is_held

    run(go())


def test_a_request_that_holds_its_place_for_long_gives_it_to_those_that_wait() -> None:
    async def go() -> None:
        turns = Turns(1, 1)
        [stuck] = held(turns, "greedy", 1)
        [comes] = await waiting(turns, "other")
        for _ in range(9):
            turns.look()
            assert stuck.is_held
        turns.look()
        assert not stuck.is_held
        assert (await comes).caller == "other"

    run(go())


def test_beyond_those_that_may_wait_the_flood_is_refused() -> None:
    async def go() -> None:
        turns = Turns(1, 1, most_waiting=2)
        held(turns, "greedy", 1)
        greedy = await waiting(turns, "greedy", 2)
        with pytest.raises(NoPlace):
            await turns.begin("greedy")
        [other] = await waiting(turns, "other")
        with pytest.raises(NoPlace):
            await greedy[1]
        for task in [greedy[0], other]:
            task.cancel()

    run(go())
