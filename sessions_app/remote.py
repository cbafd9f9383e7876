"""Connections of the remote profile, as every worker sees them: how many there are, and who has a request under way."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from sessions_app.caller import Caller
from sessions_app.models import McpSession, RemoteConnection, Transport
from sessions_app.protocol import revisions
from sessions_app.protocol.errors import ServerBusy, SessionNotFound
from sessions_app.store import SessionView

TRANSPORT = Transport.REMOTE.value
REVISION = revisions.NEWEST_HANDSHAKE
"""Whose words the profile speaks, since it has no handshake to agree on others."""

_LOCK = 0x6D637272  # "mcrr"
_BEATS_MISSED = 3
"""Signs of life that a stream may miss before its place is given to another: its process was killed."""
LONGEST_REQUEST_ID = 300
"""Characters, as JSON."""
_GRACE_SECONDS = 5
"""After its time is up, for a request to be recorded before its connection takes another."""


def open(caller: Caller) -> SessionView:
    """Make a connection of `caller`; raise ServerBusy where as many are open as may be."""
    with transaction.atomic():
        if connection.vendor == "postgresql":  # SQLite lets one transaction write at a time anyway
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        now = timezone.now()
        horizon = now - _BEATS_MISSED * timedelta(seconds=settings.MCPHUB_HEARTBEAT_SECONDS)
        RemoteConnection.objects.filter(seen_at__lt=horizon).delete()
        if RemoteConnection.objects.count() >= settings.MCPHUB_MAX_CLIENTS:
            busy = ServerBusy(
                f"{settings.MCPHUB_MAX_CLIENTS} clients are connected here, as many as may be. Use /mcp instead."
            )
            busy.retry_after_seconds = settings.MCPHUB_HEARTBEAT_SECONDS
            raise busy
        row = McpSession.objects.create(
            session_id=str(uuid.uuid4()), transport=TRANSPORT, principal=caller.principal, protocol_version=REVISION,
            caller_label=caller.label[:150], created_at=now, last_activity_at=now,
            expires_at=now + timedelta(seconds=settings.MCPHUB_SESSION_IDLE_SECONDS),
        )  # fmt: skip
        RemoteConnection.objects.create(session=row, seen_at=now)
    return SessionView.of(row)


def seen(session_id: str) -> datetime | None:
    """Note that the stream is open; give since when it is idle, None with a request under way.

    Raises SessionNotFound where its place was given to another.
    """
    RemoteConnection.objects.filter(pk=session_id).update(seen_at=timezone.now())
    row = RemoteConnection.objects.select_related("session").filter(pk=session_id).first()
    if row is None:
        raise SessionNotFound
    return row.session.created_at if row.received_at is None else row.finished_at


def claim(session_id: str, request_id: str, method: str) -> bool:
    """Take the connection's one place for a request; False where another is under way. One statement decides."""
    now = timezone.now()
    overdue = now - timedelta(seconds=settings.MCPHUB_CALL_TIMEOUT_SECONDS + _GRACE_SECONDS)
    free = Q(received_at=None) | Q(finished_at__isnull=False) | Q(received_at__lt=overdue)
    taken = RemoteConnection.objects.filter(free, pk=session_id).update(
        request_id=request_id, method=method[:100], received_at=now, finished_at=None
    )
    return taken > 0


def release(session_id: str, request_id: str) -> None:
    """Give the place back, if it is still this request's."""
    RemoteConnection.objects.filter(pk=session_id, request_id=request_id, finished_at=None).update(
        finished_at=timezone.now()
    )


def under_way(session_id: str) -> str | None:
    """Give the JSON id of the request under way, or None."""
    return (
        RemoteConnection.objects.filter(pk=session_id, received_at__isnull=False, finished_at=None)
        .values_list("request_id", flat=True)
        .first()
    )


def close(session_id: str) -> None:
    RemoteConnection.objects.filter(pk=session_id).delete()
