"""Checks in a process of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from invocations.call.judging import Judge
from sessions_app.protocol import json, schemas
from sessions_app.protocol.errors import ServerBusy

pytestmark = pytest.mark.program

ENDLESS = schemas.compile({"properties": {"a": {"pattern": "(?=.*x)(a+)+$"}}})
ENDLESS_TEXT = json.canonical({"a": "a" * 4_000_000})


@pytest.fixture
def judge() -> Iterator[Judge]:
    judge = Judge(seconds=30)
    yield judge
    judge.stop()


def test_a_value_is_judged_as_it_would_be_here(judge: Judge) -> None:
    async def scene() -> None:
        validator = schemas.compile(
            {"type": "object", "properties": {"a": {"multipleOf": 0.01}, "b": {"type": "string"}}}
        )
        assert await judge.wrong(validator, '{"a":9.25,"b":"\\ud800"}', "key:1") is None
        assert await judge.wrong(validator, '{"a":0.001}', "key:1") == validator.explain({"a": 0.001})

    asyncio.run(scene())


def test_a_check_that_does_not_end_is_killed_and_the_loop_goes_on_meanwhile() -> None:
    async def scene() -> None:
        judge = Judge(seconds=1)
        checking = asyncio.create_task(judge.wrong(ENDLESS, ENDLESS_TEXT, "key:1"))
        turns = 0
        while not checking.done():
            await asyncio.wait({checking}, timeout=0.01)
            turns += 1
        wrong = checking.result()
        judge.stop()
        assert wrong is not None
        assert "cannot be checked against the schema within 1 s" in wrong.sentence
        assert turns > 10

    asyncio.run(scene())


def test_one_caller_takes_a_quarter_of_the_places() -> None:
    async def scene() -> None:
        judge = Judge(seconds=1)
        waiting = [asyncio.create_task(judge.wrong(ENDLESS, ENDLESS_TEXT, "key:1")) for _ in range(9)]
        outcomes = [await asyncio.gather(task, return_exceptions=True) for task in waiting[8:]]
        assert isinstance(outcomes[0][0], ServerBusy)
        assert await judge.wrong(schemas.compile({}), "1", "key:2") is None
        judge.stop()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(scene())


def test_callers_take_turns_however_many_checks_one_asks_for() -> None:
    async def scene() -> None:
        judge = Judge(seconds=1)
        greedy = [asyncio.create_task(judge.wrong(ENDLESS, ENDLESS_TEXT, "key:1")) for _ in range(8)]
        await asyncio.sleep(0)
        assert await judge.wrong(schemas.compile({}), "1", "key:2") is None
        assert sum(task.done() for task in greedy) < 5
        judge.stop()
        for task in greedy:
            task.cancel()
        await asyncio.gather(*greedy, return_exceptions=True)

    asyncio.run(scene())
