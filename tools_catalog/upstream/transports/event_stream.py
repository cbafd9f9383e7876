"""HTTP+SSE as the way to an upstream: one stream of incoming events, a POST for each outgoing message."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import Final

import httpx2

from sessions_app.protocol import errors, sse
from tools_catalog.upstream.http import CredentialsRefused, HttpEndpoint, StatusError, is_within, refusal_of
from tools_catalog.upstream.limits import TOO_MANY
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.upstream.transports.base import MessageHandler
from tools_catalog.upstream.transports.refusals import TransportRefusal
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
            raise StatusError(response.status, await refusal_of(response))
        if not response.headers.get(b"content-type", b"").lower().startswith(b"text/event-stream"):
            response.close()
            raise errors.ConnectionFailed(
                "The upstream gives no stream of events there. Where it speaks Streamable HTTP, choose that transport."
            )
        self._reader = asyncio.create_task(
            self._read(response), name=f"mcphub-upstream-{self._spec.slug}-events", context=contextvars.Context()
        )
        await asyncio.shield(self._endpoint)

    async def send(self, message: bytes) -> None:
        """Post a message. A rejected message ends the connection: the missing answer could not be identified."""
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                response = await self._http.send(b"POST", b"", message, url=self._endpoint.result())
        except CredentialsRefused as error:
            self._end_refused(error.refusal)
            return
        except (TimeoutError, errors.HubError) as error:
            logger.info("A message to the upstream %s was not taken: %s", self._spec.slug, type(error).__name__)
            self.end("The upstream takes no messages.")
            return
        if response.status >= 300:
            self._end_refused(await refusal_of(response))
            return
        response.release()

    def _end_refused(self, refusal: TransportRefusal) -> None:
        """End the stream whose messages are refused, as one that the upstream forgot where it says so."""
        self.is_session_unknown = self._ended is None and refusal.loses_session(-1)
        said = f" It says: {refusal.words}" if refusal.words else ""
        self.end(f"The upstream refuses messages with status {refusal.status}.{said}")

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
        if not self._endpoint.done():  # before the handler is told, which aborts with words of its own
            self._endpoint.set_exception(errors.ConnectionFailed(why))
            self._endpoint.exception()  # nobody may be waiting for it any more
        super().end(why)

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
                    messages = await self.read(event.data.encode("utf-8", "surrogatepass"))
                    if self.is_too_much(messages):
                        return TOO_MANY
                    if self.flood.is_pausing:
                        await self.flood.pause()
                    for message in messages:
                        await self.route(message)
        return "The upstream closed the connection."


def _endpoint(stream: httpx2.URL, named: str) -> httpx2.URL:
    try:
        found = stream.join(named)
    except httpx2.InvalidURL as error:
        raise errors.ConnectionFailed("The upstream names no address for messages that can be read.") from error
    if (stream.scheme, found.scheme, found.host, found.port) == ("https", "http", stream.host, None):
        found = found.copy_with(scheme="https", port=stream.port)  # behind a proxy that ends TLS it knows of none
    if not is_within(stream, found):
        there = f"{found.scheme}://{found.netloc.decode('ascii', 'replace')}"[:200]
        raise errors.ConnectionFailed(
            f"The upstream wants messages sent to another server, {there}, which the hub does not do. Use that address "
            "in the connection, or have the upstream name its public address."
        )
    return found
