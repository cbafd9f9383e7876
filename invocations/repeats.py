"""What the first call under a key came to, wherever it ran."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

from invocations.running import RunningCalls
from sessions_app.protocol import errors

_POLL_SECONDS = 0.05
_SESSION = "session:"


@sync_to_async
def _read(invocation_id: str) -> Any:
    from invocations.models import McpToolInvocation

    close_old_connections()
    return McpToolInvocation.objects.filter(invocation_id=invocation_id).first()


async def outcome_of(invocation_id: str, running: RunningCalls, seconds: float) -> Any:
    """Give the McpToolInvocation of a call, waiting for it up to `seconds`; None if it is not there by then.

    A call of this process tells its end; one of another process is looked for in the database.
    Raises AuditUnavailable where that cannot be read.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            row = await _read(invocation_id)
        except DatabaseError as error:
            raise errors.AuditUnavailable from error
        left = until - time.monotonic()
        if row is not None or left <= 0:
            return row
        end = running.end_of(invocation_id)
        try:
            if end is not None:
                await asyncio.wait_for(end.wait(), left)
            else:
                await asyncio.sleep(min(_POLL_SECONDS, left))
        except TimeoutError:
            continue


def purge(limit: int = 1000) -> int:
    """Remove keys of sessions that have ended: their ids are never used again. Give how many; a few at a time."""
    from invocations.models import McpIdempotencyKey
    from sessions_app.models import McpSession

    old = McpIdempotencyKey.objects.filter(created_at__lt=timezone.now() - timedelta(hours=1)).order_by("created_at")
    scopes = {scope for scope in old.values_list("scope", flat=True)[:limit] if scope.startswith(_SESSION)}
    ids = [scope.removeprefix(_SESSION) for scope in scopes]
    live = McpSession.objects.live().filter(session_id__in=ids).values_list("session_id", flat=True)
    gone = scopes - {f"{_SESSION}{session_id}" for session_id in live}
    return McpIdempotencyKey.objects.filter(scope__in=gone).delete()[0]


def as_error(stored: Any) -> errors.HubError:
    """Give the error that a stored outcome was answered with."""
    kinds = {kind.code: kind for kind in errors._tree(errors.HubError)}
    kind = kinds.get(stored.error_code, errors.ServerError)
    error = kind.__new__(kind)
    errors.HubError.__init__(error, stored.error["message"], **stored.error["data"].get("details", {}))
    error.invocation_id = stored.invocation_id
    return error
