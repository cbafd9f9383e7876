"""Calls that wait over there while their client, who has no session, goes for an answer and comes back with it.

An upstream with sessions asks in the midst of a call. Whoever calls it without one is answered `input_required`, and so
has left; made again, the call would do twice what it did before it asked. So it stays as it is, under a name that the
client brings back within its sealed `requestState`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

from sessions_app.protocol import errors
from tools_catalog.backends.base import Json, ToolContext
from tools_catalog.backends.questions import Question

MOST_PARKED: Final = 1000
GONE: Final = (
    "The call that asked is no longer there, and is not made again: what it did stays. Look before you call once more."
)


def keeper(name: str) -> str:
    """Give the process that keeps the call of this name."""
    return name.partition(".")[0]


class Parked:
    """One call. Over there it is the context of the whole call; here whoever comes back is its client."""

    def __init__(
        self, context: ToolContext, run: Callable[[ToolContext], Awaitable[dict[str, Json]]], process_id: str
    ) -> None:
        self.id = f"{process_id}.{secrets.token_urlsafe(16)}"
        self._first = context
        self._now: ToolContext | None = None
        self._used: set[str] = set()
        self._one_at_a_time = asyncio.Lock()
        self._questions: Mapping[str, Question] = {}
        self._answers: asyncio.Future[dict[str, Any]] | None = None
        self._asks = asyncio.Event()
        self._task = asyncio.ensure_future(run(cast(ToolContext, self)))
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def go_on(self, context: ToolContext) -> dict[str, Json]:
        """Give what the call ends with. Cancelled because its client must answer first, it stays; else it ends."""
        self._now = context
        try:
            while True:
                asks = asyncio.ensure_future(self._asks.wait())
                try:
                    await asyncio.wait({self._task, asks}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    asks.cancel()
                if self._task.done():
                    return self._task.result()
                questions, answers = self._questions, self._answers
                assert answers is not None
                try:
                    given = await context.ask(questions)
                except errors.HubError as error:
                    self._settle(answers, error)
                else:
                    self._settle(answers, given)
        except asyncio.CancelledError:
            if not context.is_suspended:
                await self.end()
            raise
        finally:
            self._now = None

    async def end(self) -> None:
        """Give the call up: the upstream is told to stop."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def is_done(self) -> bool:
        return self._task.done()

    def _settle(self, answers: asyncio.Future[dict[str, Any]], outcome: dict[str, Any] | Exception) -> None:
        self._asks.clear()
        if answers.done():
            return
        if isinstance(outcome, Exception):
            answers.set_exception(outcome)
        else:
            answers.set_result(outcome)

    # As the context of the call over there --------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        return getattr(self._first, name)  # who calls, and what for, does not change

    async def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        if self._used & questions.keys():
            raise ValueError("A key names one question of a call.")
        self._used |= questions.keys()
        async with self._one_at_a_time:
            self._questions = questions
            self._answers = asyncio.get_running_loop().create_future()
            self._asks.set()
            return await self._answers

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        if self._now is not None:
            await self._now.progress(progress, total, message)

    async def log(self, level: str, data: Json, logger: str | None = None) -> None:
        if self._now is not None:
            await self._now.log(level, data, logger)


class Lot:
    """The parked calls of one connection."""

    def __init__(self, seconds: float, process_id: str = "") -> None:
        self._seconds = seconds
        self._process_id = process_id
        self._parked: dict[str, Parked] = {}

    def __len__(self) -> int:
        return len(self._parked)

    async def call(
        self, context: ToolContext, run: Callable[[ToolContext], Awaitable[dict[str, Json]]]
    ) -> dict[str, Json]:
        """Make a call that may ask, or go on with the one that its client comes back to. Raises AskFailed where that
        one is gone: it is not made again."""
        token = context.parked
        if token:
            parked = self._parked.pop(token, None)
            if parked is None:
                raise errors.AskFailed(GONE)
        else:
            parked = Parked(context, run, self._process_id)
            if not context.park(parked.id):
                raise AssertionError("only calls of clients without sessions are parked")
        try:
            return await parked.go_on(context)
        except asyncio.CancelledError:
            if not parked.is_done and context.is_suspended:
                context.park(parked.id)
                await self._keep(parked)
            raise

    async def end(self) -> None:
        parked, self._parked = list(self._parked.values()), {}
        await asyncio.gather(*(each.end() for each in parked))

    async def _keep(self, parked: Parked) -> None:
        self._parked[parked.id] = parked
        if len(self._parked) > MOST_PARKED:
            await self._parked.pop(next(iter(self._parked))).end()
        asyncio.get_running_loop().call_later(self._seconds, self._expire, parked.id)

    def _expire(self, token: str) -> None:
        parked = self._parked.pop(token, None)
        if parked is not None:
            parked._task.cancel()
