"""Checks of values that may take long, apart from the event loop: in a child process each, with a deadline.

A thread would not do: the validator holds the interpreter's lock until it has done. Most values are checked in place;
`Validator.may_hold` decides by the sizes of value and schema.
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

from sessions_app.kit.places import NoPlace, Places
from sessions_app.protocol import json, schemas
from sessions_app.protocol.errors import ServerBusy
from sessions_app.protocol.json import Json
from sessions_app.protocol.schemas import Explanation, Validator

CHECK_SECONDS = 5.0
_AT_ONCE = 2
_MOST = 32
_MOST_OF_CALLER = 8

DEEPEST_RESULT = 256
"""Levels of arrays and objects. Client input is limited to 64; readers of the audit must not overflow."""


class Judge:
    def __init__(self, seconds: float = CHECK_SECONDS) -> None:
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="mcphub-checks")
        self._waiting: Counter[str] = Counter()
        self._places = Places(_AT_ONCE, _MOST)

    def stop(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def wrong(self, validator: Validator, text: str, principal: str) -> Explanation | None:
        """Return the problem of the value whose JSON is `text`; None if it fits. Raises ServerBusy.

        A value whose check takes longer than the judge's `seconds` does not fit.
        """
        self._admit(principal)
        found: Explanation | None = await self._worked(principal, _checked, validator.schema, text, self._seconds)
        return found

    async def answered(self, module: str, task: bytes, seconds: float, principal: str) -> Json:
        """Return the answer of one of the hub's modules to a task, from a worker process; None if it takes too long
        or fails. Raises ServerBusy.
        """
        self._admit(principal)
        return await self._worked(principal, _answered, module, task, seconds)

    def _admit(self, principal: str) -> None:
        if self._waiting.total() >= _MOST or self._waiting[principal] >= _MOST_OF_CALLER:
            raise _busy()

    async def _worked(self, principal: str, work: Callable[..., Any], *asked: object) -> Any:
        """Do the work when it is the caller's turn: who asks for many checks waits for others in between."""
        loop = asyncio.get_running_loop()
        self._waiting[principal] += 1
        try:
            await self._places.take(principal)
        except BaseException as error:
            self._one_less(principal)
            if isinstance(error, NoPlace):
                raise _busy() from None
            raise
        try:
            future = self._threads.submit(work, *asked)
        except BaseException:
            self._end(principal)
            raise
        future.add_done_callback(lambda _: self._leave(loop, principal))
        return await asyncio.wrap_future(future)

    def _leave(self, loop: asyncio.AbstractEventLoop, principal: str) -> None:
        # In the worker's thread, or on the loop where the wait was given up before the work began.
        try:
            loop.call_soon_threadsafe(self._end, principal)
        except RuntimeError:  # the loop is closed
            self._end(principal)

    def _end(self, principal: str) -> None:
        self._one_less(principal)
        self._places.give_back(principal)

    def _one_less(self, principal: str) -> None:
        self._waiting[principal] -= 1
        if not self._waiting[principal]:
            del self._waiting[principal]


def _busy() -> ServerBusy:
    busy = ServerBusy("Too many values wait to be checked against a costly schema. Try again in a moment.")
    busy.retry_after_seconds = 1
    return busy


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
    """Return whether a result is nested too deeply; for most, `text`, its JSON, rules it out at once."""
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
