"""Bounds on the messages of an upstream."""

from __future__ import annotations

import asyncio
import time

from sessions_app.protocol import errors

_WINDOW_SECONDS = 10.0
_IN_A_ROW = 10
_LEAST_SECONDS = 0.001
_PAUSE_SECONDS = 0.000_01

TOO_MANY = "The upstream sends too many notifications."


class Flooded(errors.TransportError):
    """A stream was closed because of its messages."""

    sentence = TOO_MANY


class Flood:
    """Counts events of a stream that has no end: so many may come in ten seconds.

    After the first ten each waits, 1 ms up to the hundredth and 10 ms after a thousand, for an event costs some
    tenths of one: a talkative upstream must not take the processor from the calls of others. A hundred take a tenth
    of a second so, and a thousand five. Answers that were asked for do not wait.
    """

    __slots__ = ("_began", "_count", "_is_counted", "_limit", "_owed")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0
        self._is_counted = False
        """Whether the last that came was."""
        self._owed = 0
        self._began = time.monotonic()

    def is_over(self, count: int = 1) -> bool:
        """Count, and return whether that was too much."""
        now = time.monotonic()
        if now - self._began > _WINDOW_SECONDS:
            self._began, self._count = now, 0
        self._count += count
        self._is_counted = True
        return self._count > self._limit

    def request_sent(self) -> None:
        """Note a request sent on a stream that all responses come by: its response is none too many."""
        self._owed += 1

    def is_over_with(self, *, response: bool) -> bool:
        """Count a message of such a stream that no request asked for."""
        if self._owed and response:
            self._owed -= 1
            self._is_counted = False
            return False
        return self.is_over()

    @property
    def is_pausing(self) -> bool:
        """Whether the last counted message is one of many, and so to be read after a `pause`."""
        return self._is_counted and self._count > _IN_A_ROW

    async def pause(self) -> None:
        """Wait before the counted message is read, if it is one of many."""
        if self.is_pausing:
            await asyncio.sleep(max(_LEAST_SECONDS, self._count * _PAUSE_SECONDS))
