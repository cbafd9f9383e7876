"""Events as a service of the hub: it wakes the streams of its process when the log grows."""

from __future__ import annotations

from mcphub.features.events.recording import OCCURRED
from mcphub.process.runtime import Hub
from mcphub.process.services import BackgroundService
from mcphub.server.listening import Stream
from sessions_app.bus import BusMessage

NEWS = b"\n"
"""A message on a stream of this feature: the log grew. It is not sent on."""


class StreamWaker:
    """One stream that waits for an event. However many occur, one message waits in it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._is_woken = False

    def wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._stream.push(NEWS)

    def reads(self) -> None:
        """Wake it again from now on."""
        self._is_woken = False


class EventsService(BackgroundService):
    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self._wakers: dict[str, set[StreamWaker]] = {}
        """By the name of the event."""

    @classmethod
    def within(cls, hub: Hub) -> EventsService:
        return next(each for each in hub.services if isinstance(each, cls))

    def listen(self) -> None:
        self.hub.follower.on([OCCURRED], self._occurred)

    def add(self, name: str, stream: Stream) -> StreamWaker:
        waker = StreamWaker(stream)
        self._wakers.setdefault(name, set()).add(waker)
        return waker

    def remove(self, name: str, waker: StreamWaker) -> None:
        own = self._wakers.get(name, set())
        own.discard(waker)
        if not own:
            self._wakers.pop(name, None)

    def _occurred(self, message: BusMessage) -> None:
        for waker in self._wakers.get(message.payload, ()):
            waker.wake()
