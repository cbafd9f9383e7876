"""Connections of the remote profile, shared by the workers: their number, and running requests."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from sessions_app import transports
from sessions_app.caller import Caller
from sessions_app.models import McpSession, RemoteConnection
from sessions_app.protocol import revisions
from sessions_app.protocol.errors import ServerBusy, SessionNotFound
from sessions_app.protocol.lifecycle import SessionEvent
from sessions_app.store import SessionView

TRANSPORT = transports.REMOTE.name
REVISION = revisions.NEWEST_HANDSHAKE
"""The revision of the profile's messages, since it has no handshake to negotiate another."""

_LOCK = 0x6D637272  # "mcrr"
LONGEST_REQUEST_ID = 300
"""Characters, as JSON."""
_GRACE_SECONDS = 5
"""After its time is up, for a request to be recorded before its connection takes another."""


def open(caller: Caller, process_id: str, is_gone: Callable[[str], bool]) -> SessionView:
    """Create a connection of `caller` whose stream `process_id` holds; raise ServerBusy at the maximum number.

    If all places are taken, a caller with fewer gets an idle one of the caller with most. Places of processes that
    are gone are free. A living process's connection is not idle, however long the process or the database is silent.
    """
    with transaction.atomic():
        if connection.vendor == "postgresql":  # SQLite lets one transaction write at a time anyway
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        holders = set(RemoteConnection.objects.values_list("process_id", flat=True)) - {process_id}
        RemoteConnection.objects.filter(process_id__in=list(filter(is_gone, holders))).delete()
        is_full = RemoteConnection.objects.count() >= settings.MCPHUB_MAX_CLIENTS
        if is_full and not _made_room_for(caller.principal):
            busy = ServerBusy(
                f"{settings.MCPHUB_MAX_CLIENTS} clients are connected here, as many as may be. Use /mcp instead."
            )
            busy.retry_after_seconds = settings.MCPHUB_HEARTBEAT_SECONDS
            raise busy
        now = timezone.now()
        row = McpSession.objects.create(
            session_id=str(uuid.uuid4()),
            transport=TRANSPORT,
            principal=caller.principal,
            protocol_version=REVISION,
            caller_label=caller.label[:150],
            created_at=now,
            last_activity_at=now,
            expires_at=now + timedelta(seconds=settings.MCPHUB_SESSION_IDLE_SECONDS),
        )
        RemoteConnection.objects.create(session=row, process_id=process_id, seen_at=now)
    return SessionView.of(row)


def _made_room_for(principal: str) -> bool:
    """End the longest idle connection of the caller with most; False if the newcomer has as many.

    One with a request under way is never ended.
    """
    places: dict[str, list[RemoteConnection]] = {}
    for row in RemoteConnection.objects.select_related("session"):
        places.setdefault(row.session.principal, []).append(row)
    most = max(places.values(), key=len, default=[])
    idle = [row for row in most if row.received_at is None or row.finished_at is not None]
    if len(most) <= len(places.get(principal, ())) + 1 or not idle:
        return False
    oldest = min(idle, key=lambda row: row.finished_at or row.session.created_at)
    McpSession.objects.filter(pk=oldest.session_id).end(SessionEvent.CLOSE, "its place went to another caller")
    oldest.delete()
    return True


def seen(session_id: str, process_id: str) -> datetime | None:
    """Note that the stream is open; give since when nothing was asked on it, None with a request under way.

    Raises SessionNotFound where the session has ended. The place is the stream's even if the row was removed: on
    another machine a process without recent contact to the database looks dead.
    """
    now = timezone.now()
    with transaction.atomic():
        session = McpSession.objects.live().select_for_update().filter(pk=session_id).first()
        if session is None:
            raise SessionNotFound
        row, is_new = RemoteConnection.objects.update_or_create(
            session=session, defaults={"seen_at": now, "process_id": process_id}
        )
    if is_new:
        return now
    return session.created_at if row.received_at is None else row.finished_at


def claim(session_id: str, request_id: str, method: str) -> bool:
    """Take the connection's one place for a request; False where another is under way. One statement decides.

    Raises SessionNotFound where no stream is open any more that could bring the answer.
    """
    now = timezone.now()
    overdue = now - timedelta(seconds=settings.MCPHUB_CALL_TIMEOUT_SECONDS + _GRACE_SECONDS)
    free = Q(received_at=None) | Q(finished_at__isnull=False) | Q(received_at__lt=overdue)
    taken = RemoteConnection.objects.filter(free, pk=session_id).update(
        request_id=request_id, method=method[:100], received_at=now, finished_at=None
    )
    if not taken and not RemoteConnection.objects.filter(pk=session_id).exists():
        raise SessionNotFound
    return taken > 0


def release(session_id: str, request_id: str) -> None:
    """Return the place back, if it is still this request's."""
    RemoteConnection.objects.filter(pk=session_id, request_id=request_id, finished_at=None).update(
        finished_at=timezone.now()
    )


def under_way(session_id: str) -> str | None:
    """Return the JSON id of the request under way, or None."""
    return (
        RemoteConnection.objects.filter(pk=session_id, received_at__isnull=False, finished_at=None)
        .values_list("request_id", flat=True)
        .first()
    )


def close(session_id: str) -> None:
    RemoteConnection.objects.filter(pk=session_id).delete()
