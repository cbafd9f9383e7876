"""The state of upstream connections in the hub's processes, stored for display."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable

from channels.db import database_sync_to_async
from django.db import IntegrityError, transaction
from django.utils import timezone

from sessions_app.kit.database import is_away
from tools_catalog.call.base import Json
from tools_catalog.models.links import McpConnectionLink
from tools_catalog.models.upstream import McpConnection
from tools_catalog.upstream.link import Link
from tools_catalog.upstream.listing import storable
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.upstream.states import LinkState

logger = logging.getLogger(__name__)

_AT_ONCE = 100
"""Steps that are written in one transaction."""
_FIGURES = (
    "status",
    "error_message",
    "stderr",
    "protocol_version",
    "server",
    "latency_ms",
    "restarts",
    "calls",
    "failures",
    "failed_in_a_row",
    "paused_until",
    "connected_at",
    "reconnected_at",
    "last_used_at",
)


class LinkKeeper:
    """Writes each step of each connection of one process, in its order."""

    def __init__(
        self, process_id: str, redacted: Callable[[str], str], is_gone: Callable[[str], bool] = lambda process_id: False
    ) -> None:
        """`redacted` takes secrets out of an upstream's words. `is_gone` returns whether a process of the hub, by its
        ID, has ended.
        """
        self._process_id = process_id
        self._redacted = redacted
        self._is_gone = is_gone
        self._held: set[int] = set()
        """Connections whose only child this process runs, as far as it is aware."""
        self._reported: dict[int, LinkState] = {}
        """The state of each connection as last reported."""
        self._waiting: asyncio.Queue[tuple[Link, bool]] = asyncio.Queue(10_000)
        """Steps, and whether each gives back the right to run the only child."""
        self._task: asyncio.Task[None] | None = None

    def report(self, link: Link) -> None:
        """Take down how the connection stands now. Never waits."""
        if self._task is None:
            self._task = asyncio.create_task(self._write_on(), name="mcphub-upstream-links")
        link.is_dirty = False
        before = self._reported.get(link.connection_id, LinkState.DISCONNECTED)
        self._reported[link.connection_id] = link.status
        # Figures of one that is away may be reported just after the right was taken, and before it connects.
        is_end = link.status in (LinkState.ERROR, LinkState.DISCONNECTED) and link.status is not before
        if is_end:
            self._held.discard(link.connection_id)
        try:
            self._waiting.put_nowait((dataclasses.replace(link), is_end))
        except asyncio.QueueFull:
            logger.warning("A step of a connection is not written down: the database is too slow")

    def flush(self, links: Iterable[Link]) -> None:
        """Take down the figures of connections that were used since."""
        for link in links:
            if link.is_dirty:
                self.report(link)

    async def lease(self, connection_id: int) -> bool:
        """Take the right to run the one child of a connection; False where another process has it."""
        await self._waiting.join()
        has_right = await database_sync_to_async(_lease)(self._process_id, connection_id, self._is_gone)
        if has_right:
            self._held.add(connection_id)
        return has_right

    async def unprobed(self, spec: ConnectionSpec, server: str) -> None:
        """Keep which server did not answer a probe, for all processes; empty: that none is known."""
        await database_sync_to_async(McpConnection.objects.note_unprobed)(spec, storable(self._redacted(server)))

    async def declares(self, spec: ConnectionSpec, shown: dict[str, dict[str, Json]]) -> None:
        """Keep the vendors' extensions that an upstream declares, for all processes."""
        await database_sync_to_async(McpConnection.objects.note_declared)(spec, shown)

    async def holder(self, connection_id: int) -> str:
        """Return the process that has the right; empty where none has it."""
        return await database_sync_to_async(_holder)(connection_id)

    async def lost(self) -> set[int]:
        """Return the connections whose lease another process took after a long silence of this one."""
        held = set(self._held)
        if not held:
            return held
        lost = held - await database_sync_to_async(_held)(self._process_id)
        self._held -= lost
        return lost

    async def stop(self) -> None:
        """Write pending state, then delete this process's rows."""
        if self._task is None:
            return
        await self._waiting.join()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await database_sync_to_async(forget)([self._process_id])

    async def _write_on(self) -> None:
        while True:
            steps = [await self._waiting.get()]
            while len(steps) < _AT_ONCE and not self._waiting.empty():
                steps.append(self._waiting.get_nowait())
            try:
                await database_sync_to_async(self._write_all)(steps)
            except Exception as error:
                logger.warning("%d steps of connections cannot be written down: %s", len(steps), error)
            finally:
                for _ in steps:
                    self._waiting.task_done()

    def _write_all(self, steps: list[tuple[Link, bool]]) -> None:
        """Write steps in one transaction: each of its own would wait for its turn, and all else for this thread.

        Where one of them cannot be written, the others are. Raises the error of a database that is away.
        """
        try:
            with transaction.atomic():
                for link, is_end in steps:
                    _write(self._process_id, link, self._redacted, is_end=is_end)
        except Exception as error:
            if len(steps) == 1 or is_away(error):
                raise
            for step in steps:
                try:
                    self._write_all([step])
                except Exception as its:
                    logger.warning("A step of a connection cannot be written down: %s", its)


def forget(process_ids: Iterable[str]) -> int:
    """Remove the states that these processes reported."""
    return McpConnectionLink.objects.filter(process_id__in=list(process_ids)).delete()[0]


def keep_only(process_ids: Iterable[str]) -> int:
    """Remove the states of processes that are gone."""
    return McpConnectionLink.objects.exclude(process_id__in=list(process_ids)).delete()[0]


def _lease(process_id: str, connection_id: int, is_gone: Callable[[str], bool]) -> bool:
    if _took(process_id, connection_id):
        return True
    holder = _holder(connection_id)
    if holder and is_gone(holder):
        McpConnectionLink.objects.filter(connection_id=connection_id, process_id=holder).delete()
        return _took(process_id, connection_id)
    return False


def _took(process_id: str, connection_id: int) -> bool:
    try:
        with transaction.atomic():
            rows = McpConnectionLink.objects.filter(connection_id=connection_id, process_id=process_id)
            if not rows.update(holds_lease=True):
                McpConnectionLink.objects.create(
                    connection_id=connection_id,
                    process_id=process_id,
                    status=LinkState.DISCONNECTED.value,
                    holds_lease=True,
                )
            return True
    except IntegrityError:
        return False


def _holder(connection_id: int) -> str:
    held = McpConnectionLink.objects.filter(connection_id=connection_id, holds_lease=True)
    return held.values_list("process_id", flat=True).first() or ""


def _held(process_id: str) -> set[int]:
    rows = McpConnectionLink.objects.filter(process_id=process_id, holds_lease=True)
    return set(rows.values_list("connection_id", flat=True))


def _write(process_id: str, link: Link, redacted: Callable[[str], str], *, is_end: bool) -> None:
    figures = {name: getattr(link, name) for name in _FIGURES}
    figures["status"] = link.status.value
    if is_end:
        figures["holds_lease"] = False
    for name in ("error_message", "stderr", "server"):
        figures[name] = storable(redacted(figures[name]))
    rows = McpConnectionLink.objects.filter(connection_id=link.connection_id, process_id=process_id)
    try:
        with transaction.atomic():
            if rows.update(**figures, updated_at=timezone.now()):
                return
    except IntegrityError:
        rows.delete()  # a step in between was lost with the database; the row begins anew
    if McpConnection.objects.filter(pk=link.connection_id).exists():
        McpConnectionLink.objects.create(connection_id=link.connection_id, process_id=process_id, **figures)
