"""The events of calls' streams as rows, within bounds: for clients that reconnect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models.functions import Length
from django.utils import timezone

from sessions_app import bus
from sessions_app.kit.database import delete_in_slices
from sessions_app.models import StreamEvent

MOST_EVENTS = 1000
"""Of one session; the oldest go first."""
MOST_CHARACTERS = 4 * 1024 * 1024
"""The same, of their messages."""
KEEP_SECONDS = 900
_PAGE = 100


@dataclass(frozen=True, slots=True)
class CallStreamEvent:
    """One event; `message` is empty for the first, which only carries its ID."""

    session_id: str
    stream: str
    number: int
    message: bytes
    is_last: bool = False
    is_awaited: bool = False
    """Another process may be waiting for it."""

    @property
    def id(self) -> str:
        return f"{self.stream}.{self.number}"


def write(events: Sequence[CallStreamEvent]) -> None:
    """Store events, and notify waiting processes. May be repeated."""
    with transaction.atomic():
        StreamEvent.objects.bulk_create(
            [
                StreamEvent(
                    session_id=event.session_id,
                    stream=event.stream,
                    number=event.number,
                    message=event.message.decode(),
                    is_last=event.is_last,
                )
                for event in events
            ],
            ignore_conflicts=True,
        )
        for stream in sorted({event.stream for event in events if event.is_awaited}):
            bus.publish(bus.STREAM_GREW, stream)


def is_kept(session_id: str, stream: str, number: int) -> bool:
    """Return whether the stream of the session can be gone on with after this event."""
    return StreamEvent.objects.filter(session_id=session_id, stream=stream, number__in=(number, number + 1)).exists()


def is_whole(session_id: str, stream: str, number: int) -> bool:
    """Return whether this event is the last of its stream."""
    return StreamEvent.objects.filter(session_id=session_id, stream=stream, number=number, is_last=True).exists()


def after(session_id: str, stream: str, number: int) -> list[CallStreamEvent]:
    """Return the events that follow, without a gap, a page at a time."""
    rows = StreamEvent.objects.filter(session_id=session_id, stream=stream, number__gt=number).order_by("number")
    found = []
    for row in rows[:_PAGE]:
        number += 1
        if row.number != number:
            break
        found.append(CallStreamEvent(session_id, stream, number, row.message.encode(), row.is_last))
    return found


def trim(session_id: str) -> None:
    """Bring a session back within its bounds."""
    sizes = StreamEvent.objects.filter(session_id=session_id).order_by("-id").values_list("id", Length("message"))
    total = 0
    for count, (id_, size) in enumerate(sizes.iterator(), 1):
        total += size
        if count > MOST_EVENTS or total > MOST_CHARACTERS:
            StreamEvent.objects.filter(session_id=session_id, id__lte=id_).delete()
            return


def purge() -> int:
    """Remove events that nobody came back for in time; give the count."""
    horizon = timezone.now() - timedelta(seconds=KEEP_SECONDS)
    return delete_in_slices(StreamEvent.objects.filter(created_at__lt=horizon))
