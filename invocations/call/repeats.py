"""The end of the first call under a key, wherever it ran."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DatabaseError, close_old_connections
from django.db.models import Q, Value
from django.db.models.functions import Concat
from django.utils import timezone

from invocations.call.running import RunningCalls
from invocations.ledger.records import Key, Verdict
from sessions_app.protocol import errors
from sessions_app.protocol.json import Json

if TYPE_CHECKING:
    from invocations.models import McpToolInvocation

_POLL_SECONDS = 0.05
_SESSION = "session:"
_APPROVAL = "approval:"


class Removed:
    """Stands for the outcome of a call whose rows retention has removed."""


@sync_to_async
def _read(invocation_id: str) -> McpToolInvocation | Removed | None:
    """Return the McpToolInvocation of a call, Removed where it was there once, None while there is none yet."""
    from invocations.models import McpRequestEnvelope, McpToolInvocation
    from invocations.recovery import open_calls

    close_old_connections()
    found = McpToolInvocation.objects.filter(invocation_id=invocation_id)
    row: McpToolInvocation | None = found.first()
    if row is not None:
        return row
    # Whoever takes a key commits an envelope or an outcome with it.
    envelope = McpRequestEnvelope.objects.filter(invocation_id=invocation_id).values_list("pk", flat=True).first()
    if envelope is not None and not open_calls.has_ended(envelope):
        return None
    row = found.first()
    return Removed() if row is None else row


async def first_of(key: Key | None) -> Verdict | None:
    """Return the call that was first under a key; None where there is none. Raises AuditUnavailable."""
    if key is None:
        return None
    try:
        found = await _first(key)
    except DatabaseError as error:
        raise errors.AuditUnavailable from error
    if found is None:
        return None
    verdict = Verdict()
    verdict.first_invocation_id, verdict.first_fingerprint = found
    return verdict


@sync_to_async
def _first(key: Key) -> tuple[str, str] | None:
    from invocations.models import McpIdempotencyKey

    close_old_connections()
    rows = McpIdempotencyKey.objects.filter(scope=key[0], key=key[1])
    return rows.values_list("invocation_id", "fingerprint").first()


async def outcome_of(invocation_id: str, running: RunningCalls, seconds: float) -> McpToolInvocation | Removed | None:
    """Return the McpToolInvocation of a call, waiting for it up to `seconds`; None if it is not there by then.

    A call of this process reports its end; one of another process is looked up in the database. A call without rows
    is Removed. Raises AuditUnavailable where the database cannot be read.
    """
    until = time.monotonic() + seconds
    while True:
        end = running.end_of(invocation_id)  # first: a call that ends between the two has its row when it is read
        try:
            row = await _read(invocation_id)
        except DatabaseError as error:
            raise errors.AuditUnavailable from error
        left = until - time.monotonic()
        if end is not None and isinstance(row, Removed):
            row = None  # it is older than what retention keeps, and runs
        if row is not None or left <= 0:
            return row
        try:
            if end is not None:
                async with asyncio.timeout(left):
                    await end.wait()
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


@dataclass(frozen=True, slots=True)
class RepeatAnswer:
    """The answer to a repeat: the result, the rendered error, and the error; None for absent parts."""

    wire: dict[str, Any] | None = None
    rendered: dict[str, Any] | None = None
    error: errors.HubError | None = None


def answer_of(past: McpToolInvocation | Removed | None, first: str, scope: str) -> RepeatAnswer:
    """Return the answer to a repeat.

    `past`: the result of `outcome_of` for the `first` call. `scope` is the owner of the key.
    """
    if past is None:
        return RepeatAnswer(
            error=errors.ToolTimeout("The first call of this request is still running. Try again later.", first=first)
        )
    why = _why_not(past, scope)
    if why or isinstance(past, Removed):
        return RepeatAnswer(error=errors.DuplicateRequest(why, first=first, **_known(past)))
    if past.error_code and "truncated" in (past.left_out or {}).get("result", {}):
        return RepeatAnswer(None, past.error, as_error(past))  # the head of a result is none
    return RepeatAnswer(past.result, past.error, as_error(past) if past.error_code else None)


def other_request(first: str, scope: str) -> errors.DuplicateRequest:
    """Return the error of a call whose key belongs to another request. `scope` is the owner of the key."""
    if scope.startswith(_APPROVAL):
        words = (
            "This round of the approved call was answered before, in another way. One approval covers one way: go on "
            "from there, or call later: it is asked anew."
        )
        return errors.DuplicateRequest(words, first=first)
    return errors.DuplicateRequest(first=first)


def _why_not(past: McpToolInvocation | Removed, scope: str) -> str:
    """Return why the answer of a call that has ended cannot be given again, as a sentence; empty where it can."""
    if isinstance(past, Removed):
        return (
            "The first call under this key has ended, and is not made again. Its answer cannot be repeated: retention "
            "has removed it from the audit. Find out whether it took effect before you use a new key."
        )
    ended = "succeeded" if past.status == "ok" else f"failed with {past.error_code}"
    if isinstance(past.result, str) or isinstance(past.error, str):
        return (
            f"The first call under this key {ended}, and is not made again. Its answer cannot be repeated: retention "
            "has erased it from the audit. Look the first invocation up."
        )
    if past.result is not None and past.result.get("resultType") == "input_required":
        if scope.startswith(_APPROVAL):
            return (
                "The call was made under its approval, asked its client, and is not made again. Go on with the answers "
                "and the requestState that it gave, or call later: it is asked anew."
            )
        return "The first call under this key asked its client and ended there. Begin again with a new key."
    if past.error_code == errors.UrlElicitationRequired.code and scope.startswith("caller:"):
        return "The first call under this key ended with an address to open. Begin again with a new key."
    if past.status == "ok" and "result" in (past.left_out or {}):
        is_redacted = "redacted" in past.left_out["result"]
        because = (
            ", because it holds what looks like a secret or what a redaction rule marks; the details say where"
            if is_redacted
            else ""
        )
        return (
            "The first call under this key succeeded, and is not made again. Its answer cannot be repeated: the audit "
            f"does not keep it whole{because}. Look the first invocation up."
        )
    return ""


def _known(past: McpToolInvocation | Removed) -> dict[str, Json]:
    """Return the recorded end of a call, for the details of an error."""
    if isinstance(past, Removed):
        return {}
    known: dict[str, Any] = {"status": past.status, "finished_at": past.finished_at.isoformat(timespec="milliseconds")}
    places = (past.left_out or {}).get("result", {}).get("redacted")
    if places:
        known["redacted"] = places
    return {**known, "error_code": past.error_code} if past.error_code else known


def as_error(stored: McpToolInvocation) -> errors.HubError:
    """Return the error that a stored outcome was answered with."""
    return error_of(stored.error, stored.invocation_id)


def error_of(rendered: Mapping[str, Json], invocation_id: str) -> errors.HubError:
    """Return the error that was rendered as a JSON-RPC error."""
    data = rendered.get("data", {})
    kinds = {kind.code: kind for kind in errors._tree(errors.HubError)}
    kind = kinds.get(data.get("errorCode"), errors.ServerError)
    error = kind.__new__(kind)
    errors.HubError.__init__(error, rendered.get("message"), **data.get("details", {}))
    error.invocation_id = invocation_id
    return error
