"""HTTP+SSE as the way to an upstream: one stream of events for all that comes, a POST for what is sent."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import Final

import httpx2

from sessions_app.protocol import errors, sse
from tools_catalog.upstream.http import HttpEndpoint, is_within
from tools_catalog.upstream.limits import TOO_MANY
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.upstream.transports.base import Message, MessageHandler, decoded
from tools_catalog.upstream.transports.shared import SharedStream
from tools_catalog.upstream.wire import WireResponse

logger = logging.getLogger(__name__)

_LISTENING: Final = b"accept: text/event-stream\r\ncache-control: no-store\r\n"
_SEND_SECONDS: Final = 10.0
"""For a message to be taken."""


class EventStream(SharedStream):
    """The stream, and the address for messages that the upstream names on it."""

    def __init__(self, spec: ConnectionSpec, http: HttpEndpoint, handler: MessageHandler) -> None:
        super().__init__(handler, spec.max_notifications)
        self._spec = spec
        self._http = http
        self._endpoint: asyncio.Future[httpx2.URL] = asyncio.get_running_loop().create_future()
        self._reader: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        response = await self._http.send(b"GET", _LISTENING)
        if response.status >= 300:
            response.close()
            raise errors.ConnectionFailed(f"The upstream answered with status {response.status}.")
        self._reader = asyncio.create_task(
            self._read(response), name=f"mcphub-upstream-{self._spec.slug}-events", context=contextvars.Context()
        )
        await asyncio.shield(self._endpoint)

    async def send(self, message: bytes) -> None:
        """Post a message. One that is not taken ends the connection: nobody could tell which answer is missing."""
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                response = await self._http.send(b"POST", b"", message, url=self._endpoint.result())
        except (TimeoutError, errors.HubError) as error:
            logger.info("A message to the upstream %s was not taken: %s", self._spec.slug, type(error).__name__)
            self.end("The upstream takes no messages.")
            return
        if response.status >= 300:
            self.end(f"The upstream refuses messages with status {response.status}.")
        response.release()

    def send_soon(self, message: bytes) -> None:
        task = asyncio.create_task(self.send(message), name=f"mcphub-upstream-{self._spec.slug}-send")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def abort(self) -> None:
        self.end("The connection ended.")
        self._http.close()

    async def close(self) -> None:
        self.abort()
        tasks = [*self._sending, *([self._reader] if self._reader is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def end(self, why: str) -> None:
        super().end(why)
        if not self._endpoint.done():
            self._endpoint.set_exception(errors.ConnectionFailed(why))
            self._endpoint.exception()  # nobody may be waiting for it any more

    async def _read(self, response: WireResponse) -> None:
        try:
            self.end(await self._ended_because(response))
        except sse.EventTooLarge:
            self.end(f"The upstream sent a message of more than {self._spec.max_response_bytes} bytes.")
        except errors.ConnectionFailed as error:
            self.end(str(error))
        except errors.TransportError:
            self.end("The connection to the upstream broke.")
        finally:
            response.close()

    async def _ended_because(self, response: WireResponse) -> str:
        """Read the stream; give why it ended. Raises EventTooLarge, ConnectionFailed, TransportError."""
        decoder = sse.Decoder(max_event_bytes=self._spec.max_response_bytes)
        while chunk := await response.chunk():
            for event in decoder.feed(chunk):
                if event.event == "endpoint" and not self._endpoint.done():
                    self._endpoint.set_result(_endpoint(response.url, event.data))
                elif event.event == "message" and self._endpoint.done():
                    message = await _read_event(event)
                    if self.is_too_much(message):
                        return TOO_MANY
                    if self.flood.is_pausing:
                        await self.flood.pause()
                    if message is not None:
                        await self.route(message)
        return "The upstream closed the connection."


async def _read_event(event: sse.ServerSentEvent) -> Message | None:
    """Give the message of an event; None for what is none, which is passed over, as on other streams."""
    try:
        return await decoded(event.data.encode("utf-8", "surrogatepass"))
    except errors.ResultInvalid:
        return None


def _endpoint(stream: httpx2.URL, named: str) -> httpx2.URL:
    try:
        found = stream.join(named)
    except httpx2.InvalidURL as error:
        raise errors.ConnectionFailed("The upstream names no address for messages that can be read.") from error
    if not is_within(stream, found):
        raise errors.ConnectionFailed("The upstream wants messages sent to another server, which the hub does not do.")
    return found
