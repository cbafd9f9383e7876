"""/api/audit/export/: the output of `mcphub audit export`, streamed: memory does not grow with the audit."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

_CHUNK_BYTES = 64 * 1024
_WAITING_CHUNKS = 8


class Gone(Exception):
    """The reader of the export has disconnected."""


class ExportPipe:
    """A file that a thread writes and a response reads; a slow reader holds the writer up."""

    def __init__(self, write: Callable[[Any], object]) -> None:
        """`write(file)` writes the whole on a thread of its own."""
        self._write = write
        self._waiting: queue.Queue[bytes | BaseException | None] = queue.Queue(_WAITING_CHUNKS)
        self._buffer = bytearray()
        self._closed = threading.Event()

    def write(self, data: bytes) -> int:
        self._buffer += data
        if len(self._buffer) >= _CHUNK_BYTES:
            self.flush()
        return len(data)

    def flush(self) -> None:
        self._put(bytes(self._buffer))
        self._buffer.clear()

    def _put(self, item: bytes | BaseException | None) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                self._waiting.put(item, timeout=0.5)
                return
        raise Gone

    def _run(self) -> None:
        with contextlib.suppress(Gone):
            try:
                self._write(self)
                self.flush()
                self._put(None)
            except Gone:
                raise
            except BaseException as error:
                self._put(error)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Return the output. An exception of the writer ends the response unfinished, so it is not mistaken for
        complete.
        """
        thread = threading.Thread(target=self._run, name="mcphub-export", daemon=True)
        thread.start()
        try:
            while (item := await asyncio.to_thread(self._waiting.get)) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self._closed.set()
            await asyncio.to_thread(thread.join, 10)
