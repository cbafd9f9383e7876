"""What the first call under a key came to, wherever it ran."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from asgiref.sync import sync_to_async
from django.db import DatabaseError, close_old_connections

from invocations.running import RunningCalls
from sessions_app.protocol import errors

_POLL_SECONDS = 0.05


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


def as_error(stored: Any) -> errors.HubError:
    """Give the error that a stored outcome was answered with."""
    kinds = {kind.code: kind for kind in errors._tree(errors.HubError)}
    kind = kinds.get(stored.error_code, errors.ServerError)
    error = kind.__new__(kind)
    errors.HubError.__init__(error, stored.error["message"], **stored.error["data"].get("details", {}))
    error.invocation_id = stored.invocation_id
    return error
