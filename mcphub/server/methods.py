"""Every MCP method that the hub serves: one line in a table, one small function. Knows no HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings

from invocations.context import LOG_LEVELS
from mcphub.server.context import Handler, RequestContext, Result
from mcphub.server.listening import Filter
from sessions_app import bus
from sessions_app.protocol import envelope, json, revisions
from sessions_app.protocol.errors import InvalidParams
from tools_catalog.catalog import Tool

SERVER_INFO = {"name": "mcphub", "title": "MCP Hub", "version": settings.MCPHUB_VERSION}
CAPABILITIES: dict[str, Any] = {"tools": {"listChanged": True}, "logging": {}}
"""What the methods below really do; nothing is advertised before it is there."""

LIST_TTL_MS = 60_000
_IDENTITY = {"io.modelcontextprotocol/serverInfo": SERVER_INFO}


async def ping(context: RequestContext, params: dict[str, Any]) -> Result:
    return {}


async def server_discover(context: RequestContext, params: dict[str, Any]) -> Result:
    return {
        "resultType": "complete",
        "supportedVersions": list(revisions.STATELESS),
        "capabilities": CAPABILITIES,
        "ttlMs": LIST_TTL_MS,
        "cacheScope": "public",
        "_meta": _IDENTITY,
    }


def initialize(params: dict[str, Any], version: str) -> dict[str, Any]:
    """Give the result of `initialize`; the transport has made or promoted the session."""
    return {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": SERVER_INFO}


def client_of(params: dict[str, Any]) -> dict[str, Any]:
    """Read who initializes; raise InvalidParams for what is no `initialize` (MCP, Lifecycle)."""
    info = params.get("clientInfo")
    capabilities = params.get("capabilities", {})
    if not isinstance(params.get("protocolVersion"), str):
        raise InvalidParams("initialize needs protocolVersion, a string such as 2025-11-25.")
    if not isinstance(info, dict) or not isinstance(info.get("name"), str):
        raise InvalidParams("initialize needs clientInfo, an object with a name and a version.")
    if not isinstance(capabilities, dict):
        raise InvalidParams("capabilities must be an object.")
    return {
        "protocol_version": revisions.negotiate(params["protocolVersion"]),
        "client_name": info["name"],
        "client_version": str(info.get("version", "")),
        "client_capabilities": capabilities,
    }


async def logging_set_level(context: RequestContext, params: dict[str, Any]) -> Result:
    level = params.get("level")
    if level not in LOG_LEVELS:
        raise InvalidParams(f"level must be one of {', '.join(LOG_LEVELS)}.")
    await context.hub.sessions.set_log_level(context.origin.session_id, level)
    return {}


async def tools_list(context: RequestContext, params: dict[str, Any]) -> Result:
    context.origin.caller.need("tools:list")
    if params.get("cursor") is not None:
        raise InvalidParams("The cursor is not of this list. The list has one page; ask without a cursor.")
    catalog = context.hub.catalog()
    return catalog.listing(
        context.origin.caller, context.revision.version, _list_tail(context.revision, catalog.is_public)
    )


async def tools_call(context: RequestContext, params: dict[str, Any]) -> Result:
    name, arguments = params.get("name"), params.get("arguments", {})
    headers = context.headers

    def check(tool: Tool) -> None:
        if tool.param_headers and headers is not None:
            envelope.check_param_headers(tool.param_headers, arguments, headers)

    answer = await context.hub.calls.call_tool(
        context.origin,
        name,
        arguments,
        request_id=context.request_id,
        check=check if headers is not None else None,
        voice=context.voice,
        progress_token=context.progress_token,
        log_level=context.log_level,
        watch=context.watch,
    )
    meta: dict[str, Any] = {"mcphub/invocationId": answer.invocation_id}
    if answer.duplicate_of:
        meta["mcphub/duplicateOf"] = answer.duplicate_of
    if context.revision.result_type:
        meta |= _IDENTITY
    result = {**answer.wire, "_meta": {**answer.wire.get("_meta", {}), **meta}}
    return revisions.result_for(context.revision, result)


async def subscriptions_listen(context: RequestContext, params: dict[str, Any]) -> Result:
    """Tell what was asked for until the client goes (MCP 2026-07-28, Subscriptions)."""
    asked = params.get("notifications")
    if not isinstance(asked, dict):
        raise InvalidParams("subscriptions/listen needs notifications, an object that says what to tell of.")
    wanted = Filter(tools=asked.get("toolsListChanged") is True)
    voice = context.voice
    assert voice is not None
    meta = {"io.modelcontextprotocol/subscriptionId": context.request_id}
    stream = context.hub.streams.open(None, wanted, meta)
    try:
        await voice.notify("notifications/subscriptions/acknowledged", {"notifications": wanted.wire(), "_meta": meta})
        assert context.watch is not None
        watcher = asyncio.ensure_future(context.watch())
        watcher.add_done_callback(lambda _: stream.close())
        try:
            async for message in stream:
                await voice.send(message)
        finally:
            watcher.cancel()
    finally:
        context.hub.streams.remove(stream)
    return {"resultType": "complete", "_meta": {**meta, **_IDENTITY}}


async def notifications_cancelled(context: RequestContext, params: dict[str, Any]) -> None:
    """Cancel a call of the same session, in whichever process it runs; unknown ids are ignored (MCP, Cancellation)."""
    request_id = params.get("requestId")
    if isinstance(request_id, str | int) and not isinstance(request_id, bool):
        session_id, key = context.origin.session_id, json.canonical(request_id)
        if not context.hub.calls.running.cancel_request(session_id, key):
            await sync_to_async(bus.publish)(bus.CALL_CANCELLED, f"{session_id} {key}")


HANDSHAKE: Mapping[str, Handler] = MappingProxyType(
    {"ping": ping, "logging/setLevel": logging_set_level, "tools/list": tools_list, "tools/call": tools_call}
)
"""Methods of a session; `initialize` belongs to the transport, which makes the session."""

STATELESS: Mapping[str, Handler] = MappingProxyType(
    {
        "server/discover": server_discover,
        "tools/list": tools_list,
        "tools/call": tools_call,
        "subscriptions/listen": subscriptions_listen,
    }
)

BEFORE_INITIALIZE = frozenset({"ping"})


def _list_tail(revision: revisions.Revision, is_public: bool) -> bytes:
    if not revision.cache_hints:
        return b""
    hints = {
        "resultType": "complete",
        "ttlMs": LIST_TTL_MS,
        "cacheScope": "public" if is_public else "private",
        "_meta": _IDENTITY,
    }
    return b"," + json.dumps(hints)[1:-1]
