"""The live streams of the console, over django-eventstream: each process sends to the streams that it holds.

The library carries events between processes by Redis or a proxy; here the change bus does, and the library's
listeners are notified within the process. An event means only that there is something new. The page then asks, under
its own login, so nothing that a person may not read goes through a stream. A page that comes back asks once more:
nothing is lost while no stream is open.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.http import HttpRequest, QueryDict, StreamingHttpResponse
from django_eventstream import views
from django_eventstream.channelmanager import DefaultChannelManager
from django_eventstream.event import Event

from sessions_app.protocol.errors import ServerBusy

if TYPE_CHECKING:
    from django.contrib.auth.models import User

CHANNEL = "notices"
MOST_STREAMS = 500
"""In one process."""
MOST_OF_PERSON = 10
"""Of them, of one person: a page holds one only while it is seen."""
_CHECK_SECONDS = 15
"""How often it is asked whether the login still holds; the library wakes a stream every 20 seconds."""

_open: Counter[int] = Counter()
_is_ending = False


class Channels(DefaultChannelManager):  # type: ignore[misc]
    """One channel, for people of the console. Nothing is stored: the notices are rows."""

    def can_read_channel(self, user: User | None, channel: str) -> bool:
        return user is not None and user.is_active and user.is_staff and channel == CHANNEL and not _is_ending

    def is_channel_reliable(self, channel: str) -> bool:
        return False


def begin() -> None:
    global _is_ending
    _is_ending = False


def end_all() -> None:
    """End the streams of this process; their pages come back to another."""
    global _is_ending
    _is_ending = True
    manager = views.get_listener_manager()
    with manager.lock:
        listeners = [each for held in manager.listeners_by_channel.values() for each in held]
    for each in listeners:
        each.error = {"condition": "ending", "text": "The server stops."}
        each.wake_threadsafe()


def tell(number: str) -> None:
    """Notify the streams of this process of a new notice. Costs nothing where there is none."""
    views.get_listener_manager().add_to_queues(CHANNEL, Event(CHANNEL, "notice", number))


def stream(request: HttpRequest) -> StreamingHttpResponse:
    """Open a stream for the person of the request. Raises ServerBusy at the bounds of this process."""
    person = request.user.pk or 0
    if _is_ending or _open.total() >= MOST_STREAMS or _open[person] >= MOST_OF_PERSON:
        busy = ServerBusy("This process holds as many live pages as it may. The page asks again by itself.")
        busy.retry_after_seconds = 30
        raise busy
    # The library takes channels and a person from the query, too. Here they are the hub's to say.
    request.GET = QueryDict()
    request.META.pop("HTTP_LAST_EVENT_ID", None)
    answer: StreamingHttpResponse = views.events(request, channels=[CHANNEL])
    answer.streaming_content = _watched(answer.streaming_content, request, person)
    answer["X-Accel-Buffering"] = "no"
    answer["Cache-Control"] = "no-store"
    return answer


async def _watched(chunks: Any, request: HttpRequest, person: int) -> AsyncIterator[bytes]:
    _open[person] += 1
    checked = time.monotonic()
    try:
        async for chunk in chunks:
            if _is_ending:
                return
            if time.monotonic() - checked > _CHECK_SECONDS:
                checked = time.monotonic()
                if not await sync_to_async(_still_logged_in)(request):
                    return
            yield chunk
    finally:
        _open[person] -= 1
        if _open[person] <= 0:
            del _open[person]


def _still_logged_in(request: HttpRequest) -> bool:
    person = get_user_model()._default_manager.filter(pk=request.user.pk or 0, is_active=True, is_staff=True)
    key = request.session.session_key
    return person.exists() and key is not None and request.session.exists(key)
