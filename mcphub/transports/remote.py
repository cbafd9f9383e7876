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
from typing import Any, ClassVar

from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from invocations.records import Touch
from mcphub.server import dialogue, failures, methods
from mcphub.server.context import RequestContext
from mcphub.server.listening import HEARTBEAT, Filter
from mcphub.transports.base import JSON, Headers, HubConsumer
from sessions_app import bus, remote
from sessions_app.protocol import envelope, errors, json, jsonrpc, sse
from sessions_app.protocol.errors import (
    AuditUnavailable,
    HubError,
    InvalidRequest,
    NotAcceptable,
    ServerBusy,
    SessionNotFound,
    ToolFailure,
)  # fmt: skip
from sessions_app.store import SessionView

logger = logging.getLogger(__name__)

METHODS = ("tools/list", "tools/call")
MESSAGE_ENDPOINT = "/mcp/messages"
_POINTER = (b"link", b'</mcp>; rel="successor-version"')
_POLL_SECONDS = 0.05
_LAST_WORDS_SECONDS = 3

_NAMED = {
    "unauthorized": "unauthorized", "forbidden": "unauthorized", "host_refused": "unauthorized",
    "server_busy": "server_busy", "rate_limited": "server_busy",
    "tool_disabled": "not_found", "method_not_found": "invalid_request", "invalid_arguments": "invalid_request",
    "timeout": "timeout", "server_error": "server_error", "audit_unavailable": "server_error",
}  # fmt: skip


def _closed(kind: type[HubError]) -> str:
    """Give the code of the profile's closed list for a kind of failure."""
    if kind.code in _NAMED:
        return _NAMED[kind.code]
    if kind.code.endswith("_not_found"):
        return "not_found"
    return "tool_error" if issubclass(kind, ToolFailure) else "invalid_request"


CODES: Mapping[str, str] = MappingProxyType(
    {kind.code: _closed(kind) for kind in errors._tree(HubError) if kind.code in errors.INTERNAL_CODES}
)
"""Internal code -> code of the closed list."""


def frame_of(hub: Any, error: HubError) -> dict[str, Any]:
    """Give the ErrorFrame of seed 004, with the request that it answers."""
    rendered = hub.errors().render(error, invocation_id=error.invocation_id)
    return {
        "code": CODES.get(error.code, "server_error"), "message": rendered["message"], "details": rendered["data"],
        "requestId": error.request_id,
    }  # fmt: skip


class RemoteConsumer(HubConsumer):
    """Errors as frames, and every answer with a pointer to `/mcp`."""

    async def respond(self, status: int, body: bytes, headers: Headers = (JSON,)) -> None:
        await super().respond(status, body, (*headers, _POINTER))

    async def begin_stream(self, headers: Headers = ()) -> None:
        await super().begin_stream((*headers, _POINTER))

    def render(self, error: HubError) -> bytes:
        return json.dumps(frame_of(self.hub, error))


class Events(RemoteConsumer):
    """`GET /mcp/events`: the stream; its end is the connection's end, and cancels what it has under way."""

    allowed_methods: ClassVar[tuple[str, ...]] = ("GET",)

    async def handle(self) -> None:
        if not envelope.accepts_sse(self.headers.accept):
            raise NotAcceptable("Accept must name text/event-stream.")
        session = await database_sync_to_async(remote.open)(self.caller)
        self._number = 0
        watcher: asyncio.Task[None] | None = None
        stream = None
        try:
            stream = self.hub.streams.open(session.session_id, Filter(tools=True))
            watcher = asyncio.create_task(self.gone())
            watcher.add_done_callback(lambda _: stream.close())
            await self.begin_stream()
            await self._event("ready", self._ready(session))
            async for message in stream:
                if message.startswith(b"{"):  # the hub's own news
                    await self._event("message", message)
                elif message != HEARTBEAT:
                    kind, _, data = message.partition(b" ")
                    await self._event(kind.decode(), data)
                elif not await self._beat(session):
                    break
            await self.write(b"", last=True)
        finally:
            if watcher is not None:
                watcher.cancel()
            if stream is not None:
                self.hub.streams.remove(stream)
            await asyncio.shield(self._close(session))

    def _ready(self, session: SessionView) -> bytes:
        return json.dumps(
            {
                "connectionId": session.session_id, "messageEndpoint": MESSAGE_ENDPOINT, "mcpEndpoint": "/mcp",
                "methods": METHODS, "heartbeatIntervalMs": round(settings.MCPHUB_HEARTBEAT_SECONDS * 1000),
                "requestTimeoutMs": round(settings.MCPHUB_CALL_TIMEOUT_SECONDS * 1000),
            }
        )  # fmt: skip

    async def _event(self, kind: str, data: bytes) -> None:
        self._number += 1
        await self.write(sse.frame(data, event=kind, id=str(self._number)))

    async def _beat(self, session: SessionView) -> bool:
        """Give a sign of life, and say whether the connection goes on: not when it was idle for too long."""
        idle_since = None
        try:
            idle_since = await database_sync_to_async(remote.seen)(session.session_id)
            await self.hub.ledger.append(Touch(session.session_id))
        except SessionNotFound:
            return False
        except (DatabaseError, AuditUnavailable) as error:
            logger.warning("The database does not know that a connection goes on: %s", error)
        limit = settings.MCPHUB_CALL_TIMEOUT_SECONDS
        if idle_since is not None and (timezone.now() - idle_since).total_seconds() > limit:
            frame = {
                "code": "timeout", "message": f"No request came for {limit:g} s. Connect again when there is one.",
                "details": None, "requestId": None,
            }  # fmt: skip
            await self._event("error", json.dumps(frame))
            return False
        await self._event("heartbeat", json.dumps({"sentAt": round(time.time() * 1000)}))
        return True

    async def _close(self, session: SessionView) -> None:
        """Cancel what runs, let it be recorded as such, then end the session."""
        request_id = await database_sync_to_async(remote.under_way)(session.session_id)
        if request_id is not None:
            context = dialogue.context_of(self.hub, session, self.caller, 0, self.client_address)
            await methods.notifications_cancelled(context, {"requestId": json.loads(request_id.encode())})
            until = time.monotonic() + _LAST_WORDS_SECONDS
            while request_id is not None and time.monotonic() < until:
                await asyncio.sleep(_POLL_SECONDS)  # the request may run in another process
                request_id = await database_sync_to_async(remote.under_way)(session.session_id)
        await database_sync_to_async(remote.close)(session.session_id)
        await self.hub.sessions.end(session.session_id, reason="the stream ended")


class Messages(RemoteConsumer):
    """`POST /mcp/messages`: takes one request; what it answers goes out on the stream, wherever that is."""

    async def handle(self) -> None:
        self.need_json()
        value = json.loads(await self.read_body())
        message = value.get("message") if isinstance(value, dict) else None
        try:
            connection_id, request = _read(value)
            session = await self.hub.sessions.find(connection_id, self.caller, remote.TRANSPORT)
            if not (await self.hub.ledger.append(Touch(session.session_id))).session_alive:
                self.hub.sessions.forget(session.session_id)
                raise SessionNotFound
            if len(self.hub.background) >= settings.MCPHUB_MAX_CALLS:
                raise ServerBusy
            await self._claim(session, request)
        except SessionNotFound:
            error = SessionNotFound("There is no such connection, or it has ended. Open /mcp/events for another.")
            error.request_id = jsonrpc.readable_id(message)
            raise error from None
        except HubError as error:
            error.request_id = jsonrpc.readable_id(message)
            raise
        self.hub.spawn(asyncio.create_task(self._work(session, request)))
        accepted = {"status": "accepted", "connectionId": session.session_id, "requestId": request.id}
        await self.respond(202, json.dumps(accepted))

    async def _claim(self, session: SessionView, request: jsonrpc.Request) -> None:
        if not await database_sync_to_async(remote.claim)(
            session.session_id, json.canonical(request.id), request.method
        ):
            busy = ServerBusy("This connection has a request under way. Wait for its answer, or use /mcp.")
            busy.retry_after_seconds = 1
            raise busy

    async def _work(self, session: SessionView, request: jsonrpc.Request) -> None:
        voice = Voice(self.hub, session.session_id)
        try:
            kind, data = await self._outcome(session, request, voice)
        finally:
            # Before the answer leaves: with it in hand the client may ask again.
            with contextlib.suppress(Exception):
                await database_sync_to_async(remote.release)(session.session_id, json.canonical(request.id))
        await voice.tell(kind, data)

    async def _outcome(self, session: SessionView, request: jsonrpc.Request, voice: Voice) -> tuple[str, bytes]:
        """Give the event that answers a request: its name and its data."""
        context: RequestContext = dialogue.context_of(self.hub, session, self.caller, request.id, self.client_address)
        context.voice, context.progress_token = voice, dialogue.progress_token(request.params)
        context.idempotency_key = self.headers.idempotency_key
        try:
            result = await methods.HANDSHAKE[request.method](context, request.params)
            if isinstance(result, dict) and result.get("isError"):
                return "error", json.dumps(_tool_error(request, result))
            return "message", jsonrpc.encode_result(request.id, result)
        except Exception as error:
            told = failures.told(error, "The method %s failed", request.method)
            told.request_id = request.id
            return "error", self.render(told)


class Voice:
    """Speaks on the connection's stream, in this process or in the one that holds it."""

    def __init__(self, hub: Any, session_id: str) -> None:
        self._hub = hub
        self._session_id = session_id

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        await self.send(jsonrpc.encode_notification(method, params))

    async def send(self, message: bytes) -> None:
        await self.tell("message", message)

    async def tell(self, kind: str, data: bytes) -> None:
        message = b"%b %b" % (kind.encode(), data)
        if not self._hub.streams.send(self._session_id, message):
            await sync_to_async(bus.publish)(bus.SESSION_MESSAGE, f"{self._session_id} {message.decode()}")


def _read(value: Any) -> tuple[str, jsonrpc.Request]:
    """Give connection id and request of a body; raise InvalidRequest for what is no such pair."""
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


def _tool_error(request: jsonrpc.Request, result: dict[str, Any]) -> dict[str, Any]:
    """Give the frame of a result that tells of a failure, with the whole result in its details."""
    found = result.get("_meta", {}).get("mcphub/error", {})
    words = [block["text"] for block in result["content"] if block.get("type") == "text"]
    return {
        "code": CODES.get(found.get("errorCode", "execution_error"), "server_error"),
        "message": " ".join(words) or "The tool failed.", "details": {**found, "result": result},
        "requestId": request.id,
    }  # fmt: skip
