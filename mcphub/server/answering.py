"""Requests that are answered on a session's stream, which this process or another one holds (HTTP+SSE, remote profile).

Before a process that stops ends such a stream, all that was asked for it is answered: here, and in the processes that
took a request for it. It asks them over the change bus, and they report back once their answers are published.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from mcphub.server.listening import Streams
from sessions_app import bus
from sessions_app.protocol.errors import ServerBusy

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.25
"""Between two looks whether a process that has not reported is still there."""
_LAST_WORDS_SECONDS = 3

Others = Callable[[], Awaitable[set[str]]]
"""Returns the IDs of the other live processes."""


class Answering:
    """One a process."""

    def __init__(
        self, process_id: str, streams: Streams, others: Others, spawn: Callable[[asyncio.Task[None]], None]
    ) -> None:
        self._process_id = process_id
        self._streams = streams
        self._others = others
        self._spawn = spawn
        self._owed: dict[str, set[asyncio.Task[None]]] = {}
        """By session: the requests under way here."""
        self._changed = asyncio.Event()
        """Set when a request was answered, or another process reported."""
        self._ending: set[str] = set()
        """Sessions whose stream another process is about to end."""
        self._unreported: set[str] = set()
        """Processes that have not reported yet that they owe nothing to streams held here."""
        self._is_stopping = False

    def begin(self, session_id: str, work: Coroutine[Any, Any, None]) -> None:
        """Answer a request in the background; raise ServerBusy where its stream is about to end."""
        if self._is_stopping or session_id in self._ending:
            work.close()
            busy = ServerBusy("The process that holds the stream of this session stops. Open another stream.")
            busy.retry_after_seconds = 1
            raise busy
        task = asyncio.create_task(work)
        self._owed.setdefault(session_id, set()).add(task)
        task.add_done_callback(lambda done: self._answered(session_id, done))
        self._spawn(task)

    def forget(self, session_id: str) -> None:
        """A session has ended."""
        self._ending.discard(session_id)

    async def drain(self, seconds: float) -> None:
        """End each held stream once all that was asked for it is answered; after `seconds`, answer the rest with an
        error.
        """
        self._is_stopping = True
        try:
            async with asyncio.timeout(seconds):
                await self._answered_by_others()
                while True:
                    self._streams.end_sessions(but=self._owed.keys())
                    if not self._owed:
                        break
                    await self._change()
        except TimeoutError:
            await self._cut_off()
        self._streams.end_sessions()

    async def _cut_off(self) -> None:
        left = [task for owed in self._owed.values() for task in owed]
        for task in left:
            task.cancel()  # which its client gets as the error that the hub stopped
        if left:
            await asyncio.wait(left, timeout=_LAST_WORDS_SECONDS)

    def _answered(self, session_id: str, task: asyncio.Task[None]) -> None:
        owed = self._owed.get(session_id, set())
        owed.discard(task)
        if not owed:
            self._owed.pop(session_id, None)
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    # Between processes -------------------------------------------------------------------------------

    async def _answered_by_others(self) -> None:
        """Wait until each other process has published what it owes to streams held here, and this one has it."""
        held = self._streams.sessions()
        if not held:
            return
        try:
            self._unreported = await self._others()
            if not self._unreported:
                return
            await bus.announce(bus.ANSWERS_WANTED, " ".join((self._process_id, *held)))
            while self._unreported:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await self._change()
                if self._unreported:
                    self._unreported &= await self._others()
            # What those published that have ended meanwhile comes before what this process publishes now.
            self._unreported = {self._process_id}
            await bus.announce(bus.ANSWERS_GIVEN, f"{self._process_id} {self._process_id}")
            while self._unreported:
                await self._change()
        except Exception as error:
            logger.warning("Other processes cannot be asked for their last answers: %s", error)

    def wanted(self, payload: str) -> None:
        """Another process is about to end streams: report to it once nothing is owed to them here."""
        asks, *sessions = payload.split(" ")
        if asks != self._process_id:
            self._ending.update(sessions)
            self._spawn(asyncio.create_task(self._report(asks, sessions), name="mcphub-last-answers"))

    async def _report(self, asks: str, sessions: list[str]) -> None:
        owed = [task for session_id in sessions for task in self._owed.get(session_id, ())]
        if owed:
            await asyncio.wait(owed)
        await bus.announce(bus.ANSWERS_GIVEN, f"{asks} {self._process_id}")

    def given(self, payload: str) -> None:
        asks, _, reports = payload.partition(" ")
        if asks == self._process_id:
            self._unreported.discard(reports)
            self._changed.set()
