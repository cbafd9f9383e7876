"""The HTTP side of an MCP client: guarded, bounded, and one failed request harms no other.

The SDK's transport takes an exception of one POST for the end of the whole connection, and waits for the answer
to each notification before it sends the next message. So failures of POSTs become JSON-RPC errors here, and
notifications are sent beside.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import httpx2

from sessions_app.protocol import errors
from tools_catalog import egress
from tools_catalog.egress_rules import EgressPolicy
from tools_catalog.upstream import unreached
from tools_catalog.upstream.limits import Flood
from tools_catalog.upstream.spec import SSE, ConnectionSpec, Secrets

logger = logging.getLogger(__name__)

NOT_SENT = -31091
"""Code of our own, in place of an answer: nothing reached the upstream."""
BROKEN = -31092
"""The connection broke, or the answer could not be taken: the call may have had its effect."""

SESSION_GONE = -31093
"""The upstream knows the session no more, and so did not take the request."""

NO_MCP = -31094
"""The upstream, or what stands before it, answered with a status and no message."""

_MARK = secrets.token_hex(16)
"""The `data` of such answers. An upstream may use the same codes, and must not be believed that nothing was sent."""

_AWAY = frozenset({502, 503, 504})
"""Statuses of a proxy whose server is not there."""

_MAX_REDIRECTS = 2
"""Each sends the request once more; what is followed within an origin is a slash at the end, or a version."""

TOO_LARGE = "The upstream's answer is too large."
TOO_MANY = "The upstream sends too many notifications."
TOO_SLOW = "The upstream's answer took too long."
BROKE_OFF = "The connection broke within the answer."

_REQUEST = re.compile(rb'\{"jsonrpc": ?"2.0", ?"id": ?(?:-?\d+|"[^"]*"), ?"method":')
_WORD_SECONDS = 10.0
"""For a notification, an answer to the upstream's question, and any message over HTTP+SSE to be taken."""
_LATER_SECONDS = 5.0
"""After the longest call, until the answer of one that was given up is no longer read."""
_HEARING_SECONDS = 1.0
"""For the stream of what a session's server says unasked to be answered, before its first request goes out.

A server may ask its questions there, and the suite's does; what it says before the stream stands is lost, and the call
would wait for its deadline."""


_beside_params: ContextVar[Mapping[str, str]] = ContextVar("mcphub_upstream_headers", default=MappingProxyType({}))
"""Headers of the request that is being sent. The SDK posts it in the context of the task that sent it."""


@contextmanager
def carrying(headers: Mapping[str, str]) -> Iterator[None]:
    """Send these headers with the request that the SDK is given now."""
    token = _beside_params.set(headers)
    try:
        yield
    finally:
        _beside_params.reset(token)


class _Unanswered(Exception):
    """A request has no answer that could be read; `code` and `words` stand in its place."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code, self.words = code, words


class UpstreamTransport(httpx2.AsyncBaseTransport):
    """Sends what the SDK sends. `lost` is called when HTTP+SSE takes no more; `lasts_seconds` bounds one answer."""

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        spec: ConnectionSpec,
        secret: Secrets,
        lost: Callable[[str], None],
        lasts_seconds: float,
    ) -> None:
        self._inner = inner
        self._spec = spec
        self._secret = secret
        self._lost = lost
        self._lasts_seconds = lasts_seconds + _LATER_SECONDS
        self._beside: set[asyncio.Task[None]] = set()
        self._silence: _Unanswered | None = None
        """Why nothing was heard of the upstream's era, where nothing was."""
        self._has_session = False
        self._hears = asyncio.Event()
        """Whether the session's own stream was answered, be it with a refusal."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers.update(self._spec.rendered_headers(request.url.host, self._secret))
        request.headers["accept-encoding"] = "identity"  # what is counted is what is read
        if request.method == "GET":
            request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "read": None}
            try:
                return self._bounded(await self._inner.handle_async_request(request), endless=True)
            finally:
                self._hears.set()
        if request.method != "POST":
            async with asyncio.timeout(_WORD_SECONDS):
                return await self._inner.handle_async_request(request)
        body = await request.aread()  # that of a redirected request is there as a stream only
        if _is_initialized(body):
            self._has_session = "mcp-session-id" in request.headers  # without one the SDK opens no stream
            return await self._word(request)
        if self._spec.transport == SSE or not _is_request(body):
            task = asyncio.create_task(self._send_beside(request), name=f"mcphub-upstream-{self._spec.slug}-word")
            self._beside.add(task)
            task.add_done_callback(self._beside.discard)
            return httpx2.Response(202, request=request)
        if self._silence is not None:
            return _instead(request, self._silence)
        if self._has_session and not self._hears.is_set():
            await self._heard()
        try:
            return await (self._probed(request) if _is_probe(request) else self._answered(request))
        except _Unanswered as failure:
            return _instead(request, failure)

    async def _heard(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HEARING_SECONDS):
                await self._hears.wait()
        self._hears.set()  # who has not answered by now holds up no second request

    async def _answered(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._sent(request)
        if response.status_code < 400:
            return response
        body = b""
        with contextlib.suppress(httpx2.StreamError):
            if response.headers.get("content-type", "").lower().startswith("application/json"):
                body = await response.aread()
        await response.aclose()
        if b'"jsonrpc"' not in body:  # of which the SDK would say that it failed, and not how
            raise _Unanswered(NO_MCP, f"The upstream answered with status {response.status_code} and no MCP.")
        return httpx2.Response(response.status_code, headers=response.headers, content=body, request=request)

    async def _probed(self, request: httpx2.Request) -> httpx2.Response:
        """Ask for the era. Who did not answer said nothing of it, so the attempt to connect ends.

        The SDK takes every failure of `server/discover` for the word of a server that has sessions, and holds to that
        for as long as the connection lasts.
        """
        try:
            try:
                response = await self._sent(request)
            except _Unanswered as failure:
                if failure.code != BROKEN:
                    raise
                response = await self._sent(request)  # who breaks off each time may be one that knows no such method
            if response.status_code in _AWAY:
                await response.aclose()
                raise _Unanswered(NOT_SENT, f"The upstream answered with status {response.status_code}.")
        except _Unanswered as failure:
            if failure.code == NOT_SENT:
                self._silence = _Unanswered(NOT_SENT, failure.words)  # its own traceback would hold this
            raise
        return response

    async def _sent(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request that wants an answer, and give that; raise _Unanswered."""
        request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "read": self._lasts_seconds}
        request.headers.update(_beside_params.get())
        try:
            response = await self._inner.handle_async_request(request)
        except errors.HubError as error:
            raise _failed(request, NOT_SENT, str(error), error) from error
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            words = f"{errors.ConnectionFailed.sentence} {unreached.reason(error)}"
            raise _failed(request, NOT_SENT, words, error) from error
        except httpx2.HTTPError as error:
            raise _failed(request, BROKEN, errors.TransportError.sentence, error) from error
        if response.status_code == 404 and "mcp-session-id" in request.headers:
            await response.aclose()
            raise _Unanswered(SESSION_GONE, "The upstream ended the session.")
        if response.status_code in (401, 403):
            await response.aclose()
            words = f"The upstream refuses the hub's credentials (status {response.status_code})."
            raise _Unanswered(NOT_SENT, words)
        return self._bounded(response, endless=False)

    async def aclose(self) -> None:
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        await self._inner.aclose()

    async def _word(self, request: httpx2.Request) -> httpx2.Response:
        async with asyncio.timeout(_WORD_SECONDS):
            response = await self._inner.handle_async_request(request)
            await response.aclose()
        # Any answer but a refusal will do, and over HTTP+SSE a redirect is one; the SDK expects 202.
        refused = 300 if self._spec.transport == SSE else 400
        status = response.status_code if response.status_code >= refused else 202
        return httpx2.Response(status, request=request)

    async def _send_beside(self, request: httpx2.Request) -> None:
        try:
            response = await self._word(request)
        except (TimeoutError, httpx2.HTTPError, errors.HubError) as error:
            logger.info("A message to the upstream %s was not taken: %s", self._spec.slug, type(error).__name__)
            if self._spec.transport == SSE:
                self._lost("The upstream takes no messages.")
            return
        if response.status_code >= 300 and self._spec.transport == SSE:
            self._lost(f"The upstream refuses messages with status {response.status_code}.")

    def _bounded(self, response: httpx2.Response, *, endless: bool) -> httpx2.Response:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.ReadError("The upstream compresses its answer, which it was asked not to.")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        is_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        if is_events and self._spec.transport == SSE:
            return response  # answers are among the events: whoever reads them counts
        seconds = None if endless else self._lasts_seconds
        response.stream = _Bounded(response.stream, self._spec, is_events, seconds)
        return response


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends in an error where it is too long, too slow or too talkative."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, spec: ConnectionSpec, is_events: bool, seconds: float | None
    ) -> None:
        self._inner = inner
        self._spec = spec
        self._is_events = is_events
        self._seconds = seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        flood = Flood(self._spec.max_notifications)
        loop = asyncio.get_running_loop()
        end = None if self._seconds is None else loop.time() + self._seconds
        chunks = self._inner.__aiter__()
        while True:
            try:
                # Around each read, not around the loop: a timer over a `yield` would strike the reader.
                async with asyncio.timeout_at(end):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise httpx2.StreamError(TOO_SLOW) from error
            except httpx2.HTTPError as error:
                raise httpx2.StreamError(BROKE_OFF) from error
            if self._is_events:
                events = _events_in(chunk)
                if flood.is_over(events):
                    raise httpx2.SSEError(TOO_MANY)  # after any other the SDK would ask for the rest of the stream
                about_one = len(chunk) // max(events, 1) + 1
                for begin in range(0, len(chunk), about_one):
                    await flood.pause()
                    yield chunk[begin : begin + about_one]
                continue
            size += len(chunk)
            if size > self._spec.max_response_bytes:
                raise httpx2.StreamError(TOO_LARGE)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def client(
    spec: ConnectionSpec,
    secret: Secrets,
    lost: Callable[[str], None],
    lasts_seconds: float,
    policy: EgressPolicy | None = None,
) -> httpx2.AsyncClient:
    """Give the HTTP client of one connection, with a pool of its own: a hung upstream takes no other's sockets."""

    def wrap(inner: httpx2.AsyncBaseTransport) -> httpx2.AsyncBaseTransport:
        return UpstreamTransport(inner, spec, secret, lost, lasts_seconds)

    http = egress.client(policy, timeout_seconds=spec.connect_seconds, wrap=wrap)
    http.max_redirects = _MAX_REDIRECTS
    return http


def _failed(request: httpx2.Request, code: int, words: str, cause: Exception) -> _Unanswered:
    logger.info("A request to %s failed: %s: %s", request.url.host, type(cause).__name__, cause)
    return _Unanswered(code, words)


def _instead(request: httpx2.Request, failure: _Unanswered) -> httpx2.Response:
    error = {"code": failure.code, "message": failure.words, "data": _MARK}
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": None, "error": error}
    return httpx2.Response(
        502, headers={"content-type": "application/json"}, content=json.dumps(body).encode(), request=request
    )


def own_code(code: int, data: Any) -> int | None:
    """Give the code of an answer that was put here in the place of the upstream's; None for one of its own."""
    return code if data == _MARK else None


def _events_in(chunk: bytes) -> int:
    begun = chunk.startswith(b"data:")
    if chunk.find(b"\n") < 0 and chunk.find(b"\r") < 0:
        return begun  # within one long line, where looking for one byte takes a tenth
    return begun + chunk.count(b"\ndata:") + chunk.count(b"\rdata:")


def _is_probe(request: httpx2.Request) -> bool:
    return request.headers.get("mcp-method") == "server/discover"


def _is_initialized(body: bytes) -> bool:
    return b'"notifications/initialized"' in body[:200]


def _is_request(body: bytes) -> bool:
    """Whether the SDK's message asks for an answer. It writes `jsonrpc`, then `id` of requests, then `method`."""
    return _REQUEST.match(body) is not None
