"""Calls that wait at the upstream while their client, who has no session, fetches an answer and returns with it.

An upstream with sessions asks in the midst of a call. A client without a session is answered `input_required`, and so
has left; a repeated call would repeat its earlier effects. So it stays as it is, under a name that the client brings
back within its sealed `requestState`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NoReturn

from sessions_app.protocol import errors
from tools_catalog.call.base import Json
from tools_catalog.call.context import ToolContext, ToolContextParts
from tools_catalog.call.input_requests import InputRequest, Url

MOST_SUSPENDED: Final = 1000
GONE: Final = (
    "The call that asked is no longer there, and is not made again: what it did stays. Look before you call once more."
)


def keeper(name: str) -> str:
    """Return the process that keeps the call of this name."""
    return name.partition(".")[0]


class SuspendedCall:
    """One call. Over there it is notifier and input of the whole call; here whoever comes back is its client."""

    def __init__(
        self, context: ToolContext, run: Callable[[ToolContext], Awaitable[dict[str, Json]]], process_id: str
    ) -> None:
        self.id = f"{process_id}.{secrets.token_urlsafe(16)}"
        self._first = context
        self._now: ToolContext | None = None
        self._used: set[str] = set()
        self._one_at_a_time = asyncio.Lock()
        self._questions: Mapping[str, InputRequest] = {}
        self._answers: asyncio.Future[dict[str, Any]] | None = None
        self._asks = asyncio.Event()
        parts = ToolContextParts(
            call=context.call,
            deadline=context.deadline,
            notifier=self,
            input=self,
            suspension=context.suspension,
            task=context.task,
        )
        self._task = asyncio.ensure_future(run(parts))
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def go_on(self, context: ToolContext) -> dict[str, Json]:
        """Return the end of the call. Cancelled because its client must answer first, it stays; else it ends."""
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
                    given = await context.input.ask(questions)
                except errors.HubError as error:
                    self._settle(answers, error)
                else:
                    self._settle(answers, given)
        except asyncio.CancelledError:
            if not context.suspension.is_suspended:
                await self.end()
            raise
        finally:
            self._now = None

    async def end(self) -> None:
        """Cancel the call: the upstream is asked to stop."""
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

    # As input of the call over there --------------------------------------------------------------------

    def can_ask(self, request: InputRequest) -> bool:
        return self._first.input.can_ask(request)

    async def require(self, addresses: Mapping[str, Url]) -> NoReturn:
        await self._first.input.require(addresses)
        raise AssertionError("this raises")

    def elicitation_id(self, name: str = "") -> str:
        return self._first.input.elicitation_id(name)

    @property
    def elicitation_seed(self) -> tuple[str, str]:
        return self._first.input.elicitation_seed

    async def ask(self, questions: Mapping[str, InputRequest]) -> dict[str, Any]:
        if self._used & questions.keys():
            raise ValueError("A key names one question of a call.")
        self._used |= questions.keys()
        async with self._one_at_a_time:
            self._questions = questions
            self._answers = asyncio.get_running_loop().create_future()
            self._asks.set()
            return await self._answers

    # As notifier of the call over there -----------------------------------------------------------------

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        if self._now is not None:
            await self._now.notifier.progress(progress, total, message)

    async def log(self, level: str, data: Json, logger: str | None = None) -> None:
        if self._now is not None:
            await self._now.notifier.log(level, data, logger)

    async def elicitation_complete(self, elicitation_id: str) -> None:
        if self._now is not None:
            await self._now.notifier.elicitation_complete(elicitation_id)

    async def close_stream(self) -> None:
        """The connection is that of whoever comes back."""


class SuspendedCalls:
    """The suspended calls of one connection."""

    def __init__(self, seconds: float, process_id: str = "") -> None:
        self._seconds = seconds
        self._process_id = process_id
        self._calls: dict[str, SuspendedCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    async def call(
        self, context: ToolContext, run: Callable[[ToolContext], Awaitable[dict[str, Json]]]
    ) -> dict[str, Json]:
        """Make a call that may ask, or go on with the one that its client comes back to. Raises AskFailed where that
        one is gone: it is not made again."""
        token = context.suspension.resume_token
        if token:
            suspended = self._calls.pop(token, None)
            if suspended is None:
                raise errors.AskFailed(GONE)
        else:
            suspended = SuspendedCall(context, run, self._process_id)
            if not context.suspension.resume_with(suspended.id):
                raise AssertionError("only calls of clients without sessions are suspended")
        try:
            return await suspended.go_on(context)
        except asyncio.CancelledError:
            if not suspended.is_done and context.suspension.is_suspended:
                context.suspension.resume_with(suspended.id)
                await self._keep(suspended)
            raise

    async def end(self) -> None:
        suspended, self._calls = list(self._calls.values()), {}
        await asyncio.gather(*(each.end() for each in suspended))

    async def _keep(self, suspended: SuspendedCall) -> None:
        self._calls[suspended.id] = suspended
        if len(self._calls) > MOST_SUSPENDED:
            await self._calls.pop(next(iter(self._calls))).end()
        asyncio.get_running_loop().call_later(self._seconds, self._expire, suspended.id)

    def _expire(self, token: str) -> None:
        suspended = self._calls.pop(token, None)
        if suspended is not None:
            suspended._task.cancel()
