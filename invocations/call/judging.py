"""Checks of values that may take long, apart from the event loop: in a child process each, with a deadline.

A thread would not do: the validator holds the interpreter's lock until it has done. Most values are checked where
they are, as `Validator.may_hold` says from the sizes of value and schema.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sessions_app.protocol import json, schemas
from sessions_app.protocol.errors import ServerBusy
from sessions_app.protocol.json import Json
from sessions_app.protocol.schemas import Explanation, Validator

CHECK_SECONDS = 5.0
_AT_ONCE = 2
_MOST = 32
_MOST_OF_CALLER = 8

DEEPEST_RESULT = 256
"""Levels of arrays and objects. What clients send is bound to 64; readers of the audit must not overflow."""


class Judge:
    def __init__(self, seconds: float = CHECK_SECONDS) -> None:
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="mcphub-checks")
        self._waiting: Counter[str] = Counter()

    def stop(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def wrong(self, validator: Validator, text: str, principal: str) -> Explanation | None:
        """Say what is wrong with the value whose JSON is `text`; None where it fits. Raises ServerBusy.

        A value whose check takes longer than the `seconds` of the judge does not fit.
        """
        self._admit(principal)
        found: Explanation | None = await self._worked(principal, _checked, validator.schema, text, self._seconds)
        return found

    async def answered(self, module: str, task: bytes, seconds: float, principal: str) -> Json:
        """Give what a module of the hub answers to a task, in a process of its own; None where it takes longer, or
        fails. Raises ServerBusy."""
        self._admit(principal)
        return await self._worked(principal, _answered, module, task, seconds)

    def _admit(self, principal: str) -> None:
        if self._waiting.total() >= _MOST or self._waiting[principal] >= _MOST_OF_CALLER:
            busy = ServerBusy("Too many values wait to be checked against a costly schema. Try again in a moment.")
            busy.retry_after_seconds = 1
            raise busy

    async def _worked(self, principal: str, work: Callable[..., Any], *asked: object) -> Any:
        loop = asyncio.get_running_loop()
        self._waiting[principal] += 1
        future = self._threads.submit(work, *asked)
        future.add_done_callback(lambda _: self._leave(loop, principal))
        return await asyncio.wrap_future(future)

    def _leave(self, loop: asyncio.AbstractEventLoop, principal: str) -> None:
        # In the worker's thread, or on the loop where the wait was given up before the work began.
        try:
            loop.call_soon_threadsafe(self._one_less, principal)
        except RuntimeError:  # the loop is closed
            self._one_less(principal)

    def _one_less(self, principal: str) -> None:
        self._waiting[principal] -= 1
        if not self._waiting[principal]:
            del self._waiting[principal]


def _checked(schema: dict[str, json.Json], text: str, seconds: float) -> Explanation | None:
    task = b'{"schema":%b,"value":%b}' % (json.dumps(schema), text.encode())
    try:
        done = _run(f"{schemas.__package__}.apart", task, seconds)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        words = f"cannot be checked against the schema within {seconds:g} s; send fewer or smaller values"
        return Explanation(f"the value {words}.", [{"path": "", "message": words}])
    found = json.loads_stored(done.decode())
    return None if found is None else Explanation(found["sentence"], found["violations"])


def _answered(module: str, task: bytes, seconds: float) -> Json:
    try:
        return json.loads_stored(_run(module, task, seconds).decode())
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None


def _run(module: str, task: bytes, seconds: float) -> bytes:
    done = subprocess.run(  # noqa: S603 - fixed words; what is foreign goes in by the pipe
        [sys.executable, "-m", module],
        input=task,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=seconds,
        # Nothing of the hub's own environment, which may hold keys.
        env={"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
        check=True,
    )
    return done.stdout


def is_deep(value: Json, text: str) -> bool:
    """Whether a result is nested too deeply; `text`, its JSON, tells at once for most that they are not."""
    if text.count("[") + text.count("{") <= DEEPEST_RESULT:
        return False
    level = [value]
    for _ in range(DEEPEST_RESULT + 1):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list | tuple)
        ]
        if not level:
            return False
    return True
