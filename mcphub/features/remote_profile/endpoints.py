"""`/mcp/events` and `/mcp/messages`: the remote profile of clients that were written for it; new ones use `/mcp`.

`GET /mcp/events` opens a connection and streams `ready`, `message`, `error` and `heartbeat`, with rising ids.
`POST /mcp/messages` takes `{connectionId, message}`, one request at a time. Errors are frames
`{code, message, details}` with a code of a closed list, the same as HTTP body and as event.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import Error as DatabaseError
from django.utils import timezone

from invocations.call_source import ClientChannel
from invocations.mapping.error_map import ErrorMap
from mcphub.features.remote_profile import connections as remote
from mcphub.process.runtime import Hub
from mcphub.server import failures
from mcphub.server.exchange import Failure, SessionExchange, cancel_request, guarded
from mcphub.server.listening import HEARTBEAT, Filter, Stream
from mcphub.transports.base import JSON, Headers, HubConsumer
from sessions_app import bus, transports
from sessions_app.kit.database import persistently
from sessions_app.protocol import envelope, errors, json, jsonrpc, sse
from sessions_app.protocol.errors import (
    AuditUnavailable,
    HubError,
    InvalidRequest,
    NotAcceptable,
    ServerBusy,
    SessionNotFound,
    ToolFailure,
    ToolTimeout,
)
from sessions_app.protocol.json import Json
from sessions_app.store import SessionView
from tools_catalog.call import session_news

logger = logging.getLogger(__name__)

METHODS = ("tools/list", "tools/call")
MESSAGE_ENDPOINT = "/mcp/messages"
_POINTER = (b"link", b'</mcp>; rel="successor-version"')
_OF_NO_REQUEST = b'{"requestId":null}'
_POLL_SECONDS = 0.05
_LAST_WORDS_SECONDS = 3
_RELEASE_SECONDS = 5
"""While the database is away; then the place is free when its time is up."""

_NAMED = {
    "unauthorized": "unauthorized",
    "forbidden": "unauthorized",
    "host_refused": "unauthorized",
    "server_busy": "server_busy",
    "rate_limited": "server_busy",
    "quota_reached": "server_busy",
    "tool_disabled": "not_found",
    "method_not_found": "invalid_request",
    "invalid_arguments": "invalid_request",
    "timeout": "timeout",
    "server_error": "server_error",
    "audit_unavailable": "server_error",
}


def _closed(kind: type[HubError]) -> str:
    """Return the code of the profile's closed list for a kind of failure."""
    if kind.code in _NAMED:
        return _NAMED[kind.code]
    if kind.code.endswith("_not_found"):
        return "not_found"
    return "tool_error" if issubclass(kind, ToolFailure) else "invalid_request"


CODES: Mapping[str, str] = MappingProxyType(
    {kind.code: _closed(kind) for kind in errors._tree(HubError) if kind.code in errors.INTERNAL_CODES}
)
"""Internal code -> code of the closed list."""


def frame_of(error_map: ErrorMap, error: HubError) -> dict[str, Json]:
    """Return an ErrorFrame of the remote profile, with the request that it answers, and log it."""
    rendered = failures.error_object(error_map, error)
    return {
        "code": CODES.get(error.code, "server_error"),
        "message": rendered["message"],
        "details": rendered["data"],
        "requestId": error.request_id,
    }


class RemoteConsumer(HubConsumer):
    """Errors as frames, and every answer with a pointer to `/mcp`."""

    async def respond(self, status: int, body: bytes, headers: Headers = (JSON,)) -> None:
        await super().respond(status, body, (*headers, _POINTER))

    async def begin_stream(self, headers: Headers = ()) -> None:
        await super().begin_stream((*headers, _POINTER))

    def render(self, error: HubError) -> bytes:
        return json.dumps(frame_of(self.configuration.errors, error))


class Events(RemoteConsumer):
    """`GET /mcp/events`: the stream; its end is the connection's end, and cancels its running request."""

    allowed_methods: ClassVar[tuple[str, ...]] = ("GET",)

    async def handle(self) -> None:
        if not envelope.accepts_sse(self.headers.accept):
            raise NotAcceptable("Accept must name text/event-stream.")
        opening = database_sync_to_async(remote.open)
        session = await opening(self.caller, self.hub.process_id, self.hub.is_gone)
        self._connection_id = session.session_id
        self._number = 0
        self._sent_at = timezone.now()
        tasks: list[asyncio.Task[None]] = []
        stream = None
        try:
            stream = self.hub.streams.open(self.caller, session.session_id, Filter(tools=True), carries_answers=True)
            tasks = [asyncio.create_task(self.gone()), asyncio.create_task(self._keep(session.session_id, stream))]
            for task in tasks:
                task.add_done_callback(lambda _: stream.close())
            await self.begin_stream()
            await self._event("ready", self._ready())
            async for message in stream:
                if message == HEARTBEAT:
                    await self._event("heartbeat", _OF_NO_REQUEST)
                elif message.startswith(b"{"):  # the hub's own news
                    await self._event("message", _with(message, requestId=None))
                else:
                    kind, _, data = message.partition(b" ")
                    await self._event(kind.decode(), data)
            await self.write(b"", last=True)
        finally:
            for task in tasks:
                task.cancel()
            if stream is not None:
                self.hub.streams.remove(stream)
            await asyncio.shield(self._close(session.session_id))

    def _ready(self) -> bytes:
        return json.dumps(
            {
                "requestId": None,
                "messageEndpoint": MESSAGE_ENDPOINT,
                "mcpEndpoint": "/mcp",
                "methods": METHODS,
                "heartbeatIntervalMs": round(settings.MCPHUB_HEARTBEAT_SECONDS * 1000),
                "requestTimeoutMs": round(settings.MCPHUB_CALL_TIMEOUT_SECONDS * 1000),
            }
        )

    async def _event(self, kind: str, data: bytes) -> None:
        """Send an event. `data` is an object with a `requestId`, null where it came of no request."""
        self._number += 1
        now = timezone.now()
        if kind != "heartbeat":
            self._sent_at = now
        stamped = _with(data, connectionId=self._connection_id, sentAt=round(now.timestamp() * 1000))
        await self.write(sse.frame(stamped, event=kind, id=str(self._number)))

    async def _keep(self, session_id: str, stream: Stream) -> None:
        """Mark the connection alive while the stream lasts, and end it after too long without traffic.

        Independent of sending: clients that read slowly, or always have something to read, keep their places. The
        heartbeat is no sign that the client wants something.
        """
        limit, pause = settings.MCPHUB_CALL_TIMEOUT_SECONDS, settings.MCPHUB_HEARTBEAT_SECONDS
        while True:
            await asyncio.sleep(min(pause, settings.MCPHUB_HEARTBEAT_SECONDS))
            pause = settings.MCPHUB_HEARTBEAT_SECONDS
            try:
                asked_at = await database_sync_to_async(remote.seen)(session_id, self.hub.process_id)
                await self.hub.touch_session(session_id)
            except SessionNotFound:
                return
            except (DatabaseError, AuditUnavailable) as error:
                logger.warning("The database does not know that a connection goes on: %s", error)
                continue
            if asked_at is None:
                continue
            pause = limit - (timezone.now() - max(asked_at, self._sent_at)).total_seconds()
            if pause <= 0:
                idle = ToolTimeout(f"No request came for {limit:g} s. Connect again when there is one.")
                stream.push(b"error %b" % self.render(idle))
                return

    async def _close(self, session_id: str) -> None:
        """Cancel running calls, let them be recorded as such, then end the session."""
        while True:
            try:
                await self._cancel(session_id)
                await self.hub.sessions.end(session_id, reason=transports.REMOTE.session_end)
                await database_sync_to_async(remote.close)(session_id)  # last: nobody says now that the stream stands
            except DatabaseError as error:
                if self.hub.is_draining:
                    raise  # the place is free with the process that held it
                logger.warning("The place of a connection that has ended is not free yet: %s", error)
                await asyncio.sleep(settings.MCPHUB_HEARTBEAT_SECONDS)
            else:
                return

    async def _cancel(self, session_id: str) -> None:
        request_id = await database_sync_to_async(remote.under_way)(session_id)
        if request_id is not None:
            await cancel_request(self.hub, session_id, json.loads(request_id.encode()))
            until = time.monotonic() + _LAST_WORDS_SECONDS
            while request_id is not None and time.monotonic() < until:
                await asyncio.sleep(_POLL_SECONDS)  # the request may run in another process
                request_id = await database_sync_to_async(remote.under_way)(session_id)


class RemoteMessages(RemoteConsumer):
    """`POST /mcp/messages`: accepts one request; its answer is sent on the stream, wherever that is."""

    async def handle(self) -> None:
        value = await self.read_json()
        message = value.get("message") if isinstance(value, dict) else None
        try:
            connection_id, request = _read(value)
            session = await self.hub.sessions.find(connection_id, self.caller, remote.TRANSPORT)
            await self.hub.touch_session(session.session_id)
            if len(self.hub.background) >= settings.MCPHUB_MAX_CALLS:
                raise ServerBusy
            await self._begin(session, request)
        except SessionNotFound:
            error = SessionNotFound("There is no such connection, or it has ended. Open /mcp/events for another.")
            error.request_id = jsonrpc.readable_id(message)
            raise error from None
        except HubError as error:
            error.request_id = jsonrpc.readable_id(message)
            raise
        accepted = {"status": "accepted", "connectionId": session.session_id, "requestId": request.id}
        await self.respond(202, json.dumps(accepted))

    async def _begin(self, session: SessionView, request: jsonrpc.Request) -> None:
        if not await database_sync_to_async(remote.claim)(
            session.session_id, json.canonical(request.id), request.method
        ):
            busy = ServerBusy("This connection has a request under way. Wait for its answer, or use /mcp.")
            busy.retry_after_seconds = 1
            raise busy
        try:
            self.hub.answering.begin(session.session_id, self._work(session, request))
        except ServerBusy:
            await self._release(session, request)
            raise

    async def _release(self, session: SessionView, request: jsonrpc.Request) -> None:
        with contextlib.suppress(Exception):
            await persistently(_RELEASE_SECONDS, remote.release, session.session_id, json.canonical(request.id))

    async def _work(self, session: SessionView, request: jsonrpc.Request) -> None:
        channel = ConnectionChannel(self.hub, session.session_id, request.id)
        try:
            kind, data = await self._outcome(session, request, channel)
        finally:
            # Before the answer leaves: with it in hand the client may ask again.
            await self._release(session, request)
        await channel.tell(kind, data)

    async def _outcome(
        self, session: SessionView, request: jsonrpc.Request, channel: ConnectionChannel
    ) -> tuple[str, bytes]:
        """Return the event that answers a request: its name and its data."""
        exchange = SessionExchange.of(
            self.hub,
            session,
            self.caller,
            request,
            self.client_address,
            configuration=self.configuration,
            channel=channel,
            idempotency_key=self.headers.idempotency_key,
            is_touched=True,
        )
        outcome = await guarded(self.hub, transports.REMOTE.name, request, self._event_of(exchange))
        return ("error", self.render(outcome.error)) if isinstance(outcome, Failure) else outcome

    async def _event_of(self, exchange: SessionExchange) -> tuple[str, bytes]:
        result = await exchange.result()
        if isinstance(result, dict) and result.get("isError"):
            return "error", json.dumps(_tool_error(exchange.request, result))
        answer = jsonrpc.encode_result(exchange.request.id, result)
        return "message", _with(answer, requestId=exchange.request.id)


class ConnectionChannel(ClientChannel):
    """Speaks on the connection's stream, in this process or in the one that holds it."""

    def __init__(self, hub: Hub, session_id: str, request_id: jsonrpc.RequestId) -> None:
        self._hub = hub
        self._session_id = session_id
        self._request_id = request_id

    async def send(self, message: bytes) -> None:
        if message != HEARTBEAT:  # the stream has its own
            await self.tell("message", _with(message, requestId=self._request_id))

    async def tell(self, kind: str, data: bytes) -> None:
        message = b"%b %b" % (kind.encode(), data)
        if not self._hub.streams.send(self._session_id, message):
            await session_news.announce(bus.SESSION_MESSAGE, self._session_id, message.decode())


def _with(data: bytes, **members: Json) -> bytes:
    """Return an object that is not empty with members behind its own, without decoding it: results may be large."""
    return b"%b,%b" % (data[:-1], json.dumps(members)[1:])


def _read(value: Json) -> tuple[str, jsonrpc.Request]:
    """Return connection ID and request of a body; raise InvalidRequest for another form."""
    if not isinstance(value, dict) or not isinstance(value.get("connectionId"), str):
        raise InvalidRequest("The body must be an object with connectionId, as the event ready told it, and message.")
    if "message" not in value:
        raise InvalidRequest("The body lacks message, a JSON-RPC request.")
    request = jsonrpc.parse(value["message"])
    if not isinstance(request, jsonrpc.Request) or request.method not in METHODS:
        raise InvalidRequest(f"This endpoint takes requests of {' and '.join(METHODS)}. Use /mcp for the rest.")
    if len(json.canonical(request.id)) > remote.LONGEST_REQUEST_ID:
        raise InvalidRequest(f"The id is longer than {remote.LONGEST_REQUEST_ID} characters. Use a shorter one.")
    return value["connectionId"], request


def _tool_error(request: jsonrpc.Request, result: dict[str, Json]) -> dict[str, Json]:
    """Return the frame of a failed result, with the whole result in its details."""
    found = result.get("_meta", {}).get("mcphub/error", {})
    words = [block["text"] for block in result["content"] if block.get("type") == "text"]
    return {
        "code": CODES.get(found.get("errorCode", "execution_error"), "server_error"),
        "message": " ".join(words) or "The tool failed.",
        "details": {**found, "result": result},
        "requestId": request.id,
    }


SERVED = {transports.REMOTE.path: Events.as_asgi(), transports.REMOTE.messages_path: RemoteMessages.as_asgi()}
"""The consumers of the paths."""
