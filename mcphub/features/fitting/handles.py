"""Whole results, kept for their callers: bounded in number, bytes and time, in the database that all workers share."""

from __future__ import annotations

import base64
import secrets as randomness
import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from invocations.redaction import records
from mcphub.features.fitting.models import KeptResult
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.secrets import SecretError

PREFIX = "mcphub://results/"
KEPT = timedelta(hours=1)
MOST_OF_CALLER = 100
MOST_BYTES_OF_CALLER = 64 * 1024 * 1024
"""As they are stored. The oldest make room for a new one."""
LARGEST = 16 * 1024 * 1024
"""Characters of one result. A larger one is not kept."""
_SLICE = 500


@dataclass(frozen=True, slots=True)
class Handle:
    id: str
    expires_at: datetime

    @property
    def uri(self) -> str:
        return f"{PREFIX}{self.id}"


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole result that was found again."""

    tool_name: str
    invocation_id: str
    is_hidden_on_record: bool
    wire: dict[str, Json]


def keep(
    wire: dict[str, Json], *, principal: str, tool_name: str, invocation_id: str, characters: int, is_hidden: bool
) -> Handle:
    """Write a result in one transaction, and remove the caller's oldest ones beyond the bounds.

    It is committed before its call is recorded: a recorded handle always exists, and a handle that no record names
    was sent to nobody and expires.
    """
    id_ = randomness.token_urlsafe(24)
    now = timezone.now()
    sealed = records.seal(_packed(wire), of=_owner(id_, principal))
    row = KeptResult(
        id=id_,
        principal=principal,
        tool_name=tool_name,
        invocation_id=invocation_id,
        content=sealed,
        stored_bytes=len(sealed),
        characters=characters,
        is_hidden_on_record=is_hidden,
        created_at=now,
        expires_at=now + KEPT,
    )
    with transaction.atomic():
        row.save(force_insert=True)
        _trim(principal, id_)
    return Handle(id_, row.expires_at)


def find(id_: str, principal: str) -> Whole | None:
    """Return a caller's result; None also for another's, and for an expired one."""
    row = KeptResult.objects.filter(pk=id_, principal=principal, expires_at__gt=timezone.now()).first()
    if row is None:
        return None
    try:
        packed = records.unseal(row.content, of=_owner(id_, principal))
    except SecretError:
        return None  # its key was taken away since
    return Whole(row.tool_name, row.invocation_id, row.is_hidden_on_record, _unpacked(packed))


def purge() -> None:
    """Delete expired results, some at a time."""
    old = KeptResult.objects.filter(expires_at__lte=timezone.now()).values_list("pk", flat=True)
    while ids := list(old[:_SLICE]):
        KeptResult.objects.filter(pk__in=ids).delete()


def _trim(principal: str, newest: str) -> None:
    rows = KeptResult.objects.filter(principal=principal).order_by("-created_at", "pk")
    count = used = 0
    gone: list[str] = []
    for id_, stored in rows.values_list("pk", "stored_bytes"):
        count, used = count + 1, used + stored
        if id_ != newest and (count > MOST_OF_CALLER or used > MOST_BYTES_OF_CALLER):
            gone.append(id_)
    if gone:
        KeptResult.objects.filter(pk__in=gone).delete()


def _packed(wire: dict[str, Json]) -> str:
    """Return a result compressed before it is encrypted: copies of a large one are most of what keeping it takes."""
    return base64.b64encode(zlib.compress(json.dumps(wire), 1)).decode()


def _unpacked(packed: str) -> dict[str, Json]:
    wire: dict[str, Json] = json.loads_stored(zlib.decompress(base64.b64decode(packed)))
    return wire


def _owner(id_: str, principal: str) -> str:
    return f"result {id_} of {principal}"
