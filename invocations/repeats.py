"""What the first call under a key came to, wherever it ran."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DatabaseError, close_old_connections
from django.db.models import Q, Value
from django.db.models.functions import Concat
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
    """Remove keys that are past use: of ended sessions, and of callers after their time.

    Gives how many, `limit` at most. Request ids of an ended session are never used again; an hour is left for
    calls that outlive it.
    """
    from invocations.models import McpIdempotencyKey
    from sessions_app.models import McpSession

    now = timezone.now()
    live = McpSession.objects.live().annotate(scope=Concat(Value(_SESSION), "session_id"))
    ended = Q(scope__startswith=_SESSION, created_at__lt=now - timedelta(hours=1)) & ~Q(scope__in=live.values("scope"))
    over = Q(created_at__lt=now - timedelta(hours=settings.MCPHUB_IDEMPOTENCY_HOURS)) & ~Q(scope__startswith=_SESSION)
    old = McpIdempotencyKey.objects.filter(ended | over).order_by("created_at").values_list("pk", flat=True)
    return McpIdempotencyKey.objects.filter(pk__in=list(old[:limit])).delete()[0]


def answer_of(
    past: Any, first: str, scope: str
) -> tuple[dict[str, Any] | None, dict[str, Any] | None, errors.HubError | None]:
    """Give what a repeat is answered: the result, the error as it was rendered, and the error; None for what is not.

    `past`: the McpToolInvocation of the `first` call, or None while it runs. `scope` is whose key it was.
    """
    if past is None or (past.result is None and not past.error_code):
        return None, None, errors.ToolTimeout(
            "The first call of this request is still running. Try again later.", first=first
        )  # fmt: skip
    if past.result is not None and past.result.get("resultType") == "input_required":
        return None, None, errors.DuplicateRequest(
            "The first call under this key asked its client and ended there. Begin again with a new key.", first=first
        )  # fmt: skip
    if past.error_code == errors.UrlElicitationRequired.code and scope.startswith("caller:"):
        return None, None, errors.DuplicateRequest(
            "The first call under this key ended with an address to open. Begin again with a new key.", first=first
        )  # fmt: skip
    if past.status == "ok" and "result" in (past.left_out or {}):
        return None, None, errors.DuplicateRequest(
            "The first call under this key succeeded, and is not made again. Its answer cannot be repeated: "
            "the audit does not keep it whole. Look the first invocation up.",
            first=first,
        )  # fmt: skip
    return past.result, past.error, as_error(past) if past.error_code else None


def as_error(stored: Any) -> errors.HubError:
    """Give the error that a stored outcome was answered with."""
    return error_of(stored.error, stored.invocation_id)


def error_of(rendered: Mapping[str, Any], invocation_id: str) -> errors.HubError:
    """Give the error that was rendered as a JSON-RPC error."""
    data = rendered.get("data", {})
    kinds = {kind.code: kind for kind in errors._tree(errors.HubError)}
    kind = kinds.get(data.get("errorCode"), errors.ServerError)
    error = kind.__new__(kind)
    errors.HubError.__init__(error, rendered.get("message"), **data.get("details", {}))
    error.invocation_id = invocation_id
    return error
