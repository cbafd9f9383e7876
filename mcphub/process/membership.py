"""The row of this process, and the other live processes of the hub."""

from __future__ import annotations

import os
from pathlib import Path

from channels.db import database_sync_to_async
from django.conf import settings
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from invocations.recovery import interrupted
from sessions_app.models import ServerProcess
from sessions_app.protocol import revisions


class Membership:
    """Everything but `is_found` and `address_of` blocks on the database: call it in a thread."""

    def __init__(self, process_id: str, host: str) -> None:
        self.is_found = False
        """Whether every process of the hub can pass calls on to this one."""
        self._process_id = process_id
        self._host = host

    def enter(self, address: str, peer_address: str) -> None:
        """Register this process, with its addresses for forwarded calls from this machine and others; empty if none."""
        ServerProcess.objects.create(
            process_id=self._process_id,
            version=settings.MCPHUB_VERSION,
            protocol_version=revisions.NEWEST,
            host=self._host,
            pid=os.getpid(),
            boot_mark=interrupted.boot_mark(os.getpid()),
            memory_bytes=_memory(),
            address=address,
            peer_address=peer_address,
        )

    def beat(self) -> None:
        """Record a sign of life."""
        ServerProcess.objects.filter(pk=self._process_id).update(last_seen_at=timezone.now(), memory_bytes=_memory())

    def look_for_others(self, address: str, peer_address: str) -> None:
        others = living().exclude(pk=self._process_id)
        self.is_found = all(bool(address if interrupted.is_neighbour(each) else peer_address) for each in others)

    def others(self) -> set[str]:
        """Return the IDs of the other processes that serve, or end what they serve."""
        rows = living().exclude(pk=self._process_id).exclude(status=ServerProcess.Status.STARTING)
        return {row.pk for row in rows if not interrupted.is_gone(row, self._host)}

    def set_status(self, status: str) -> None:
        ended = {"stopped_at": timezone.now()} if status == ServerProcess.Status.STOPPED else {}
        own = ServerProcess.objects.filter(pk=self._process_id)
        if ended:  # a step that the database did not take in time comes first
            own.filter(status=ServerProcess.Status.RUNNING).update(status=ServerProcess.Status.STOPPING)
        own.exclude(status=ServerProcess.Status.ERROR).update(status=status, last_seen_at=timezone.now(), **ended)

    def is_gone(self, process_id: str) -> bool:
        row = ServerProcess.objects.filter(pk=process_id).first()
        return row is None or interrupted.has_ended(row, self._host)

    async def address_of(self, process_id: str) -> str:
        """Return where this process can pass calls on to another; empty where it cannot, or the other is gone."""

        def found() -> str:
            row = living().filter(pk=process_id).first()
            if row is None:
                return ""
            return row.address if interrupted.is_neighbour(row) else row.peer_address

        return await database_sync_to_async(found)()


def living() -> QuerySet[ServerProcess]:
    """Return the rows of processes that did not end, with those that were taken for dead and have been seen since."""
    is_awake = Q(status=ServerProcess.Status.ERROR, last_seen_at__gt=F("stopped_at"))
    ended = (ServerProcess.Status.STOPPED, ServerProcess.Status.ERROR)
    return ServerProcess.objects.filter(~Q(status__in=ended) | is_awake)


def _memory() -> int | None:
    """Return the bytes of memory that this process holds; None where the system has no /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
