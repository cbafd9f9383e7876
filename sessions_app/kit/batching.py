"""One transaction for rows that many tasks want at once: docs/develop/decisions.md, A5."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from channels.db import database_sync_to_async

_Request = TypeVar("_Request")
_Result = TypeVar("_Result")


class Batcher(Generic[_Request, _Result]):
    """Runs requests in batches: those that arrive during one batch make up the next.

    `run` gets a batch on the database's thread, never two at a time. It gives a result or an exception for each
    request, in order. Its exception is raised for each request of the batch.
    """

    def __init__(self, run: Callable[[Sequence[_Request]], Sequence[_Result | Exception]], name: str) -> None:
        self._run_batch = run
        self._name = name
        self._waiting: list[tuple[_Request, asyncio.Future[_Result]]] = []
        self._task: asyncio.Task[None] | None = None

    def submit(self, request: _Request) -> asyncio.Future[_Result]:
        future: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name=self._name)
        return future

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            results: Sequence[_Result | Exception]
            try:
                results = await database_sync_to_async(self._run_batch)([request for request, _ in batch])
            except Exception as error:
                results = [error] * len(batch)
            for (_, future), each in zip(batch, results, strict=True):
                if future.done():
                    continue  # the task that wanted it was cancelled
                if isinstance(each, Exception):
                    future.set_exception(each)
                else:
                    future.set_result(each)
