"""Checks in a process of their own."""

from __future__ import annotations

import asyncio
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from invocations.call.judging import Judge
from sessions_app.protocol import json, schemas
from sessions_app.protocol.errors import ServerBusy
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.program

ENDLESS = schemas.compile({"properties": {"a": {"pattern": "(?=.*x)(a+)+$"}}})
ENDLESS_TEXT = json.canonical({"a": "a" * 4_000_000})


@pytest.fixture
def judge() -> Iterator[Judge]:
    judge = Judge(seconds=PATIENCE_SECONDS)
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
            await asyncio.wait({checking}, timeout=0.001)
            turns += 1
        wrong = checking.result()
        judge.stop()
        assert wrong is not None
        assert "cannot be checked against the schema within 1 s" in wrong.sentence
        assert turns > 10

    asyncio.run(scene())


class Held:
    """Checks of one caller, each of which ends when it is let go."""

    def __init__(self, judge: Judge, folder: Path) -> None:
        self._judge, self._folder = judge, folder
        self._locked: list[IO[bytes]] = []
        self.checks: list[asyncio.Task[object]] = []

    async def __aenter__(self) -> Held:
        for number in range(8):
            path = self._folder / str(number)
            self._locked.append(path.open("wb"))
            fcntl.flock(self._locked[-1], fcntl.LOCK_EX)
            asked = self._judge.answered("tests.invocations.gate", str(path).encode(), PATIENCE_SECONDS, "key:1")
            self.checks.append(asyncio.create_task(asked))
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        while self._locked:
            self.let_go()
        await asyncio.gather(*self.checks)

    def let_go(self) -> None:
        """Let the first of those that are held end."""
        self._locked.pop(0).close()


def test_one_caller_takes_a_quarter_of_the_places(judge: Judge, tmp_path: Path) -> None:
    async def scene() -> None:
        async with Held(judge, tmp_path) as held:
            with pytest.raises(ServerBusy):
                await judge.wrong(schemas.compile({}), "1", "key:1")
            held.let_go()
            assert await judge.wrong(schemas.compile({}), "1", "key:2") is None

    asyncio.run(scene())


def test_callers_take_turns_however_many_checks_one_asks_for(judge: Judge, tmp_path: Path) -> None:
    async def scene() -> None:
        async with Held(judge, tmp_path) as held:
            held.let_go()
            assert await judge.wrong(schemas.compile({}), "1", "key:2") is None
            assert [check.done() for check in held.checks] == [True] + [False] * 7

    asyncio.run(scene())
