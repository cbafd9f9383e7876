"""Messages that come one by one and whose answers go another way: HTTP+SSE, stdio, the remote profile.

Those doors differ in how bytes travel. What a message means is said here, once.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from invocations.origin import Origin, Voice
from invocations.running import Watch
from mcphub.server import failures, methods
from mcphub.server.context import RequestContext
from sessions_app.caller import Caller
from sessions_app.protocol import envelope, jsonrpc, revisions
from sessions_app.protocol.errors import InvalidRequest, MethodNotFound
from sessions_app.store import SessionView

if TYPE_CHECKING:
    from mcphub.runtime import Hub

logger = logging.getLogger(__name__)


async def answer(
    hub: Hub,
    session: SessionView,
    caller: Caller,
    request: jsonrpc.Request,
    voice: Voice,
    *,
    address: str = "",
    watch: Watch | None = None,
    toolset: str = "",
) -> bytes:
    """Serve a request of the session; give the encoded answer, which is an error where it failed."""
    try:
        result = await serve(hub, session, caller, request, voice, address, watch, toolset)
        return jsonrpc.encode_result(request.id, result)
    except Exception as error:
        return failure(hub, request, error)


async def serve(
    hub: Hub,
    session: SessionView,
    caller: Caller,
    request: jsonrpc.Request,
    voice: Voice,
    address: str = "",
    watch: Watch | None = None,
    toolset: str = "",
) -> Any:
    """Give the result of a request of the session; `initialize` takes the session through its handshake."""
    if request.method == "initialize":
        client = methods.client_of(request.params)
        session = await hub.sessions.initialize(session.session_id, **client)
        words = hub.catalog().toolset(toolset, caller).instructions if toolset else ""
        return methods.initialize(request.params, session.protocol_version, words)
    handler = methods.HANDSHAKE.get(request.method)
    if handler is None:
        raise MethodNotFound.named(request.method)
    if not session.initialized and request.method not in methods.BEFORE_INITIALIZE:
        raise InvalidRequest("The session is not initialized. Send initialize first.")
    context = context_of(hub, session, caller, request.id, address)
    context.voice, context.watch, context.progress_token = voice, watch, progress_token(request.params)
    context.toolset = toolset
    return await handler(context, request.params)


async def answer_stateless(
    hub: Hub, caller: Caller, climbed: envelope.Envelope, voice: Voice, transport: str, watch: Watch
) -> bytes:
    """Serve a request that describes itself; give the encoded answer, which is an error where it failed."""
    request = climbed.request
    name, version = climbed.client_name or "", climbed.client_version or ""
    try:
        session_id = await hub.sessions.implicit(
            caller, transport=transport, protocol_version=climbed.protocol_version, client_name=name,
            client_version=version,
        )  # fmt: skip
        trace = climbed.trace_parent
        origin = Origin(
            caller=caller, session_id=session_id, transport=transport, protocol_version=climbed.protocol_version,
            client_capabilities=climbed.client_capabilities, client_name=name,
            client_version=version, trace_id=trace.split("-")[1] if trace else "",
        )  # fmt: skip
        context = RequestContext(
            hub=hub, origin=origin, revision=revisions.revision(climbed.protocol_version), request_id=request.id,
            voice=voice, progress_token=climbed.progress_token, log_level=climbed.log_level, watch=watch,
        )  # fmt: skip
        return jsonrpc.encode_result(request.id, await methods.STATELESS[request.method](context, request.params))
    except Exception as error:
        return failure(hub, request, error)


async def take(hub: Hub, session: SessionView, caller: Caller, message: jsonrpc.Message, *, address: str = "") -> None:
    """Take what needs no answer: a notification, or an answer of the client's."""
    if isinstance(message, jsonrpc.Notification) and message.method == "notifications/cancelled":
        await methods.notifications_cancelled(context_of(hub, session, caller, 0, address), message.params)
    elif isinstance(message, jsonrpc.Response | jsonrpc.ErrorResponse):
        await hub.inquiries.take(session.session_id, message)


def failure(hub: Hub, request: jsonrpc.Request, error: Exception) -> bytes:
    """Give the encoded error that answers a request. Called while the exception is handled."""
    told = failures.told(error, "The method %s failed", request.method[:100])
    return jsonrpc.encode_error(request.id, hub.errors().render(told, invocation_id=told.invocation_id))


def context_of(
    hub: Hub, session: SessionView, caller: Caller, request_id: jsonrpc.RequestId, address: str
) -> RequestContext:
    return RequestContext(
        hub=hub, origin=origin_of(session, caller, address),
        revision=revisions.revision(session.protocol_version or revisions.HANDSHAKE[0]), request_id=request_id,
        log_level=session.log_level or "info",
    )  # fmt: skip


def origin_of(session: SessionView, caller: Caller, address: str) -> Origin:
    known = caller.origins.get(session.session_id)
    if known is not None and known[0] is session and known[1].client_address == address:
        kept: Origin = known[1]
        return kept
    origin = Origin(
        caller=caller, session_id=session.session_id, transport=session.transport,
        protocol_version=session.protocol_version, client_name=session.client_name,
        client_version=session.client_version, client_address=address,
        client_capabilities=session.client_capabilities, handshake=True,
    )  # fmt: skip
    caller.remember(session.session_id, (session, origin))
    return origin


def progress_token(params: dict[str, Any]) -> str | int | None:
    """Give the token under which the client wants to hear of progress, where it gave a valid one."""
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None
