"""Every MCP method that the hub serves: one line in a table, one small function. Knows no HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from asgiref.sync import sync_to_async

from invocations.calling import LONGEST_IDEMPOTENCY_KEY, CallResult
from invocations.context import LOG_LEVELS
from mcphub.server import asking, prompts, resources, tasking, tasks
from mcphub.server.answers import IDENTITY, SERVER_INFO, hints, listed
from mcphub.server.context import Handler, RequestContext, Result
from mcphub.server.rounds import Rounds
from sessions_app import bus
from sessions_app.protocol import envelope, json, revisions, shapes
from sessions_app.protocol.errors import InvalidParams
from sessions_app.protocol.tasks import CORE_CAPABILITY, EXTENSION
from tools_catalog.catalog import Tool

CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
    "tasks": CORE_CAPABILITY,
    "extensions": {EXTENSION: {}},
}
"""What the methods below really do; nothing is advertised before it is there. Each revision gets what it knows."""

IDEMPOTENCY_KEY = "mcphub/idempotencyKey"
_KEPT_OF_LONG_KEY = 150
"""Characters of a client's key that stand in the key of a later round, where the whole leaves no room."""
_CALL_TAIL = {
    False: b',"_meta":{',
    True: b',"resultType":"complete","_meta":%b,' % json.dumps(IDENTITY)[:-1],
}
"""What follows a tool's result, up to the call's own members of `_meta`; by whether results have a type."""


async def ping(context: RequestContext, params: dict[str, Any]) -> Result:
    return {}


async def server_discover(context: RequestContext, params: dict[str, Any]) -> Result:
    words = context.catalog().instructions
    return {
        "supportedVersions": list(revisions.STATELESS),
        "capabilities": shapes.capabilities_for(context.revision, CAPABILITIES),
        **({"instructions": words} if words else {}),
        **hints(is_public=not context.toolset),
    }


def initialize(params: dict[str, Any], version: str, instructions: str = "") -> dict[str, Any]:
    """Give the result of `initialize`; the transport has made or promoted the session."""
    result = {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": SERVER_INFO}
    if instructions:
        result["instructions"] = instructions
    return shapes.initialize_for(revisions.revision(version), result)


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
    return listed(context, context.catalog().tool_list, params)


async def tools_call(context: RequestContext, params: dict[str, Any]) -> Result:
    selection = context.catalog()
    meant = selection.call_meant(params)
    # The headers speak of the call as it was sent.
    headers = context.headers if meant is params else None
    params = meant
    name, arguments = params.get("name"), params.get("arguments", {})
    known = selection.tasking
    if (known and isinstance(name, str) and name in known) or "task" in params:
        return await tasking.tools_call(context, params, headers, _idempotency_key, _answered)
    rounds: Rounds | None = None
    if context.revision.stateless and ("requestState" in params or "inputResponses" in params):
        rounds = Rounds.of(context.origin, context.revision, "tools/call", params)

    def check(tool: Tool) -> None:
        if tool.param_headers and headers is not None:
            envelope.check_param_headers(tool.param_headers, arguments, headers)
        if rounds is not None:
            rounds.check()

    answer = await context.hub.calls.call_tool(
        context.origin.continuing(rounds.continues) if rounds is not None and rounds.continues else context.origin,
        name,
        arguments,
        request_id=context.request_id,
        idempotency_key=_idempotency_key(context, params, rounds),
        check=check if headers is not None or rounds is not None else None,
        voice=context.voice,
        progress_token=context.progress_token,
        log_level=context.log_level,
        watch=context.watch,
        asker=lambda: rounds or asking.asker(context, "tools/call", params),
        meta=params.get("_meta"),
        selection=selection if context.toolset else None,
    )
    return _answered(context, answer)


def _answered(context: RequestContext, answer: CallResult) -> Result:
    meta: dict[str, Any] = {"mcphub/invocationId": answer.invocation_id}
    if answer.duplicate_of:
        meta["mcphub/duplicateOf"] = answer.duplicate_of
    revision = context.revision
    if answer.text is not None and "_meta" not in answer.wire and shapes.carries(revision, answer.wire):
        # What was recorded is what is sent: its JSON is there already.
        return b"%b%b%b}" % (answer.text[:-1].encode(), _CALL_TAIL[revision.result_type], json.dumps(meta)[1:])
    if revision.result_type:
        meta |= IDENTITY
    result = {**answer.wire, "_meta": {**answer.wire.get("_meta", {}), **meta}}
    return shapes.result_for(revision, result)


def _idempotency_key(context: RequestContext, params: dict[str, Any], rounds: Rounds | None) -> str | None:
    """Give the key by which the client marks a repeat: in `_meta`, or in the header of HTTP."""
    meta = params.get("_meta")
    key = meta.get(IDEMPOTENCY_KEY) if isinstance(meta, dict) else None
    if key is None:
        key = context.idempotency_key
    if key is None or rounds is None:
        return key if key is None or isinstance(key, str) else ""
    # Each round of questions is a call of its own.
    answers = json.canonical([params.get("requestState"), params.get("inputResponses")])
    own = f"{key}:{json.digest(answers)[:16]}"
    if len(key) <= LONGEST_IDEMPOTENCY_KEY < len(own):
        own = f"{key[:_KEPT_OF_LONG_KEY]}:{json.digest(own)}"
    return own


async def subscriptions_listen(context: RequestContext, params: dict[str, Any]) -> Result:
    """Tell what was asked for until the client goes (MCP 2026-07-28, Subscriptions)."""
    asked: Any = params.get("notifications")
    wanted = resources.filter_of(context, asked)
    task_ids = await tasks.followed(context, asked)
    voice = context.voice
    assert voice is not None
    meta = {"io.modelcontextprotocol/subscriptionId": context.request_id}
    stream = context.hub.streams.open(None, wanted, meta)
    of_upstreams = any(context.hub.resources().upstream_of(uri) is not None for uri in wanted.uris)
    if of_upstreams:
        context.hub.resubscribe()
    try:
        accepted = {**wanted.wire(), **({"taskIds": task_ids} if "taskIds" in asked else {})}
        await voice.notify("notifications/subscriptions/acknowledged", {"notifications": accepted, "_meta": meta})
        gone = context.gone or context.watch
        assert gone is not None
        watcher = asyncio.ensure_future(gone())
        watcher.add_done_callback(lambda _: stream.close())
        follower = asyncio.create_task(tasks.follow(context, task_ids, stream, meta)) if task_ids else None
        try:
            async for message in stream:
                await voice.send(message)
        finally:
            watcher.cancel()
            if follower is not None:
                follower.cancel()
    finally:
        context.hub.streams.remove(stream)
        if of_upstreams:
            context.hub.resubscribe()
    return {"resultType": "complete", "_meta": {**meta, **IDENTITY}}


async def notifications_cancelled(context: RequestContext, params: dict[str, Any]) -> None:
    """Cancel a call of the same session, in whichever process it runs; unknown ids are ignored (MCP, Cancellation)."""
    request_id = params.get("requestId")
    if isinstance(request_id, str | int) and not isinstance(request_id, bool):
        session_id, key = context.origin.session_id, json.canonical(request_id)
        if not context.hub.calls.running.cancel_request(session_id, key):
            await sync_to_async(bus.publish)(bus.CALL_CANCELLED, f"{session_id} {key}")


_BOTH: dict[str, Handler] = {
    "tools/list": tools_list,
    "tools/call": tools_call,
    "resources/list": resources.resources_list,
    "resources/templates/list": resources.resources_templates_list,
    "resources/read": resources.resources_read,
    "prompts/list": prompts.prompts_list,
    "prompts/get": prompts.prompts_get,
    "completion/complete": prompts.completion_complete,
    "tasks/get": tasks.tasks_get,
    "tasks/cancel": tasks.tasks_cancel,
}

HANDSHAKE: Mapping[str, Handler] = MappingProxyType(
    {
        **_BOTH,
        "ping": ping,
        "logging/setLevel": logging_set_level,
        "resources/subscribe": resources.resources_subscribe,
        "resources/unsubscribe": resources.resources_unsubscribe,
        "tasks/result": tasks.tasks_result,
        "tasks/list": tasks.tasks_list,
    }
)
"""Methods of a session; `initialize` belongs to the transport, which makes the session."""

STATELESS: Mapping[str, Handler] = MappingProxyType(
    {
        **_BOTH,
        "server/discover": server_discover,
        "subscriptions/listen": subscriptions_listen,
        "tasks/update": tasks.tasks_update,
    }
)

BEFORE_INITIALIZE = frozenset({"ping"})
