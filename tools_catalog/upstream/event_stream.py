"""HTTP+SSE as the transport of an MCP client: one stream of events for all that comes, a POST for what is sent.

The SDK's own takes no event above a mebibyte, whatever answers the connection allows, and never says why it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from sessions_app.protocol import errors, sse
from tools_catalog.upstream.limits import Flood
from tools_catalog.upstream.spec import ConnectionSpec

_HEADERS = {"accept": "text/event-stream", "cache-control": "no-store"}


class ToEndpoint:
    """The SDK's write stream: each message a POST to where the upstream wants them."""

    def __init__(self, http: httpx2.AsyncClient, url: httpx2.URL, flood: Flood) -> None:
        self._http = http
        self._url = url
        self._flood = flood

    async def send(self, item: SessionMessage) -> None:
        body = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        self._flood.sent(item.message)
        try:
            await self._http.post(self._url, content=body, headers={"content-type": "application/json"})
        except httpx2.HTTPError as error:
            raise anyio.BrokenResourceError from error

    async def aclose(self) -> None:
        """There is nothing to close: the connection ends with its stream of events."""

    async def __aenter__(self) -> ToEndpoint:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@asynccontextmanager
async def connect(
    http: httpx2.AsyncClient, spec: ConnectionSpec, lost: Callable[[str], None]
) -> AsyncIterator[tuple[Any, ToEndpoint]]:
    """Open the stream, wait until the upstream has said where messages go, and give the SDK's pair of streams.

    `lost` is told why it ends. Raises ConnectionFailed and httpx2's errors.
    """
    endpoint: asyncio.Future[httpx2.URL] = asyncio.get_running_loop().create_future()
    async with _opened(http, spec.url) as response:
        into, out_of = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        flood = Flood(spec.max_notifications)
        reader = asyncio.create_task(
            _read(response, into, endpoint, spec, flood, lost), name=f"mcphub-upstream-{spec.slug}-events"
        )
        try:
            yield out_of, ToEndpoint(http, await endpoint, flood)
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            out_of.close()


@asynccontextmanager
async def _opened(http: httpx2.AsyncClient, url: str) -> AsyncIterator[httpx2.Response]:
    """Get the stream. Redirects are followed within the origin, for which the headers were meant."""
    request = http.build_request("GET", url, headers=_HEADERS)
    for followed in range(http.max_redirects + 1):
        response = await http.send(request, stream=True, follow_redirects=False)
        again = response.next_request
        if followed == http.max_redirects or again is None or not _is_within(request.url, again.url):
            break
        await response.aclose()
        request = again
    try:
        response.raise_for_status()
        yield response
    finally:
        await response.aclose()


def _is_within(url: httpx2.URL, other: httpx2.URL) -> bool:
    """Whether the other address is of the same origin, or is it over TLS, and brings no credentials of its own."""
    there = (other.scheme, other.raw_host, other.port)
    is_over_tls = url.scheme == "http" and url.port is None and there == ("https", url.raw_host, None)
    is_same = there == (url.scheme, url.raw_host, url.port)
    return (is_same or is_over_tls) and other.userinfo in (b"", url.userinfo)


async def _read(
    response: httpx2.Response,
    into: Any,
    endpoint: asyncio.Future[httpx2.URL],
    spec: ConnectionSpec,
    flood: Flood,
    lost: Callable[[str], None],
) -> None:
    decoder = sse.Decoder(max_event_bytes=spec.max_response_bytes)
    why = "The upstream closed the connection."
    try:
        async for chunk in response.aiter_bytes():
            for event in decoder.feed(chunk):
                if event.event == "endpoint" and not endpoint.done():
                    endpoint.set_result(_endpoint(response.url, event.data))
                elif event.event == "message" and endpoint.done():
                    message = None
                    with contextlib.suppress(ValueError):  # what is no message is passed over, as on other streams
                        message = jsonrpc_message_adapter.validate_json(event.data, by_name=False)
                    if flood.is_over_with(message):
                        why = "The upstream sends too many notifications."
                        return
                    await flood.pause()
                    if message is not None:
                        await into.send(SessionMessage(message))
    except sse.EventTooLarge:
        why = f"The upstream sent a message of more than {spec.max_response_bytes} bytes."
    except httpx2.StreamError as error:
        why = str(error)
    except errors.ConnectionFailed as error:
        why = str(error)
    except (httpx2.HTTPError, anyio.BrokenResourceError):
        why = "The connection to the upstream broke."
    finally:
        lost(why)
        if not endpoint.done():
            endpoint.set_exception(errors.ConnectionFailed(why))
            endpoint.exception()  # nobody may be waiting for it any more
        into.close()


def _endpoint(stream: httpx2.URL, said: str) -> httpx2.URL:
    try:
        found = stream.join(said)
    except httpx2.InvalidURL as error:
        raise errors.ConnectionFailed("The upstream names no address for messages that can be read.") from error
    if not _is_within(stream, found):
        raise errors.ConnectionFailed("The upstream wants messages sent to another server, which the hub does not do.")
    return found
