"""The ways to an upstream as the SDK's client takes them: each a pair of streams, bounded, and telling of its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mcp.client.streamable_http import streamable_http_client

from tools_catalog.upstream import declaring, event_stream, http, readable
from tools_catalog.upstream.spec import SSE, STDIO, ConnectionSpec, Secrets
from tools_catalog.upstream.stdio import LastWords, child


@asynccontextmanager
async def opened(
    spec: ConnectionSpec, secret: Secrets, last_words: LastWords, lost: Callable[[str], None], lasts_seconds: float
) -> AsyncIterator[AbstractAsyncContextManager[Any]]:
    """Give the transport of a connection, not entered yet. `lost` is told once it can carry no more, and why;
    `lasts_seconds` bounds one answer over HTTP."""
    if spec.transport == STDIO:
        yield _watched(child(spec, secret, last_words, lost), lost)
        return
    made = http.client(spec, secret, lost, lasts_seconds)
    try:
        if spec.transport == SSE:
            yield _watched(event_stream.connect(made, spec, lost), lost)
        else:
            yield _watched(
                streamable_http_client(spec.url, http_client=made, max_sse_event_size=spec.max_response_bytes), lost
            )
    finally:
        await made.aclose()


@asynccontextmanager
async def _watched(
    inner: AbstractAsyncContextManager[Any], lost: Callable[[str], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """The same transport, telling when the other side has ended it; what it carries fits the SDK and the hub."""
    async with inner as (read, write):
        yield _WatchedStream(read, lost), _Declaring(write)


class _WatchedStream:
    """The SDK's read stream, with all in it that the client can read; `lost` is called at its end."""

    def __init__(self, inner: Any, lost: Callable[[str], None]) -> None:
        self._inner = inner
        self._lost = lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # the SDK looks for `last_context`

    def __aiter__(self) -> _WatchedStream:
        return self

    async def __anext__(self) -> Any:
        try:
            message = await self._inner.__anext__()
        except StopAsyncIteration:
            self._lost("The upstream closed the connection.")
            raise
        readable.make(message)
        return message

    async def __aenter__(self) -> _WatchedStream:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *why: Any) -> Any:
        return await self._inner.__aexit__(*why)


class _Declaring:
    """The SDK's write stream; each request says of its client what the hub wants said."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def send(self, item: Any) -> None:
        declaring.make(item)
        await self._inner.send(item)

    async def __aenter__(self) -> _Declaring:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *why: Any) -> Any:
        return await self._inner.__aexit__(*why)
