"""How the workers of one `mcphub serve` reach each other for their metrics: a socket each, made before the fork."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SiblingPlace:
    """Of this process among its siblings."""

    number: int = 0
    paths: tuple[str, ...] = ()
    """Where each worker answers, by its number; empty where there is one."""
    listener: socket.socket | None = None


PLACE = SiblingPlace()
"""Of this process; set once, after the fork."""


class Meeting:
    """The sockets of all workers, in a folder that only this user can enter. The parent holds it."""

    def __init__(self, workers: int) -> None:
        # Not under the data directory: a socket's name may have 100 characters, and that directory may be on a network.
        self._folder = Path(tempfile.mkdtemp(prefix="mcphub-"))
        self._listeners = [self._listen(number) for number in range(workers)]

    def _listen(self, number: int) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.bind(str(self._folder / f"{number}"))
        made.listen()
        return made

    def enter(self, number: int) -> None:
        """Set the number of this worker process."""
        PLACE.number = number
        PLACE.paths = tuple(str(self._folder / f"{each}") for each in range(len(self._listeners)))
        PLACE.listener = self._listeners[number]
        for other, listener in enumerate(self._listeners):
            if other != number:
                listener.close()

    def end(self) -> None:
        for listener in self._listeners:
            listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)


async def answer(tell: Callable[[], bytes]) -> asyncio.Server | None:
    """Answer connections to this worker's socket."""
    if PLACE.listener is None:
        return None

    async def told(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            try:
                writer.write(tell())
                await writer.drain()
            finally:
                writer.close()

    return await asyncio.start_unix_server(told, sock=PLACE.listener)
