"""The ledger and the tool threads of a hub, on the thread and the connection of a test.

A test's rows are in a transaction that no other connection sees, and that SQLite lets nobody write beside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, connections, transaction

from invocations.ledger.records import CallRecord, Record, Verdict
from invocations.ledger.writer import Ledger
from sessions_app.kit.database import Dedicated
from tools_catalog.backends.threads import SyncContext, ToolThreads
from tools_catalog.call.context import ToolContext

Value = TypeVar("Value")


@contextmanager
def connections_kept() -> Iterator[None]:
    """Let nothing close the connections of this thread: what ends a request closes them, and with them a transaction
    of the test. Django's own test client keeps them, too.
    """
    kept = [each for each in connections.all(initialized_only=True) if each.in_atomic_block]
    for each in kept:
        each.close_if_unusable_or_obsolete = _nothing  # type: ignore[method-assign]
    try:
        yield
    finally:
        for each in kept:
            del each.close_if_unusable_or_obsolete


def _nothing() -> None:
    pass


class LedgerInPlace(Ledger):
    """Writes each record at once, in the transaction of the test."""

    def __init__(self) -> None:
        super().__init__(_OfTest)
        self._writing: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def stop(self) -> None:
        while self._writing:
            await asyncio.gather(*self._writing)

    def append(self, record: Record) -> asyncio.Future[Verdict]:
        assert self._loop is not None
        if self.on_append is not None and isinstance(record, CallRecord):
            self.on_append(record)
        record.future = self._loop.create_future()
        task = self._loop.create_task(self._written(record))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        return record.future

    async def _written(self, record: Record) -> None:
        try:
            verdict = await sync_to_async(self._in_transaction)(record)
        except Exception as error:
            if not record.future.done():
                record.future.set_exception(error)
            return
        if not record.future.done():
            record.future.set_result(verdict)
        elif record.on_abandoned is not None:
            record.on_abandoned(verdict)

    def _in_transaction(self, record: Record) -> Verdict:
        with transaction.atomic():
            (verdict,) = self._batches.transact([record])
        return verdict


class _OfTest(Dedicated):
    """Django's connection as the ledger uses one."""

    @property
    def raw(self) -> Any:
        connection.ensure_connection()
        return connection.connection if self.is_sqlite else _PostgreSQL(connection.connection)

    def transaction(self) -> AbstractContextManager[None]:
        return transaction.atomic()

    def close(self) -> None:
        """Leave the connection to the test."""


class _PostgreSQL:
    """A connection of psycopg that takes parameters as the ledger writes them: `$1`."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def execute(self, query: str, values: Any = None) -> Any:
        from psycopg import RawCursor

        return RawCursor(self._raw).execute(query, values)


class ThreadsInPlace(ToolThreads):
    """Runs sync tools on the thread of the test."""

    def __init__(self) -> None:
        super().__init__(1)

    async def call(
        self, function: Callable[..., object], keywords: dict[str, object], *, slot: str | None, context: ToolContext
    ) -> Any:
        if slot is not None:
            keywords[slot] = _ContextInPlace(context, asyncio.get_running_loop())
        return await self.run(lambda: function(**keywords), caller=context.call.caller_principal)

    async def run(self, work: Callable[[], Value], *, caller: str) -> Value:
        return await sync_to_async(work)()


class _ContextInPlace(SyncContext):
    def _in_loop(self, make: Callable[[], Awaitable[Value]], seconds: float | None = None) -> Value:
        # Not by waiting for the loop: what the loop then asks of the database is done on this thread.
        async def deed() -> Value:
            return await make()

        return async_to_sync(deed)()
