"""Standard input and output for the event loop, separate from other output of the process.

Threads, because a descriptor may be a file or a terminal, which no event loop watches, and because making one
non-blocking would change it for every process that shares it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sys
import threading

_CHUNK_BYTES = 65_536
_CHUNKS_AHEAD = 16


def take_standard() -> tuple[int, int]:
    """Return descriptors of standard input and output that nobody else has; raise OSError where one is closed.

    Afterwards output of any library or child goes to standard error, and reading finds the end.
    """
    source, sink = os.dup(0), os.dup(1)  # not inherited by children
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # started without a standard error
        os.dup2(nothing, 1)
    os.close(nothing)
    sys.stdout = sys.stderr
    return source, sink


class Input:
    """Chunks of a descriptor, read on a thread of its own that stays a little ahead."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(_CHUNKS_AHEAD)
        threading.Thread(target=self._pump, name="mcphub-stdin", daemon=True).start()

    async def read(self) -> bytes:
        """Return the next chunk; empty at the end."""
        chunk = await self._chunks.get()
        self._room.release()
        return chunk

    def _pump(self) -> None:
        chunk = b"-"
        while chunk:
            self._room.acquire()
            try:
                chunk = os.read(self._source, _CHUNK_BYTES)
            except OSError:  # a terminal that went away
                chunk = b""
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody reads any more
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)


class Output:
    """Lines to a descriptor, each whole, written on a thread of its own."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._pump, name="mcphub-stdout", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Write a line and return when it has left; raise OSError where nobody reads any more.

        The line must hold no newline. Whoever gives up waiting does not tear it: it is written all the same.
        """
        written = self._loop.create_future()
        self._lines.put((line + b"\n", written))
        await written

    def _pump(self) -> None:
        while True:
            line, written = self._lines.get()
            failure: OSError | None = None
            rest = memoryview(line)
            try:
                while rest:
                    rest = rest[os.write(self._sink, rest) :]
            except OSError as error:
                failure = error
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_settle, written, failure)


def _settle(written: asyncio.Future[None], failure: OSError | None) -> None:
    if written.done():
        return
    if failure is None:
        written.set_result(None)
    else:
        written.set_exception(failure)
