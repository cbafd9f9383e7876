"""Keys of which a process has not heard yet: looked for together, and only what looks like one."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from sessions_app.keys.unheard import UnheardKeys
from sessions_app.models import ApiKey


@pytest.mark.usefixtures("transactional_db")
def test_guesses_of_one_moment_cost_one_look_and_one_too_many_is_not_looked_for() -> None:
    row, key = ApiKey.issue("one")
    read_again: list[set[int]] = []
    looks: list[asyncio.Task[None]] = []

    async def look() -> list[bool]:
        async def read(ids: Collection[int]) -> None:
            read_again.append(set(ids))

        keys = UnheardKeys(read, looks.append)
        guesses = [f"mcph_{number:08x}_{'x' * 43}" for number in range(199)]
        texts = [key, *guesses, f"mcph_{999:08x}_{'x' * 43}"]
        return await asyncio.gather(*(keys.has(bytes.fromhex(ApiKey.hash(text)), text) for text in texts))

    assert asyncio.run(look()) == [True, *[False] * 200]
    assert read_again == [{row.pk}]
    assert len(looks) == 1


def test_what_does_not_look_like_a_key_is_not_looked_for() -> None:
    async def look() -> bool:
        return await UnheardKeys(_never, _never).has(b"x", "mcpa_something")

    assert asyncio.run(look()) is False


def _never(*_: object) -> None:
    raise AssertionError("It looked.")
