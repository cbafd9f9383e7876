"""Many who want a row each, one transaction for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from channels.db import database_sync_to_async

_Asked = TypeVar("_Asked")
_Found = TypeVar("_Found")


class Gathering(Generic[_Asked, _Found]):
    """What is asked while one batch is answered makes up the next.

    `answer` runs on the database's thread, never twice at a time; for each that was asked it gives what was found or
    the exception that its asker is to get. What it raises itself, all of them get.
    """

    def __init__(self, answer: Callable[[Sequence[_Asked]], Sequence[_Found | Exception]], name: str) -> None:
        self._answer = answer
        self._name = name
        self._waiting: list[tuple[_Asked, asyncio.Future[_Found]]] = []
        self._task: asyncio.Task[None] | None = None

    def ask(self, asked: _Asked) -> asyncio.Future[_Found]:
        future: asyncio.Future[_Found] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=self._name)
        return future

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            found: Sequence[_Found | Exception]
            try:
                found = await database_sync_to_async(self._answer)([asked for asked, _ in batch])
            except Exception as error:
                found = [error] * len(batch)
            for (_, future), each in zip(batch, found, strict=True):
                if future.done():
                    continue  # whoever asked has gone
                if isinstance(each, Exception):
                    future.set_exception(each)
                else:
                    future.set_result(each)
