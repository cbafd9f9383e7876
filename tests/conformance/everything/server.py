"""The server that the conformance suite calls, on the low level of Python's official SDK.

    python -m tests.conformance.everything.server [--handshake-only] [PORT | stdio]

It prints `ready PORT` and serves both eras at /mcp, or only that of the handshake; or both over stdio.
"""

from __future__ import annotations

import os
import socket
import sys
import warnings
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.conformance.everything.call import Call, InputRequired, Json
from tests.conformance.everything.offers import PROMPTS, RESOURCES, TEMPLATE, read
from tests.conformance.everything.tasks import Begun, TaskRegistry
from tests.conformance.everything.tools import TOOLS, Failed, tool

Context = ServerRequestContext[Any, Any]
_RETRY_MS = 500

bus = InMemorySubscriptionBus()
extra = {"tools": False, "prompts": False}
"""Whether the lists hold one more: what the triggers turn."""


@tool()
async def test_trigger_tool_change(call: Call) -> str:
    """Add a tool to the list, or take it away again, and say so to who listens."""
    extra["tools"] = not extra["tools"]
    await bus.publish(ToolsListChanged())
    if not call.is_modern:
        await call.ctx.session.send_tool_list_changed()
    return "The list of tools has changed."


@tool()
async def test_trigger_prompt_change(call: Call) -> str:
    """Add a prompt to the list, or take it away again, and say so to who listens."""
    extra["prompts"] = not extra["prompts"]
    await bus.publish(PromptsListChanged())
    if not call.is_modern:
        await call.ctx.session.send_prompt_list_changed()
    return "The list of prompts has changed."


@tool()
async def test_task_states(call: Call) -> str:
    """Tell of each task what it is about, and its state."""
    return registry.states()


async def list_tools(ctx: Context, params: Any) -> dict[str, Json]:
    found = [{"name": one.name, "description": one.description, "inputSchema": one.schema} for one in TOOLS.values()]
    if extra["tools"]:
        found.append({"name": "test_extra_tool", "description": "Comes and goes.", "inputSchema": {"type": "object"}})
    return _cacheable(tools=found)


async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> dict[str, Json]:
    found = TOOLS.get(params.name)
    if found is None:
        raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name}.")
    try:
        said = await found.run(Call(ctx, params))
    except InputRequired as asked:
        return asked.result
    except Begun as begun:
        return registry.began(begun.work, "".join(map(str, (params.arguments or {}).values())))
    except Failed as error:
        return _whole(content=[{"type": "text", "text": str(error)}], isError=True)
    return _whole(content=said if isinstance(said, list) else [{"type": "text", "text": said}])


async def list_resources(ctx: Context, params: Any) -> dict[str, Json]:
    return _cacheable(resources=[{"uri": uri, **words} for uri, words in RESOURCES.items()])


async def list_templates(ctx: Context, params: Any) -> dict[str, Json]:
    return _cacheable(resourceTemplates=[TEMPLATE])


async def read_resource(ctx: Context, params: types.ReadResourceRequestParams) -> dict[str, Json]:
    return _cacheable(contents=[read(params.uri)])


async def subscribe(ctx: Context, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


async def list_prompts(ctx: Context, params: Any) -> dict[str, Json]:
    found = [
        {
            "name": name,
            "description": (run.__doc__ or "").strip(),
            "arguments": [{"name": each, "description": "Whatever.", "required": True} for each in arguments],
        }
        for name, (run, arguments) in PROMPTS.items()
    ]
    if extra["prompts"]:
        found.append({"name": "test_extra_prompt", "description": "Comes and goes."})
    return _cacheable(prompts=found)


async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> dict[str, Json]:
    if params.name not in PROMPTS:
        raise MCPError(types.INVALID_PARAMS, f"There is no prompt {params.name}.")
    try:
        return _whole(messages=await PROMPTS[params.name][0](Call(ctx, params)))
    except InputRequired as asked:
        return asked.result


async def complete(ctx: Context, params: types.CompleteRequestParams) -> dict[str, Json]:
    found = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
    return _whole(completion={"values": found, "total": len(found), "hasMore": False})


async def set_level(ctx: Context, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


def _cacheable(**members: Json) -> dict[str, Json]:
    return _whole(**members, ttlMs=0, cacheScope="private")


def _whole(**members: Json) -> dict[str, Json]:
    return {"resultType": "complete", **members}


class Fixture(Server[Any]):
    """A server that says that its lists change, in the handshake era too."""

    def create_initialization_options(self, *_: Any, **__: Any) -> InitializationOptions:
        changes = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(changes)


class Events(EventStore):
    """What was sent on each stream, for clients that resume."""

    def __init__(self) -> None:
        self._events: list[tuple[StreamId, Any]] = []

    async def store_event(self, stream_id: StreamId, message: Any) -> EventId:
        self._events.append((stream_id, message))
        return str(len(self._events) - 1)

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        number = int(last_event_id)
        stream_id = self._events[number][0]
        for later, (own, message) in enumerate(self._events[number + 1 :], number + 1):
            if own == stream_id and message is not None:
                await send_callback(EventMessage(message, str(later)))
        return stream_id


class HandshakeOnly:
    """Refuses the other era, as a server does that was written before there was one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        said = dict(scope.get("headers", ())).get(b"mcp-protocol-version", b"").decode()
        if said not in MODERN_PROTOCOL_VERSIONS:
            await self._app(scope, receive, send)
            return
        error = {"code": types.INVALID_REQUEST, "message": f"Bad Request: Unsupported protocol version: {said}"}
        await JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, 400)(scope, receive, send)


warnings.simplefilter("ignore", MCPDeprecationWarning)
server = Fixture(
    "everything",
    version="1.0",
    on_list_tools=list_tools,
    on_call_tool=call_tool,  # type: ignore[arg-type]
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,  # type: ignore[arg-type]
    on_subscribe_resource=subscribe,
    on_unsubscribe_resource=subscribe,
    on_list_prompts=list_prompts,  # type: ignore[arg-type]
    on_get_prompt=get_prompt,
    on_completion=complete,
    on_set_logging_level=set_level,  # type: ignore[arg-type]
    on_subscriptions_listen=ListenHandler(bus),
)
server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="everything"))
registry = TaskRegistry(server)


async def over_stdio() -> None:
    @tool()
    async def test_exit(call: Call) -> None:
        """End this process, and the tasks with it."""
        os._exit(1)

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    words = sys.argv[1:]
    if words == ["stdio"]:
        anyio.run(over_stdio)
        return
    is_old = "--handshake-only" in words
    ports = [int(word) for word in words if word.isdigit()]
    app: ASGIApp = server.streamable_http_app(event_store=Events(), retry_interval=_RETRY_MS)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", ports[0] if ports else 0))
    print(f"ready {listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(HandshakeOnly(app) if is_old else app, log_level="error", lifespan="on", http="h11")
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
