"""Every MCP method that the hub serves: one line in a table, one small function. Knows no HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from invocations.call.context import LOG_LEVELS
from invocations.calling import LONGEST_IDEMPOTENCY_KEY, CallResult
from invocations.exchange import CallRequest
from mcphub.parts import ProtocolExtension
from mcphub.server import prompts, resources, tasks
from mcphub.server.input_rounds import InputRounds
from mcphub.server.results import IDENTITY, SERVER_INFO, hints, listed
from mcphub.server.task_input import TaskInput
from sessions_app.kit.features import declared, loaded
from sessions_app.protocol import envelope, json, mcp_apps, revisions, shapes
from sessions_app.protocol.errors import DuplicateRequest, InvalidParams
from sessions_app.protocol.tasks import CORE_CAPABILITY, EXTENSION, Task
from tools_catalog.call.base import Json
from tools_catalog.catalog.snapshot import Tool
from tools_catalog.policy.ask import QUESTION

if TYPE_CHECKING:
    from invocations.tasks.background_call import TaskStart
    from mcphub.process.runtime import Hub
    from mcphub.server.exchange import Handler, McpExchange, Result, SessionExchange
    from sessions_app.caller import Caller
    from tools_catalog.catalog.selection import Selection

CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
    "tasks": CORE_CAPABILITY,
    "extensions": {
        EXTENSION: {},
        mcp_apps.EXTENSION: mcp_apps.CAPABILITY,
        **{part.name: dict(part.capability) for part in declared(ProtocolExtension)},
    },
}
"""The capabilities of the methods below; nothing is advertised before it exists. Each revision gets the members that
it defines.
"""
_OF_DRAFTS: dict[str, Any] = {part.draft_name: {} for part in declared(ProtocolExtension) if part.draft_name}
_OF_SESSIONS = {part.name: dict(part.capability) for part in declared(ProtocolExtension) if part.methods}
"""The extensions whose methods are served in sessions. No revision with sessions defines them; the official SDKs
declare them in the last one.
"""

_NONE: Final[Mapping[str, dict[str, Json]]] = MappingProxyType({})

IDEMPOTENCY_KEY = "mcphub/idempotencyKey"
_KEPT_OF_LONG_KEY = 150
"""Characters of a client's key that stand in the key of a later round, where the whole leaves no room."""
_END: dict[bool, dict[str, Json]] = {False: {}, True: {"resultType": "complete"}}
_META: dict[bool, dict[str, Json]] = {False: {}, True: IDENTITY}
"""Of a call's result, by whether results have a type."""


async def ping(exchange: McpExchange, params: dict[str, Json]) -> Result:
    return {}


async def server_discover(exchange: McpExchange, params: dict[str, Json]) -> Result:
    words = exchange.catalog().instructions_for(exchange.source.caller)
    shown = {**shapes.capabilities_for(exchange.revision, CAPABILITIES), **_OF_DRAFTS}
    of_vendors = extensions_of_vendors(exchange.hub, exchange.catalog(), exchange.source.caller)
    return {
        "supportedVersions": list(revisions.STATELESS),
        "capabilities": with_extensions(shown, of_vendors),
        **({"instructions": words} if words else {}),
        **hints(is_public=not exchange.toolset and exchange.source.caller.workspace is None and not of_vendors),
    }


def extensions_of_vendors(hub: Hub, selection: Selection, caller: Caller) -> dict[str, dict[str, Json]]:
    """Return members of capabilities: the vendors' extensions of upstreams of which the caller sees a tool here."""
    return hub.upstreams.extensions_of(lambda: {tool.connection for tool in selection.offered(caller).values()})


def with_extensions(capabilities: dict[str, Json], of_vendors: Mapping[str, dict[str, Json]]) -> dict[str, Json]:
    """Return capabilities with those of vendors; the hub's own stay."""
    more = {member: {**named, **(capabilities.get(member) or {})} for member, named in of_vendors.items()}
    return {**capabilities, **more}


def initialize(
    params: dict[str, Json], version: str, instructions: str = "", of_vendors: Mapping[str, dict[str, Json]] = _NONE
) -> dict[str, Json]:
    """Return the result of `initialize`; the transport has made or promoted the session."""
    result = {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": SERVER_INFO}
    if instructions:
        result["instructions"] = instructions
    shown = shapes.initialize_for(revisions.revision(version), result)
    is_newest = version == revisions.NEWEST_HANDSHAKE
    extensions = {"extensions": _OF_SESSIONS} if is_newest else {}
    given = {member: named for member, named in of_vendors.items() if is_newest or member != "extensions"}
    return {**shown, "capabilities": with_extensions({**shown["capabilities"], **extensions, **_OF_DRAFTS}, given)}


def client_of(params: dict[str, Json]) -> dict[str, Json]:
    """Read the client of an `initialize`; raise InvalidParams for an invalid one (MCP, Lifecycle)."""
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


async def initialize_session(exchange: SessionExchange, params: dict[str, Json]) -> Result:
    """Take the session of a connection through its handshake."""
    session = await exchange.hub.sessions.initialize(exchange.session.session_id, **client_of(params))
    selection, caller = exchange.catalog(), exchange.source.caller
    of_vendors = extensions_of_vendors(exchange.hub, selection, caller)
    return initialize(params, session.protocol_version, selection.instructions_for(caller), of_vendors)


async def logging_set_level(exchange: McpExchange, params: dict[str, Json]) -> Result:
    level = params.get("level")
    if level not in LOG_LEVELS:
        raise InvalidParams(f"level must be one of {', '.join(LOG_LEVELS)}.")
    await exchange.hub.sessions.set_log_level(exchange.source.session_id, level)
    return {}


async def tools_list(exchange: McpExchange, params: dict[str, Json]) -> Result:
    selection = exchange.catalog()
    shows_views = mcp_apps.declared(exchange.source.client_capabilities)
    listing = selection.listing(exchange.source.caller, shows_views=shows_views)
    bounded = exchange.hub.calls.stages.bounded_keys(exchange.configuration)
    if exchange.source.caller.key_id in bounded:
        listing = listing.without_output_schemas
    return listed(exchange, listing, params, varies=bool(bounded))


async def tools_call(exchange: McpExchange, params: dict[str, Json]) -> Result:
    selection = exchange.catalog()
    called = selection.unwrapped_call(params)
    if mcp_apps.declared(exchange.source.client_capabilities):
        named_here = selection.named_by_view(called.get("name"), exchange.source.caller)
        called = called if named_here == called.get("name") else {**called, "name": named_here}
    # The headers speak of the call as it was sent.
    headers = exchange.headers if called is params and selection.has_param_headers else None
    params = called
    name, arguments = params.get("name"), params.get("arguments", {})
    may_be_task = "task" in params or bool(
        selection.tasking and isinstance(name, str) and selection.real_name(name) in selection.tasking
    )
    rounds = exchange.resumed("tools/call", params)

    request = CallRequest(
        name=name,
        arguments=arguments,
        request_id=exchange.request.id,
        idempotency_key=_idempotency_key(exchange, params, rounds),
        meta=params.get("_meta"),
        selection=selection,
        check=_check(exchange, params, headers, rounds, may_be_task=may_be_task)
        if may_be_task or headers is not None or rounds is not None
        else None,
        round=rounds.digests_without(QUESTION) if rounds is not None else None,
        make_requester=partial(exchange.requester, "tools/call", params) if rounds is None else lambda: rounds,
    )
    if rounds is not None and rounds.continues:
        exchange = exchange.going_on(rounds.continues)
    tool = selection.tools.get(selection.real_name(name)) if may_be_task and isinstance(name, str) else None
    if tool is not None:
        start = exchange.tasks.start(exchange, params, tool)
        if start is not None:
            return await _background(exchange, request, params, start)
    return _answered(exchange, await exchange.hub.calls.call_tool(request, exchange))


def _check(
    exchange: McpExchange,
    params: dict[str, Json],
    headers: envelope.RoutingHeaders | None,
    rounds: InputRounds | None,
    *,
    may_be_task: bool,
) -> Callable[[Tool], None]:
    """Return the check of a request against the tool that it calls."""

    def check(tool: Tool) -> None:
        if tool.param_headers and headers is not None:
            envelope.check_param_headers(tool.param_headers, params.get("arguments", {}), headers)
        if may_be_task:
            exchange.tasks.check(exchange, params, tool)
        if rounds is not None:
            rounds.check()

    return check


async def _background(exchange: McpExchange, request: CallRequest, params: dict[str, Json], start: TaskStart) -> Result:
    """Make a call that becomes a task, or may; give its result, or the task."""
    call, calling = await exchange.tasks.background_call(exchange, params, start)
    ordinary = request.make_requester
    assert ordinary is not None
    request.runner, request.make_requester = call.run, lambda: TaskInput(call, exchange, ordinary)
    made: CallResult | Task
    try:
        made = await exchange.hub.tasks.run(call, request, calling)
    except DuplicateRequest:
        taken = call.taken
        if taken is None or taken.digest != call.request_digest:
            raise
        made = taken.task
    return _answered(exchange, made) if isinstance(made, CallResult) else exchange.tasks.created(made)


def _answered(exchange: McpExchange, answer: CallResult) -> Result:
    meta: dict[str, Any] = {"mcphub/invocationId": answer.invocation_id}
    if answer.duplicate_of:
        meta["mcphub/duplicateOf"] = answer.duplicate_of
    if answer.told:
        meta |= answer.told
    revision = exchange.revision
    if "_meta" not in answer.wire and shapes.carries(revision, answer.wire):
        # In the tool's own order: the record is canonical, the answer is not. Encoded at once: slices and joins would
        # be further copies of a large result.
        typed = revision.result_type
        return json.dumps({**answer.wire, **_END[typed], "_meta": {**_META[typed], **meta}})
    if revision.result_type:
        meta |= IDENTITY
    result = {**answer.wire, "_meta": {**answer.wire.get("_meta", {}), **meta}}
    return shapes.result_for(revision, result)


def _idempotency_key(exchange: McpExchange, params: dict[str, Json], rounds: InputRounds | None) -> str | None:
    """Return the key by which the client marks a repeat: in `_meta`, or in the header of HTTP."""
    meta = params.get("_meta")
    key = meta.get(IDEMPOTENCY_KEY) if isinstance(meta, dict) else None
    if key is None:
        key = exchange.idempotency_key
    if key is None or rounds is None:
        return key if key is None or isinstance(key, str) else ""
    # Each round of questions is a call of its own.
    answers = json.canonical([params.get("requestState"), params.get("inputResponses")])
    own = f"{key}:{json.digest(answers)[:16]}"
    if len(key) <= LONGEST_IDEMPOTENCY_KEY < len(own):
        own = f"{key[:_KEPT_OF_LONG_KEY]}:{json.digest(own)}"
    return own


async def subscriptions_listen(exchange: McpExchange, params: dict[str, Json]) -> Result:
    """Send the requested notifications until the client leaves (MCP 2026-07-28, Subscriptions)."""
    asked: Any = params.get("notifications")
    wanted = resources.filter_of(exchange, asked)
    task_ids = await tasks.followed(exchange, asked)
    channel = exchange.channel
    assert channel is not None
    meta = {"io.modelcontextprotocol/subscriptionId": exchange.request_id}
    stream = exchange.hub.streams.open(exchange.source.caller, None, wanted, meta)
    of_upstreams = any(exchange.resources().upstream_of(uri) is not None for uri in wanted.uris)
    if of_upstreams:
        exchange.hub.resubscribe()
    try:
        accepted = {**wanted.wire(), **({"taskIds": task_ids} if "taskIds" in asked else {})}
        await channel.notify("notifications/subscriptions/acknowledged", {"notifications": accepted, "_meta": meta})
        gone = exchange.gone or exchange.watch
        assert gone is not None
        watcher = asyncio.ensure_future(gone())
        watcher.add_done_callback(lambda _: stream.abandon())
        follower = asyncio.create_task(tasks.follow(exchange, task_ids, stream, meta)) if task_ids else None
        try:
            async for message in stream:
                await channel.send(message)
        finally:
            watcher.cancel()
            if follower is not None:
                follower.cancel()
    finally:
        exchange.hub.streams.remove(stream)
        if of_upstreams:
            exchange.hub.resubscribe()
    return {"resultType": "complete", "_meta": {**meta, **IDENTITY}}


def _of_feature(path: str) -> Handler:
    async def handler(exchange: McpExchange, params: dict[str, Json]) -> Result:
        result: Result = await loaded(path)(exchange, params)
        return result

    return handler


_BOTH: dict[str, Handler] = {
    **{name: _of_feature(path) for part in declared(ProtocolExtension) for name, path in part.methods.items()},
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
        **{name: _of_feature(path) for part in declared(ProtocolExtension) for name, path in part.stateless.items()},
        **_BOTH,
        "server/discover": server_discover,
        "subscriptions/listen": subscriptions_listen,
        "tasks/update": tasks.tasks_update,
    }
)

BEFORE_INITIALIZE = frozenset({"ping"})
