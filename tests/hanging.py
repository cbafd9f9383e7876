"""Ends the process of a test that hangs, and prints where it hangs; xdist fails that test by name and goes on."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import threading
import types
from collections.abc import Generator, Iterator
from typing import Any, TextIO

import pytest

LIMIT_SECONDS = 900
"""More than any test needs on a busy machine, and little enough that a run of CI ends within its time."""

RIG_LIMIT_SECONDS = 3600


class Watch:
    """A plugin: a test that takes longer than its limit ends its process, since nothing else is sure to end it."""

    def __init__(self) -> None:
        self._stderr = os.fdopen(os.dup(2), "w")  # not captured, while pytest is configured

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        limit = RIG_LIMIT_SECONDS if item.get_closest_marker("rig") else LIMIT_SECONDS
        timer = threading.Timer(limit, self._end, (f"\n{item.nodeid} hangs: it takes more than {limit} s",))
        timer.daemon = True
        timer.start()
        try:
            return (yield)
        finally:
            timer.cancel()

    def _end(self, found: str) -> None:
        print(found, file=self._stderr)
        show_stacks(self._stderr)
        os._exit(1)


def show_stacks(stream: TextIO) -> None:
    """Print what each thread runs, and what each task of each event loop waits for."""
    for task in tasks():
        print(f"\nTask {task.get_name()} waits in:", file=stream)
        for frame in waiting(task.get_coro()):
            print(f"  {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}", file=stream)
    stream.flush()
    faulthandler.dump_traceback(stream)


def tasks() -> list[asyncio.Task[Any]]:
    """Return the tasks of all event loops that are not done; `asyncio.all_tasks` has those of one."""
    # Not by isinstance(), which asks a lazy object for its class, and so runs code of the hanging test.
    held = [thing for thing in gc.get_objects() if issubclass(type(thing), asyncio.Task)]
    return [task for task in held if not task.done()]


def waiting(coroutine: Any) -> Iterator[types.FrameType]:
    """Iterate over the frames of a coroutine that waits, the outermost first."""
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None:
            yield frame
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
