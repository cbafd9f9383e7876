"""Tasks of `django.tasks` as tools: the call enqueues at the project's backend and waits for its result.

Known by their shape, so that those of the package django-tasks (for Django 5.2) are taken as well.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, Protocol

from sessions_app.protocol.errors import ExecutionError
from tools_catalog.backends.context import Context
from tools_catalog.backends.threads import shared_threads
from tools_catalog.call.base import Json

_TOOL_ERROR: Final = "tools_catalog.backends.python.ToolError"
_FIRST_WAIT_SECONDS: Final = 0.1
_LONGEST_WAIT_SECONDS: Final = 5.0
_LEFT_SECONDS: Final = 1.0
"""Before the deadline of the call, for the sentence that the task goes on."""


class QueuedTask(Protocol):
    """A function with `@task` of django.tasks."""

    @property
    def func(self) -> Callable[..., Any]: ...

    @property
    def enqueue(self) -> Callable[..., Any]: ...


def is_queued(target: object) -> bool:
    """Return whether `@tool` got a task."""
    return callable(getattr(target, "func", None)) and callable(getattr(target, "enqueue", None))


def has_results(task: Any) -> bool:
    """Return whether the task's backend reports the end of a task later than in `enqueue`."""
    return bool(task.get_backend().supports_get_result)


def described(task: Any) -> Callable[..., Any]:
    """Return the function of a task, without the parameter that the task's backend fills in."""
    function = task.func
    if not task.takes_context:
        return function  # type: ignore[no-any-return]  # a task has few types

    @functools.wraps(function)
    def shown() -> None: ...

    signature = inspect.signature(function)
    shown.__signature__ = signature.replace(  # type: ignore[attr-defined]  # as inspect.signature reads it
        parameters=[*signature.parameters.values()][1:]
    )
    return shown


def calling(task: Any) -> Callable[..., Any]:
    """Return the function that a call runs."""

    async def run(hub_call: Context, **arguments: Json) -> Json:
        # In the threads of tools: an immediate backend does the work within `enqueue`.
        threads, caller = shared_threads(), hub_call.caller_principal
        result = await threads.run(lambda: task.enqueue(**arguments), caller=caller)
        wait = _FIRST_WAIT_SECONDS
        while not result.is_finished:
            if not has_results(task):
                return f"The task is enqueued as {result.id}. Its result will not be reported here."
            left = hub_call.remaining_seconds() - _LEFT_SECONDS
            if left <= 0:
                raise ExecutionError(f"The task {result.id} still runs. Do not start it again; ask the operator.")
            await asyncio.sleep(min(wait, left))
            wait = min(wait * 2, _LONGEST_WAIT_SECONDS)
            try:
                await threads.run(result.refresh, caller=caller)
            except Exception as error:
                # Gone, or its backend out of reach: the work may be done all the same.
                kind = type(error).__name__
                raise ExecutionError(
                    f"The result of the task {result.id} cannot be read ({kind}). Do not start it again; ask the "
                    "operator.",
                    exception=kind,
                ) from error
        return _value(result)

    run.__module__, run.__qualname__ = task.func.__module__, task.func.__qualname__
    return run


def _value(result: Any) -> Json:
    """Return the value of a finished task; raise its failure."""
    if result.status == "SUCCESSFUL":
        return result.return_value
    last = result.errors[-1] if result.errors else None  # none of a task that a worker gave up or that was cancelled
    path = last.exception_class_path if last is not None else str(result.status)
    if last is not None and path == _TOOL_ERROR:
        _before, found, words = last.traceback.rpartition(f"{path}: ")
        raise ExecutionError(words.strip() if found else None)
    kind = path.rpartition(".")[2]
    raise ExecutionError(
        f"The task failed with {kind}. Check the arguments; if they are right, tell the operator.", exception=kind
    )
