"""Events as a service of the hub: it wakes the streams of its process when the log grows, sends to callbacks, and
receives from upstreams.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from mcphub.features.events.delivering import Deliverer
from mcphub.features.events.recording import OCCURRED
from mcphub.features.events.relay import EventRelay
from mcphub.process.runtime import Hub
from mcphub.process.services import BackgroundService
from mcphub.server.listening import Stream
from sessions_app.bus import BusMessage

logger = logging.getLogger(__name__)

_TURN_SECONDS = 3.0
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
        self._deliverer = Deliverer(hub.process_id, lambda: hub.configuration.catalog, hub.is_gone)
        self._grew = asyncio.Event()
        specs = lambda: hub.configuration.catalog.upstreams.specs  # noqa: E731 - read anew at each look
        inspect = lambda value, subject: hub.calls.stages.sent(value, subject, hub.configuration)  # noqa: E731 - as above
        self.relay = EventRelay(hub.process_id, hub.upstreams, specs, hub.is_gone, inspect)
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    def within(cls, hub: Hub) -> EventsService:
        return next(each for each in hub.services if isinstance(each, cls))

    def listen(self) -> None:
        self.hub.follower.on([OCCURRED], self._occurred)

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._send_on(), name="mcphub-sending-events"),
            asyncio.create_task(self.relay.run(), name="mcphub-receiving-events"),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._deliverer.stop()
        await self.relay.stop()

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
        self._grew.set()

    async def _send_on(self) -> None:
        while True:
            self._grew.clear()
            try:
                arrived = await self._deliverer.send_due()
            except Exception as error:
                arrived = 0
                logger.warning("Events could not be sent: %s", error)
            if not arrived:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_TURN_SECONDS):
                        await self._grew.wait()
