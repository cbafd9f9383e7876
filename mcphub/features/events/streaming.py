"""`events/stream`: one subscription as a request that lasts, fed from the log of events (SEP-3415, Push)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from channels.db import database_sync_to_async
from django.db import DatabaseError

from invocations.call_source import ClientChannel
from mcphub.features.events import methods, reading
from mcphub.features.events.access import ending_of
from mcphub.features.events.errors import numbered
from mcphub.features.events.hub import EventsService, StreamWaker
from mcphub.features.events.reading import EventFilter, EventPage
from mcphub.features.events.subscriber import EventSubscriber
from mcphub.server.listening import HEARTBEAT, Filter, Stream
from mcphub.server.results import IDENTITY
from sessions_app.protocol.errors import INTERNAL_ERROR
from sessions_app.protocol.json import Json

if TYPE_CHECKING:
    from mcphub.process.runtime import Hub
    from mcphub.server.exchange import McpExchange, Result

logger = logging.getLogger(__name__)


@numbered
async def events_stream(exchange: McpExchange, params: dict[str, Json]) -> Result:
    receiver = await methods.receiver_of(exchange)
    wanted = methods.wanted_of(receiver, params)
    after, max_age = reading.position_of(params.get("cursor")), methods.age_of(params)
    hub, channel = exchange.hub, exchange.channel
    assert channel is not None
    meta: dict[str, Json] = {"io.modelcontextprotocol/subscriptionId": exchange.request_id}
    stream = hub.streams.open(exchange.source.caller, None, Filter(), meta)
    service = EventsService.within(hub)
    waker = service.add(wanted.name, stream)
    try:
        start = await database_sync_to_async(reading.begin)(wanted, after, max_age)
        feed = EventFeed(hub, channel, EventSubscriber.of(exchange), wanted, stream, start)
        gone = exchange.gone or exchange.watch
        assert gone is not None
        watcher = asyncio.ensure_future(gone())
        watcher.add_done_callback(lambda _: stream.abandon())
        try:
            await feed.run(waker)
        finally:
            watcher.cancel()
    finally:
        service.remove(wanted.name, waker)
        hub.streams.remove(stream)
    return {"resultType": "complete", "_meta": {**meta, **IDENTITY}}


class EventFeed:
    """Sends the events of one subscription on, from a position."""

    def __init__(
        self,
        hub: Hub,
        channel: ClientChannel,
        subscriber: EventSubscriber,
        wanted: EventFilter,
        stream: Stream,
        start: EventPage,
    ) -> None:
        self._hub = hub
        self._channel = channel
        self._subscriber = subscriber
        self._wanted = wanted
        self._stream = stream
        self._start = start
        self._position = start.position

    async def run(self, waker: StreamWaker) -> None:
        """Send until the stream is closed, or the caller loses the right."""
        await self._say("active", cursor=reading.cursor_of(self._position), truncated=self._start.is_truncated)
        goes_on = await self._send_new()
        while goes_on:
            try:
                message = await anext(self._stream)
            except StopAsyncIteration:
                return
            waker.reads()
            goes_on = await self._send_new()
            if goes_on and message == HEARTBEAT:
                await self._say("heartbeat", cursor=reading.cursor_of(self._position))

    async def _send_new(self) -> bool:
        """Send the events after the position; return False once the subscription is over."""
        try:
            return await self._send_pages()
        except DatabaseError as error:
            logger.warning("Events could not be read for a stream: %s", error)
            words = "The hub's database cannot be used at this moment. The stream goes on by itself."
            await self._say("error", error={"code": INTERNAL_ERROR, "message": words})
            return True

    async def _send_pages(self) -> bool:
        receiver = await database_sync_to_async(self._subscriber.receiver)(self._hub.configuration.catalog)
        ending = ending_of(receiver, self._wanted.name)
        if receiver is None or ending is not None:
            await self._say("terminated", error=None if ending is None else ending.wire())
            return False
        while True:
            page = await database_sync_to_async(reading.page)(receiver, self._wanted, self._position)
            if page.is_truncated:
                await self._say("active", cursor=reading.cursor_of(page.position), truncated=True)
            for each in page.found:
                if self._stream.is_closed:  # while this page was read
                    return False
                await self._say("event", **each.wire, cursor=reading.cursor_of(each.position))
            self._position = page.position
            if not page.has_more:
                return True

    async def _say(self, what: str, **params: Json) -> None:
        await self._channel.notify(f"notifications/events/{what}", {**params, "_meta": self._stream.meta or {}})
