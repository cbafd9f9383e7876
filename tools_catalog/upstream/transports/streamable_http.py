"""Streamable HTTP as the way to an upstream: each message a POST, whose response is JSON or a stream of events.

Of both eras: `StatelessHttp` for revisions in which each request describes itself, `SessionHttp` for those with
`Mcp-Session-Id`, a stream of unsolicited messages, and streams that are resumed.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from typing import Final

from sessions_app.protocol import envelope, errors, revisions, sse
from sessions_app.protocol.json import Json
from tools_catalog.upstream.http import TOO_MANY_REQUESTS, CredentialsRefused, HttpEndpoint, StatusError, refusal_of
from tools_catalog.upstream.limits import Flood, Flooded
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.upstream.transports import reading
from tools_catalog.upstream.transports.base import ENDED, MessageHandler, OutgoingRequest, SessionLost, Transport
from tools_catalog.upstream.transports.reading import Message
from tools_catalog.upstream.transports.refusals import TransportRefusal
from tools_catalog.upstream.wire import TooLarge, WireResponse

logger = logging.getLogger(__name__)

_ACCEPT: Final = b"accept: application/json, text/event-stream\r\n"
_LISTENING: Final = b"accept: text/event-stream\r\ncache-control: no-store\r\n"
_SEND_SECONDS: Final = 10.0
"""For a notification, or an answer to the upstream's request, to be taken."""
_OWN_STATUSES: Final = frozenset({413, 415, 429, 502, 503, 504})
"""These reject the one request, or come from a proxy before the upstream."""
_END_SECONDS: Final = 2.0
"""For the upstream to take the end of a session."""
_STREAM_SECONDS: Final = 1.0
"""For the stream of a session's unsolicited messages to be answered, before its first request goes out.

A server may ask its questions there, and the suite's does; messages before the stream stands are lost, and the call
would wait for its deadline.
"""
_ATTEMPTS: Final = 2
"""In a row, to resume a stream that ended."""
_LONGEST_PAUSE_SECONDS: Final = 30.0
"""Between attempts to follow a stream that once stood: its server may be starting anew."""
_RETRY_SECONDS: Final = 1.0
"""Before a stream is resumed, if the upstream does not state a delay."""


class StreamableHttp(Transport):
    """The common part of both eras: reading a response."""

    is_one_stream = False

    def __init__(self, spec: ConnectionSpec, http: HttpEndpoint, handler: MessageHandler) -> None:
        self._spec = spec
        self._http = http
        self._handler = handler

    async def open(self) -> None:
        """There is nothing to open: connections are made when they are needed."""

    def abort(self) -> None:
        self._http.close()

    async def close(self) -> None:
        self._http.close()

    async def _read(self, response: WireResponse, request: OutgoingRequest) -> Message:
        status, kind = response.status, response.headers.get(b"content-type", b"").lower()
        if status >= 300:
            refusal = await refusal_of(response)
            if (error := _error_in(refusal)) is None or status == TOO_MANY_REQUESTS:
                raise StatusError(status, refusal)
            return error
        if kind.startswith(b"text/event-stream"):
            return await self._stream(response, request)
        if status in (202, 204):
            response.close()
            raise StatusError(status)
        body = await response.read(self._spec.max_response_bytes)
        if not kind.startswith(b"application/json"):
            if body.lstrip()[:1] not in (b"{", b"["):
                raise StatusError(status, TransportRefusal(status, body))
            logger.info("The upstream %s names its JSON %s", self._spec.slug, kind[:60])
        messages = await reading.messages_of(body)
        for message in messages:
            if "method" in message:
                await self._handler.take(message, request)
        answered = [message for message in messages if "method" not in message]
        for message in answered:
            if reading.answers(message, request.id):
                return message
        if len(answered) == 1 and (answered[0].get("error") is not None or answered[0].get("id") is None):
            return answered[0]  # the response belongs to its request by HTTP
        raise errors.ResultInvalid("The upstream answered another request than it was asked.")

    async def _stream(self, response: WireResponse, request: OutgoingRequest) -> Message:
        found = await self._response_in(response, request, self._decoder(), Flood(self._spec.max_notifications))
        if found is None:
            raise _unanswered()
        return found

    def _decoder(self) -> sse.Decoder:
        return sse.Decoder(max_event_bytes=self._spec.max_response_bytes)

    async def _response_in(
        self, response: WireResponse, request: OutgoingRequest | None, decoder: sse.Decoder, flood: Flood
    ) -> Message | None:
        """Read a stream of events up to the response to `request`; None where it ends before.

        Events of another name, other content, and responses to other requests are skipped: servers and proxies
        keep streams alive so. Raises Unreadable for a response that cannot be read; TransportError.
        """
        try:
            while chunk := await response.chunk():
                for event in decoder.feed(chunk):
                    for message in await _messages_in(event, request):
                        if "method" not in message:
                            if request is not None and _is_for(message, request):
                                response.release()
                                return message
                            continue
                        if flood.is_over():
                            raise Flooded
                        if flood.is_pausing:
                            await flood.pause()
                        await self._handler.take(message, request)
        except sse.EventTooLarge as error:
            response.close()
            raise TooLarge from error
        except BaseException:
            response.close()
            raise
        response.release()
        return None


class StatelessHttp(StreamableHttp):
    """Each request describes itself, in headers too. The end of its connection takes it back."""

    def __init__(self, spec: ConnectionSpec, http: HttpEndpoint, handler: MessageHandler) -> None:
        super().__init__(spec, http, handler)
        self._head = b"%bmcp-protocol-version: %b\r\n" % (_ACCEPT, revisions.NEWEST.encode())

    async def exchange(self, request: OutgoingRequest) -> Message:
        head = self._head + _describing(request)
        return await self._read(await self._http.send(b"POST", head, request.encode()), request)

    async def send(self, message: bytes) -> None:
        """Nothing is sent beside requests in this era (MCP 2026-07-28, Streamable HTTP)."""

    def with_sessions(self) -> SessionHttp:
        return SessionHttp(self._spec, self._http, self._handler)

    async def begin_session(self, version: str) -> None:
        raise AssertionError("no revision without sessions begins one")


class SessionHttp(StreamableHttp):
    """Requests of one session, once `initialize` was answered with its id."""

    def __init__(self, spec: ConnectionSpec, http: HttpEndpoint, handler: MessageHandler) -> None:
        super().__init__(spec, http, handler)
        self._head = _ACCEPT
        self._identity = b""
        """Lines of each head that name the session and its revision."""
        self._id: bytes | None = None
        self._is_gone = False
        self._listening: asyncio.Task[None] | None = None
        self._stream_answered = asyncio.Event()
        self._stream_answered.set()
        self._sending: set[asyncio.Task[None]] = set()

    async def exchange(self, request: OutgoingRequest) -> Message:
        if not self._stream_answered.is_set():
            await self._await_stream()
        try:
            return await self._exchanged(request)
        except asyncio.CancelledError:
            if not self._is_gone and (cancellation := request.cancellation) is not None:
                task = asyncio.create_task(self._send_beside(cancellation), context=contextvars.Context())
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)
            raise

    async def _exchanged(self, request: OutgoingRequest) -> Message:
        is_of_session = self._id is not None and request.method != "initialize"
        try:
            response = await self._http.send(b"POST", self._head, request.encode())
        except CredentialsRefused as error:
            if is_of_session and (error.refusal.status == 401 or error.refusal.loses_session(request.id)):
                raise self._lost(error) from error
            raise
        if request.method == "initialize":
            self._id = response.headers.get(b"mcp-session-id") if response.status < 300 else None
        if response.status < 400 or not is_of_session:
            return await self._read(response, request)
        refusal = await refusal_of(response)
        message = _error_in(refusal)
        if refusal.loses_session(request.id):
            raise self._lost(None if message is not None else StatusError(refusal.status, refusal))
        status = StatusError(refusal.status, refusal)
        if refusal.status == TOO_MANY_REQUESTS:
            raise status
        if message is not None and message.get("id") is not None:
            return message
        if refusal.status not in _OWN_STATUSES and not await self._is_known():
            if refusal.status < 500:
                raise self._lost(status) from status
            self._is_gone = True
            self._handler.lost(ENDED)
        if message is not None:
            return message
        raise status

    def _lost(self, refusal: errors.HubError | None) -> SessionLost:
        self._is_gone = True
        return SessionLost(ENDED, refusal)

    async def _is_known(self) -> bool:
        """Ask whether the session stands, after a refusal without a reason: a server that also rejects a ping has
        none.
        """
        ping = OutgoingRequest(0, "ping", {})
        try:
            async with asyncio.timeout(_SEND_SECONDS):
                response = await self._http.send(b"POST", self._head, ping.encode())
        except (TimeoutError, errors.HubError):
            return False
        response.close()
        return response.status < 400

    async def send(self, message: bytes) -> None:
        async with asyncio.timeout(_SEND_SECONDS):
            response = await self._http.send(b"POST", self._head, message)
        response.release()
        if response.status >= 400:
            raise StatusError(response.status)

    def with_sessions(self) -> SessionHttp:
        return self

    async def begin_session(self, version: str) -> None:
        self._identity = b"mcp-protocol-version: %b\r\n" % version.encode()
        if self._id is not None:
            self._identity += b"mcp-session-id: %b\r\n" % self._id
        self._head = _ACCEPT + self._identity
        if self._id is not None:  # without one there is nothing that a stream could belong to
            self._stream_answered.clear()
            self._listening = asyncio.create_task(
                self._listen(), name=f"mcphub-upstream-{self._spec.slug}-stream", context=contextvars.Context()
            )

    async def close(self) -> None:
        tasks = [*self._sending, *([self._listening] if self._listening is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            if self._id is not None and not self._is_gone:
                with contextlib.suppress(TimeoutError, errors.HubError):
                    async with asyncio.timeout(_END_SECONDS):
                        (await self._http.send(b"DELETE", self._identity)).close()
        finally:
            self._http.close()

    async def _send_beside(self, message: bytes) -> None:
        try:
            await self.send(message)
        except (TimeoutError, errors.HubError, SessionLost) as error:
            logger.info("A message to the upstream %s was not taken: %s", self._spec.slug, type(error).__name__)

    # Streams that end and are resumed --------------------------------------------------------------------

    async def _stream(self, response: WireResponse, request: OutgoingRequest) -> Message:
        decoder, flood = self._decoder(), Flood(self._spec.max_notifications)
        failures = 0
        while True:
            broken: errors.TransportError | None = None
            try:
                found = await self._response_in(response, request, decoder, flood)
                if found is not None:
                    return found
            except Flooded:
                raise
            except errors.TransportError as error:
                broken = error
            if decoder.last_event_id is None:
                raise broken or _unanswered()
            resumed: WireResponse | None = None
            while resumed is None:
                if failures == _ATTEMPTS:
                    raise broken or _unanswered()
                failures += 1
                await asyncio.sleep(_pause_after(decoder))
                resumed = await self._resumed(decoder.last_event_id)
            response, decoder, failures = resumed, self._successor(decoder), 0

    async def _resumed(self, last_event_id: str) -> WireResponse | None:
        """Ask for the rest of a stream; None where the upstream does not give it now."""
        try:
            response = await self._http.send(b"GET", self._listening_head(last_event_id))
        except (errors.ConnectionFailed, errors.TransportError):
            return None
        if response.status == 200 and _is_events(response):
            return response
        response.close()
        return None

    def _successor(self, decoder: sse.Decoder) -> sse.Decoder:
        """Return a decoder for the rest of a stream, which goes on from the same event."""
        made = self._decoder()
        made.last_event_id, made.retry_ms = decoder.last_event_id, decoder.retry_ms
        return made

    def _listening_head(self, last_event_id: str | None) -> bytes:
        resuming = b"" if last_event_id is None else b"last-event-id: %b\r\n" % last_event_id.encode("utf-8")
        return b"%b%b%b" % (_LISTENING, self._identity, resuming)

    # What the upstream says unasked ------------------------------------------------------------------------

    async def _await_stream(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STREAM_SECONDS):
                await self._stream_answered.wait()
        self._stream_answered.set()  # who has not answered by now holds up no second request

    async def _listen(self) -> None:
        """Follow the stream of the upstream's unsolicited messages, as long as it provides one."""
        decoder, failures, has_stood = self._decoder(), 0, False
        while failures < _ATTEMPTS or has_stood:
            try:
                response = await self._http.send(b"GET", self._listening_head(decoder.last_event_id))
                self._stream_answered.set()
                if response.status == 200 and _is_events(response):
                    has_stood = True
                    await self._response_in(response, None, decoder, Flood(self._spec.max_notifications))
                    failures = 0
                elif has_stood and (await refusal_of(response)).loses_session(-1):
                    self._is_gone = True
                    self._handler.lost(ENDED)  # so it is connected anew before the next call
                    return
                else:
                    response.close()
                    if response.status < 500:
                        return
                    failures += 1
            except (Flooded, errors.ResultInvalid) as error:
                logger.warning("The upstream %s: %s", self._spec.slug, error)
                return
            except CredentialsRefused as error:
                if has_stood and error.refusal.loses_session(-1):
                    self._is_gone = True
                    self._handler.lost(ENDED)
                return
            except SessionLost:
                return  # the account was connected anew, and the session is another's
            except errors.HubError:
                failures += 1
            finally:
                self._stream_answered.set()
            decoder = self._successor(decoder)
            await asyncio.sleep(min(_LONGEST_PAUSE_SECONDS, _pause_after(decoder) * 2 ** min(failures, 10)))


def _error_in(refusal: TransportRefusal) -> Message | None:
    """Return the error that a response with a status of failure holds; None where it is no message."""
    found = refusal.value
    error = found.get("error") if isinstance(found, dict) else None
    if not isinstance(found, dict) or found.get("jsonrpc") != "2.0" or not isinstance(error, dict):
        return None
    return found


async def _messages_in(event: sse.ServerSentEvent, request: OutgoingRequest | None) -> list[Message]:
    """Return the messages of an event, none where it has none. Raises Unreadable where that was the answer."""
    if event.event != "message" or not event.data.strip():
        return []
    try:
        return await reading.messages_of(event.data.encode("utf-8", "surrogatepass"))
    except reading.UnreadableMessage as error:
        if request is not None and error.is_answer and error.answered in (None, request.id):
            raise
        return []
    except errors.ResultInvalid:
        return []


def _is_for(message: Message, request: OutgoingRequest) -> bool:
    """Return whether a response on the stream of a request is its own; an error may name none."""
    return reading.answers(message, request.id) or (message.get("id") is None and message.get("error") is not None)


def _unanswered() -> errors.TransportError:
    return errors.TransportError("The upstream ended its answer before the result.")


def _is_events(response: WireResponse) -> bool:
    return response.headers.get(b"content-type", b"").lower().startswith(b"text/event-stream")


def _pause_after(decoder: sse.Decoder) -> float:
    return _RETRY_SECONDS if decoder.retry_ms is None else decoder.retry_ms / 1000


def _describing(request: OutgoingRequest) -> bytes:
    """Return the headers that repeat the content of the request (MCP 2026-07-28, Streamable HTTP)."""
    lines = [f"mcp-method: {request.method}\r\n"]
    if (named := envelope.NAMED_BY.get(request.method)) is not None:
        lines.append(f"mcp-name: {envelope.encode_header(request.params[named])}\r\n")
    for header in request.param_headers:
        text = _text_at(request.params.get("arguments"), header.path)
        if text is not None:
            lines.append(f"mcp-param-{header.suffix}: {envelope.encode_header(text)}\r\n")
    return "".join(lines).encode("latin-1")


def _text_at(value: Json, path: tuple[str, ...]) -> str | None:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None
