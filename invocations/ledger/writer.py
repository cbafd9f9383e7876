"""The audit's writer: group commit on a thread and a connection of its own.

Callers append a record and await its verdict, which comes after the commit that holds it. Records that gather during
a commit form the next batch, so a lone call costs one commit and a crowd shares one. The queue is bounded; a full
queue or a commit slower than the bound is `audit_unavailable`, never growth or a hang.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from django.conf import settings

from invocations.ledger.batches import Batches
from invocations.ledger.disk import DiskSpace
from invocations.ledger.records import CallRecord, Intent, Outcome, Record, Take, Touch, Use, Verdict
from sessions_app.kit.database import Dedicated
from sessions_app.protocol.errors import AuditUnavailable

logger = logging.getLogger(__name__)

_BATCH = 512
"""Records per transaction at most; bounds a commit's time and the cost of a bad record."""

_BATCH_CHARACTERS = 8 * 1024 * 1024
"""Of JSON in one transaction, or one record if that is larger: a statement must end within the bound."""

_MOST_TURNS = 4
"""Of the event loop, for which the writer is left asleep while records come."""

_LOOKS_SECONDS = 0.5
"""The writer's own check interval: for owed records, free space, and an event loop that has ended."""


class Ledger:
    """One a process. `start` it on the event loop that will append."""

    def __init__(self, connect: Callable[[Callable[[Any, bool], None]], Dedicated] = Dedicated) -> None:
        """`connect(prepare)` gives the connection that the writer uses."""
        self._queue: deque[Record] = deque()
        self._waiting: deque[Record] = deque()
        self._owed: deque[Record] = deque(maxlen=settings.MCPHUB_LEDGER_QUEUE * 3)
        """Past events that could not be written. Beyond the bound the oldest is dropped: an envelope stands for a
        lost outcome, nothing for a round's usage.
        """
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._is_waking = False
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watchdog: asyncio.Task[None] | None = None
        self._bound_seconds = settings.MCPHUB_LEDGER_TIMEOUT_SECONDS
        self._batches = Batches(connect, self._bound_seconds)
        self._queue_limit = settings.MCPHUB_LEDGER_QUEUE
        self.on_append: Callable[[CallRecord], None] | None = None
        """Called for each queued row about a call."""
        self.disk = DiskSpace(_folder_of_database(), settings.MCPHUB_MIN_FREE_DISK_BYTES)
        self.failing: str | None = None
        """Why the last commit failed; None while the ledger works."""

    @property
    def is_sqlite(self) -> bool:
        return self._batches.is_sqlite

    @property
    def not_durable(self) -> str | None:
        """Why a reported commit might not survive a crash of the machine; None when it does."""
        return self._batches.not_durable

    @property
    def waiting(self) -> int:
        """Records that were appended and have no verdict yet."""
        return len(self._waiting)

    # On the event loop ---------------------------------------------------------------------------

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.disk.look()
        self._thread = threading.Thread(target=self._write, name="mcphub-ledger", daemon=True)
        self._thread.start()
        self._watchdog = asyncio.create_task(self._watch(), name="mcphub-ledger-watchdog")

    async def stop(self) -> None:
        """Write the queue, then end. Records appended later are refused."""
        self._stopping = True
        self._wake.put(None)
        thread = self._thread
        if thread is not None:
            await asyncio.to_thread(thread.join, 10)
        await asyncio.sleep(0)  # the last verdicts were scheduled by the thread
        if self._watchdog is not None:
            self._watchdog.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watchdog
        self._fail(float("inf"))
        if self._owed and (thread is None or not thread.is_alive()):
            await asyncio.to_thread(self._pay_all)  # intents whose callers had gone were closed just now

    def append(self, record: Record) -> asyncio.Future[Verdict]:
        """Queue a record; its future gives the verdict after the commit, or AuditUnavailable.

        A cancelled wait does not take the record back: an outcome is still written, and an intent that
        was committed meanwhile is given to its `on_abandoned`. Raises AuditUnavailable at once where the queue
        is full or the ledger has stopped.
        """
        loop = self._loop
        assert loop is not None, "the ledger is not started"
        limit = self._queue_limit * 2 if record.is_past else self._queue_limit
        if self._stopping or len(self._queue) >= limit:
            self._owe([record])
            raise self._unavailable(record)
        if self.on_append is not None and isinstance(record, CallRecord):
            self.on_append(record)
        record.future = loop.create_future()
        record.queued_at = time.monotonic()
        self._waiting.append(record)
        self._queue.append(record)
        if not self._is_waking:
            self._is_waking = True
            loop.call_soon(self._wake_writer, 0, _MOST_TURNS)
        return record.future

    def _wake_writer(self, seen: int, turns: int) -> None:
        """Wake the writer once a turn of the event loop brings no more records.

        Requests that came together share a commit, and the writer does not ask for the interpreter lock while they
        are still being read.
        """
        count, loop = len(self._queue), self._loop
        if turns and count > seen and loop is not None:
            loop.call_soon(self._wake_writer, count, turns - 1)
            return
        self._is_waking = False
        self._wake.put(None)

    async def _watch(self) -> None:
        """Fail callers that waited longer than the bound: a hanging database must not hang them."""
        while True:
            await asyncio.sleep(min(0.1, self._bound_seconds / 4))
            self._fail(time.monotonic() - self._bound_seconds)

    def _fail(self, overdue: float) -> None:
        waiting = self._waiting
        while waiting and (waiting[0].future.done() or waiting[0].queued_at < overdue):
            record = waiting.popleft()
            if not record.future.done():
                record.abandoned = True
                record.future.set_exception(self._unavailable(record))

    @staticmethod
    def _unavailable(record: Record) -> AuditUnavailable:
        if type(record) is not Outcome:
            return AuditUnavailable()
        error = AuditUnavailable(
            "The outcome of the call could not be recorded, so it is withheld: it may have taken effect. "
            "Look the invocation up before trying again."
        )
        error.invocation_id = record.invocation_id
        return error

    def _settle(self, settled: list[tuple[Record, Verdict | BaseException]]) -> None:
        waiting = self._waiting
        for record, verdict in settled:
            future = record.future
            if type(verdict) is Verdict and not future.done():
                future.set_result(verdict)
                continue
            committed = Verdict() if record.in_doubt else verdict
            if isinstance(verdict, BaseException) and not future.done():
                future.set_exception(verdict)
            if record.on_abandoned is not None and not isinstance(committed, BaseException):
                record.on_abandoned(committed)
        while waiting and waiting[0].future.done():
            waiting.popleft()

    # On the writer's thread ----------------------------------------------------------------------

    def _write(self) -> None:
        queue, looked = self._queue, time.monotonic()
        while True:
            if time.monotonic() - looked >= _LOOKS_SECONDS:
                looked = time.monotonic()
                self.disk.look()
            with contextlib.suppress(Empty):
                self._wake.get(timeout=_LOOKS_SECONDS)
            while queue:
                batch = self._next(queue)
                if batch:
                    self._hand_back(self._commit(batch))
                if self._is_waking:
                    break  # those that come now belong together, and the word comes soon
            if self._owed:
                self._pay()
            if self._stopping and not queue:
                self._pay_all()
                return

    @staticmethod
    def _next(queue: deque[Record]) -> list[Record]:
        """Take the next batch from the queue; an intent whose caller has left is dropped."""
        batch: list[Record] = []
        characters = 0
        while queue and len(batch) < _BATCH and characters < _BATCH_CHARACTERS:
            record = queue.popleft()
            if record.is_past or not (record.abandoned or record.future.cancelled()):
                batch.append(record)
                characters += record.characters
        return batch

    def _hand_back(self, settled: list[tuple[Record, Verdict | BaseException]]) -> None:
        loop = self._loop
        assert loop is not None
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(self._settle, settled)

    def _commit(self, batch: list[Record]) -> list[tuple[Record, Verdict | BaseException]]:
        for attempt in (1, 2):
            try:
                verdicts = self._batches.transact(batch)
            except self._batches.poison as error:
                if len(batch) == 1:
                    return [(batch[0], self._refused(batch[0], error))]
                return [pair for record in batch for pair in self._commit([record])]
            except Exception as error:
                # What was sent may or may not be committed; every statement can be repeated safely.
                if self._batches.may_have_committed(error):
                    for record in batch:
                        record.in_doubt = True
                self._batches.close()
                if attempt == 2 or (time.monotonic() - batch[0].queued_at) > self._bound_seconds:
                    return self._failed(batch, error)
            else:
                self._commits_again()
                if attempt == 2:
                    for record in batch:
                        record.in_doubt = False
                return list(zip(batch, verdicts, strict=True))
        raise AssertionError("unreachable")

    def _failed(self, batch: list[Record], error: Exception) -> list[tuple[Record, Verdict | BaseException]]:
        """Note that the database takes nothing, and owe what is past."""
        if self.failing is None:
            logger.error("The ledger cannot commit: %s", error)
        self.failing = f"{type(error).__name__}: {error}".strip()
        self._owe(batch)
        return [(record, self._unavailable(record)) for record in batch]

    def _commits_again(self) -> None:
        if self.failing is not None:
            logger.warning("The ledger commits again")
            self.failing = None

    def _owe(self, batch: list[Record]) -> None:
        """Keep past events of the records: they are written once the database returns."""
        for record in batch:
            if record.is_past:
                record.session_id = None
                if isinstance(record, Outcome):
                    record.key = None
                self._owed.append(record)

    def _pay_all(self) -> None:
        while self._owed and self._pay():
            pass
        self._batches.close()

    def _pay(self) -> bool:
        """Write the owed outcomes; their callers received *outcome unknown*.

        False if the database still rejects them; unwritten records stay owed.
        """
        left = [self._next(self._owed)]
        while left:
            batch = left.pop()
            try:
                self._batches.transact(batch)
            except self._batches.poison as error:
                if len(batch) == 1:
                    self._refused(batch[0], error)
                else:
                    left.extend([record] for record in reversed(batch))
            except Exception:
                self._batches.close()
                unpaid = [record for part in [batch, *reversed(left)] for record in part]
                self._owed.extendleft(unpaid[::-1])
                return False
        self._commits_again()
        return True

    def _refused(self, record: Record, error: BaseException) -> AuditUnavailable:
        logger.error("A record was refused by the database: %s", type(error).__name__, exc_info=error)
        return self._unavailable(record)


def _folder_of_database() -> Path | None:
    """Return the folder of a SQLite database; None for a server, whose disk the hub does not watch."""
    database = settings.DATABASES["default"]
    name = str(database["NAME"])
    if not database["ENGINE"].endswith("sqlite3") or name == ":memory:" or name.startswith("file:"):
        return None
    return Path(name).parent


__all__ = ["Intent", "Ledger", "Outcome", "Take", "Touch", "Use", "Verdict"]
