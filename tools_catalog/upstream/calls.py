"""Which call a word of the upstream belongs to. Asks no SDK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tools_catalog.backends.base import ToolContext

_current: ContextVar[ToolContext | None] = ContextVar("mcphub_upstream_call", default=None)
"""Set in the caller's task. Over Streamable HTTP the SDK reads the answer to a POST in that context, so what
arrives on it belongs to this call; a single stream for all calls has no such context."""


class SessionLost(Exception):
    """The session ended before the request was taken: nothing ran."""


class Calls:
    """The calls under way in one session."""

    def __init__(self) -> None:
        self._contexts: list[ToolContext] = []
        self._tasks: dict[str, ToolContext] = {}
        """Id of a task that is followed -> the call that it is of."""

    def __len__(self) -> int:
        return len(self._contexts)

    def __contains__(self, context: object) -> bool:
        return any(each is context for each in (*self._contexts, *self._tasks.values()))

    @contextmanager
    def under_way(self, context: ToolContext) -> Iterator[None]:
        self._contexts.append(context)
        token = _current.set(context)
        try:
            yield
        finally:
            _current.reset(token)
            self._contexts.remove(context)

    @contextmanager
    def following(self, task_id: str, context: ToolContext) -> Iterator[None]:
        """The same for a call that has become a task. It is none of those that a message without a name may be about:
        what is about a task names it."""
        self._tasks[task_id] = context
        try:
            yield
        finally:
            del self._tasks[task_id]

    @contextmanager
    def asking_about(self, context: ToolContext) -> Iterator[None]:
        """What arrives with the answer to this request, which is about the task of a call, belongs to that call."""
        token = _current.set(context)
        try:
            yield
        finally:
            _current.reset(token)

    def who_is_meant(self, task_id: str = "") -> ToolContext | None:
        """Give the call that a message of the upstream is about; None where it could be another's.

        `task_id` is the task that the message names.
        """
        if task_id in self._tasks:
            return self._tasks[task_id]
        context = _current.get()
        if context is not None:
            return context if context in self else None
        return self._contexts[0] if len(self._contexts) == 1 else None
