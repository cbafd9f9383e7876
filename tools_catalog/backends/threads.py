"""Threads for sync tools: few, named, apart from asyncio's own, shared fairly by callers, with a bounded queue.

A thread cannot be stopped from outside. A sync tool that outlives its call keeps its thread until it returns
or next talks to its context, which then raises `Cancelled`.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any, Literal, NoReturn, TypeVar

from django.db import close_old_connections
from pydantic import BaseModel

from sessions_app.kit.places import NoPlace, Places
from sessions_app.protocol import errors
from tools_catalog.backends.context import Context
from tools_catalog.call.base import Json
from tools_catalog.call.context import ToolContext
from tools_catalog.call.input_requests import Elicited, InputRequest, Root, Sampled

Value = TypeVar("Value")

WAITING_PER_THREAD = 16
"""Calls that may wait for each thread before the next one is refused as busy."""


LONGEST_HOP_SECONDS = 60.0
"""How long a sync tool waits for the loop to take one message."""


class SyncContext:
    """The context of a sync tool: the methods of `Context` as plain calls from the tool's thread."""

    def __init__(self, context: ToolContext, loop: asyncio.AbstractEventLoop) -> None:
        self._context = Context(context)
        self._loop = loop
        self._abandoned = Event()

    @property
    def invocation_id(self) -> str:
        return self._context.invocation_id

    @property
    def tool_name(self) -> str:
        return self._context.tool_name

    @property
    def caller_label(self) -> str:
        return self._context.caller_label

    @property
    def caller_principal(self) -> str:
        return self._context.caller_principal

    @property
    def caller_scopes(self) -> frozenset[str]:
        return self._context.caller_scopes

    @property
    def client_capabilities(self) -> Mapping[str, Json]:
        return self._context.client_capabilities

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for this call any more. Long loops should look and leave."""
        return self._abandoned.is_set()

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self._in_loop(lambda: self._context.progress(progress, total, message))

    def log(self, level: str, data: Json, logger: str | None = None) -> None:
        self._in_loop(lambda: self._context.log(level, data, logger))

    def list_changed(self, kind: Literal["tools", "prompts", "resources"]) -> None:
        self._in_loop(lambda: self._context.list_changed(kind))

    def begin_task(self) -> None:
        self._in_loop(self._context.begin_task)

    def remaining_seconds(self) -> float:
        return self._context.remaining_seconds()

    def require_capability(self, name: str) -> None:
        self._context.require_capability(name)

    def can_ask(self, request: InputRequest) -> bool:
        return self._context.can_ask(request)

    def ask(self, requests: Mapping[str, InputRequest]) -> dict[str, Any]:
        return self._answered(lambda: self._context.ask(requests))

    def elicit(self, message: str, schema: Mapping[str, Json] | type[BaseModel], *, key: str | None = None) -> Elicited:
        return self._answered(lambda: self._context.elicit(message, schema, key=key))

    def elicit_url(
        self, message: str, url: str, *, key: str | None = None, elicitation_id: str | None = None
    ) -> Elicited:
        return self._answered(lambda: self._context.elicit_url(message, url, key=key, elicitation_id=elicitation_id))

    def require_url(
        self, message: str, url: str, *, key: str | None = None, elicitation_id: str | None = None
    ) -> NoReturn:
        self._answered(lambda: self._context.require_url(message, url, key=key, elicitation_id=elicitation_id))
        raise AssertionError("the call has ended")

    def elicitation_id(self, name: str = "") -> str:
        return self._context.elicitation_id(name)

    def elicitation_complete(self, elicitation_id: str) -> None:
        self._in_loop(lambda: self._context.elicitation_complete(elicitation_id))

    def sample(
        self,
        messages: str | Iterable[dict[str, Json]],
        *,
        max_tokens: int = 1000,
        key: str | None = None,
        **options: Json,
    ) -> Sampled:
        return self._answered(lambda: self._context.sample(messages, max_tokens=max_tokens, key=key, **options))

    def roots(self, *, key: str | None = None) -> list[Root]:
        return self._answered(lambda: self._context.roots(key=key))

    def close_stream(self) -> None:
        self._in_loop(self._context.close_stream)

    def abandon(self) -> None:
        """End the call for its caller; from now on the context raises `Cancelled`."""
        self._abandoned.set()

    def _answered(self, make: Callable[[], Awaitable[Value]]) -> Value:
        # People take longer than the loop, and their time is not the tool's; the end of the call ends the wait.
        return self._in_loop(make, threading.TIMEOUT_MAX)

    def _in_loop(self, make: Callable[[], Awaitable[Value]], seconds: float | None = None) -> Value:
        if self._abandoned.is_set():
            raise errors.Cancelled

        async def deed() -> Value:
            return await make()

        coroutine = deed()
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError as exc:  # the loop is closed: the process is going down
            coroutine.close()
            raise errors.Cancelled from exc
        try:
            if seconds is None:  # a call without a deadline says infinity, which no lock can wait
                seconds = min(max(0.1, self._context.remaining_seconds()), LONGEST_HOP_SECONDS)
            return future.result(timeout=seconds)
        except (FutureCancelled, TimeoutError) as exc:
            future.cancel()
            raise errors.Cancelled from exc


class ToolThreads:
    """A bounded pool. `size` threads work, `WAITING_PER_THREAD` calls each may wait; callers take turns."""

    def __init__(self, size: int, *, name: str = "tool") -> None:
        self._executor = ThreadPoolExecutor(max_workers=size, thread_name_prefix=name)
        self._places = Places(size, size * WAITING_PER_THREAD)

    async def call(
        self, function: Callable[..., object], keywords: dict[str, object], *, slot: str | None, context: ToolContext
    ) -> Any:
        """Run `function(**keywords)` in a thread, with a `SyncContext` as `slot` when it has one."""
        caller = context.call.caller_principal
        if slot is None:
            return await self.run(lambda: function(**keywords), caller=caller)
        inner = keywords[slot] = SyncContext(context, asyncio.get_running_loop())
        try:
            return await self.run(lambda: function(**keywords), caller=caller)
        finally:
            inner.abandon()

    async def run(self, work: Callable[[], Value], *, caller: str) -> Value:
        """Run `work` for `caller` in a thread, with the context variables of here.

        Raises `ServerBusy` when too many wait. SystemExit and the like come out as RuntimeError: a thread may not end
        the process.
        """
        try:
            await self._places.take(caller)
        except NoPlace:
            busy = errors.ServerBusy("Too many calls wait for a thread. Wait and try again.")
            busy.retry_after_seconds = 1
            raise busy from None
        variables = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        try:
            future = self._executor.submit(variables.run, _contained, work)
        except BaseException:
            self._places.give_back(caller)
            raise
        future.add_done_callback(lambda _: self._leave(loop, caller))
        outcome, failure = await asyncio.wrap_future(future)
        if failure is not None:
            raise failure
        value: Value = outcome
        return value

    def close(self) -> None:
        """Accept no more work and drop waiting calls; running ones end by themselves."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _leave(self, loop: asyncio.AbstractEventLoop, caller: str) -> None:
        # In the worker's thread, after the work, even where nobody waited for it to end.
        try:
            loop.call_soon_threadsafe(self._places.give_back, caller)
        except RuntimeError:  # the loop is closed, and nobody waits on it any more
            self._places.give_back(caller)


def shared_threads() -> ToolThreads:
    """Return the process's own pool, made at first use with `tool_threads` threads."""
    global _shared
    if _shared is None:
        from django.conf import settings

        _shared = ToolThreads(settings.MCPHUB_TOOL_THREADS)
    return _shared


@contextmanager
def replaced_by(threads: ToolThreads) -> Iterator[None]:
    """Let these be the process's own pool: for tests, whose rows are on a connection of one thread."""
    global _shared
    before, _shared = _shared, threads
    try:
        yield
    finally:
        _shared = before


_shared: ToolThreads | None = None


def _contained(work: Callable[[], Value]) -> tuple[Any, BaseException | None]:
    """Return what the work returned or raised, with the database's connections as around a request of Django.

    A connection that a thread kept would be one that other threads and requests lack: the pool has fewer than threads.
    """
    try:
        close_old_connections()
        return work(), None
    # A StopIteration cannot travel through a future, and an exit would end the loop that waits for it.
    except Exception as exc:
        return None, exc
    except BaseException as exc:
        contained = RuntimeError(f"{type(exc).__name__} in a tool's thread")
        contained.__cause__ = exc
        return None, contained
    finally:
        close_old_connections()
