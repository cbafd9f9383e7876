"""Places for work, and whose turn it is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.kit.places import NoPlace, Places, share_of
from tests.waiting import PATIENCE_SECONDS


async def turns(times: int = 3) -> None:
    """Let what can go on go on."""
    for _ in range(times):
        await asyncio.sleep(0)


async def asking(places: Places, *callers: str) -> list[asyncio.Task[None]]:
    tasks = []
    for caller in callers:
        tasks.append(asyncio.create_task(places.take(caller)))
        await turns()
    return tasks


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_one_caller_leaves_a_quarter_of_the_places_to_others() -> None:
    async def go() -> None:
        places = Places(8, 100)
        greedy = await asking(places, *["greedy"] * 20)
        assert sum(task.done() for task in greedy) == share_of(8) == 6
        for other in ("second", "third"):
            await asyncio.wait_for(places.take(other), PATIENCE_SECONDS)
        for task in greedy:
            task.cancel()

    run(go())


def test_fewer_than_four_places_may_all_be_one_callers() -> None:
    assert [share_of(most) for most in (1, 2, 3, 4, 5, 16, 32)] == [1, 2, 3, 3, 4, 12, 24]


def test_a_free_place_goes_to_the_caller_who_holds_fewest_and_not_to_whom_came_first() -> None:
    async def go() -> None:
        places = Places(1, 100)
        await places.take("greedy")
        greedy = await asking(places, *["greedy"] * 50)
        [second, third] = await asking(places, "second", "third")
        served: list[str] = []
        holder = "greedy"
        for _ in range(5):
            places.give_back(holder)
            await turns()
            done = {"greedy": sum(task.done() for task in greedy), "second": second.done(), "third": third.done()}
            holder = next(name for name, count in done.items() if count > served.count(name))
            served.append(holder)
        assert served == ["greedy", "second", "third", "greedy", "greedy"]
        for task in greedy:
            task.cancel()

    run(go())


def test_a_newcomer_takes_the_place_in_a_full_queue_of_the_caller_who_has_most_there() -> None:
    async def go() -> None:
        places = Places(1, 4)
        await places.take("greedy")
        greedy = await asking(places, *["greedy"] * 4)
        with pytest.raises(NoPlace):
            await places.take("greedy")
        [second] = await asking(places, "second")
        assert [task.done() for task in greedy] == [False, False, False, True]
        with pytest.raises(NoPlace):
            await greedy[3]
        [again] = await asking(places, "second")
        with pytest.raises(NoPlace):
            await places.take("second")  # each has two now
        assert not second.done()
        for task in [*greedy, second, again]:
            task.cancel()

    run(go())


def test_whoever_gives_up_holds_no_place_and_no_turn() -> None:
    async def go() -> None:
        places = Places(1, 4)
        await places.take("first")
        [waits, comes] = await asking(places, "second", "third")
        waits.cancel()
        await turns()
        assert places.waiting == 1
        places.give_back("first")
        comes.cancel()  # in the moment in which it got its place
        await turns()
        await asyncio.wait_for(places.take("fourth"), PATIENCE_SECONDS)

    run(go())


@given(
    most=st.integers(1, 9),
    most_waiting=st.integers(0, 6),
    deeds=st.lists(st.tuples(st.sampled_from(["take", "give", "cancel"]), st.sampled_from("abcd"), st.integers(0, 50))),
)
def test_places_are_neither_lost_nor_made_and_none_is_idle_while_somebody_may_have_it(
    most: int, most_waiting: int, deeds: list[tuple[str, str, int]]
) -> None:
    async def go() -> None:
        places = Places(most, most_waiting)
        tasks: list[tuple[str, asyncio.Task[None]]] = []
        for deed, caller, pick in deeds:
            if deed == "take":
                tasks.append((caller, asyncio.create_task(places.take(caller))))
            elif tasks:
                who, task = tasks[pick % len(tasks)]
                if deed == "cancel" and not task.done():
                    task.cancel()
                elif deed == "give" and task.done() and task.exception() is None:
                    tasks.remove((who, task))
                    places.give_back(who)
            await turns()
            tasks = [(who, each) for who, each in tasks if not (each.done() and (each.cancelled() or each.exception()))]
            held = Counter(who for who, each in tasks if each.done())
            waiting = Counter(who for who, each in tasks if not each.done())
            assert held.total() <= most
            assert waiting.total() == places.waiting <= most_waiting
            assert all(count <= share_of(most) for count in held.values())
            if held.total() < most:
                assert all(held[who] == share_of(most) for who in waiting)
        for _, task in tasks:
            task.cancel()

    run(go())
