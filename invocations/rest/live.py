"""GET /api/invocations/stream/: calls as they are recorded, as server-sent events that miss none.

An event's id is the sequence of its call, so a client that comes back with `Last-Event-ID` goes on there, at any
worker. On PostgreSQL a row may come to light after one of a higher sequence; a stream sends nothing beyond the point
below which every row that will ever be is visible (`Log.writers`, as for sealing).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

from asgiref.sync import sync_to_async
from django.db import DatabaseError, connection
from django.db.models import QuerySet
from rest_framework.exceptions import ValidationError

from invocations.chain.service import log_on
from invocations.chain.settling import Settling
from invocations.models import McpToolInvocation
from invocations.rest.filters import CallFilters
from sessions_app.protocol import json
from sessions_app.protocol.errors import HubError, ServerBusy
from sessions_app.protocol.json import Json

MOST_STREAMS = 32
"""In one process: each holds a thread and a connection while it reads."""
_LOOK_SECONDS = 0.2
_FIRST_SECONDS = 2
_HEARTBEAT_SECONDS = 15
_CHECK_SECONDS = 5
"""How often it is asked whether the reader still may."""
_BATCH = 200


class LiveFilters(CallFilters):
    """The filters of the list, without a time: a stream runs from a sequence on."""

    def filter_queryset(self, queryset: QuerySet[McpToolInvocation]) -> QuerySet[McpToolInvocation]:
        for name in ("started_after", "started_before"):
            if self.form.cleaned_data[name]:
                raise ValidationError({name: ["A stream begins with Last-Event-ID, and has no end. Leave this out."]})
        return super().filter_queryset(queryset)


class SettlingCalls:
    """Follows the sequence up to which all calls are visible. One a process; its methods run on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked = 0.0
        self._settled = 0
        self._settling = Settling("invocation")

    def look(self) -> int:
        """Return the sequence, asking the database a few times a second at most, whoever asks."""
        with self._lock:
            if time.monotonic() - self._looked >= _LOOK_SECONDS:
                log = log_on(connection)
                if not self._settling.is_known:
                    self._settled = self._settling.await_first(log, _FIRST_SECONDS)
                self._settled = max(self._settled, self._settling.look(log))
                self._looked = time.monotonic()
            return self._settled


settling = SettlingCalls()
_open: set[object] = set()
_stopping = threading.Event()


def begin() -> None:
    """Let streams run: the process serves."""
    _stopping.clear()


def end_all() -> None:
    """End the streams of this process within a moment; their clients come back to another."""
    _stopping.set()


def position_of(word: str | None) -> int:
    """Return the sequence after which a stream begins: `Last-Event-ID`, or else now."""
    if word is None:
        return settling.look()
    if not word.isascii() or not word.isdecimal() or len(word) > 18:
        raise ValidationError({"Last-Event-ID": ["Send the id of the last event that came: a number."]})
    return int(word)


async def events(
    rows: QuerySet[McpToolInvocation],
    position: int,
    shown: Callable[[list[McpToolInvocation]], Iterator[Mapping[str, Json]]],
    may_read: Callable[[], bool],
    beside: Callable[[], bytes] | None = None,
) -> AsyncIterator[bytes]:
    """Return the events after `position`. `shown` gives rows as they are answered, and records that bodies are read.

    `beside` gives events of other kinds that are to be sent with them; it is asked at every look.
    """
    ticket = object()
    _open.add(ticket)
    try:
        yield b"retry: 2000\n: calls as they are recorded\n\n"
        sent_at = checked = time.monotonic()
        while not _stopping.is_set():
            try:
                chunk, position = await sync_to_async(_batch)(rows, position, shown)
                if beside is not None:
                    chunk += await sync_to_async(beside)()
                if time.monotonic() - checked > _CHECK_SECONDS:
                    checked = time.monotonic()
                    if not await sync_to_async(may_read)():
                        return
            except DatabaseError:
                chunk = b""  # the client waits as the hub does
            except HubError as error:
                yield b"event: error\ndata: " + json.dumps({"code": error.code, "message": str(error)}) + b"\n\n"
                return
            if chunk:
                sent_at = time.monotonic()
                yield chunk
                continue
            if time.monotonic() - sent_at > _HEARTBEAT_SECONDS:
                sent_at = time.monotonic()
                # Moves the client's last id past calls that its filter left out.
                yield b"id: %d\n: still here\n\n" % position
            await asyncio.sleep(_LOOK_SECONDS)
    finally:
        _open.discard(ticket)
        await sync_to_async(_close)()


def _close() -> None:
    connection.close()  # this thread's own: Django's proxy gives each thread another


def check_room() -> None:
    """Raise ServerBusy at the bound of this process."""
    if len(_open) >= MOST_STREAMS:
        busy = ServerBusy(f"This process holds {MOST_STREAMS} live streams already. Try again later.")
        busy.retry_after_seconds = 10
        raise busy


def _batch(
    rows: QuerySet[McpToolInvocation],
    position: int,
    shown: Callable[[list[McpToolInvocation]], Iterator[Mapping[str, Json]]],
) -> tuple[bytes, int]:
    settled = settling.look()
    if settled <= position:
        return b"", position
    found = list(rows.filter(id__gt=position, id__lte=settled).order_by("id")[:_BATCH])
    parts = [
        b"id: %d\nevent: invocation\ndata: %b\n\n" % (row.pk, json.dumps(answer))
        for row, answer in zip(found, shown(found), strict=True)
    ]
    return b"".join(parts), found[-1].pk if len(found) == _BATCH else settled
