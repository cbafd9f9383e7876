"""An upstream on Python's `mcp` 1.x with tasks of 2025-11-25: `tasks_v1.py streamable-http|sse|stdio [PORT]`.

The SDK keeps a task for the session that made it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio
from mcp.server.experimental.task_context import ServerTaskContext
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import McpError
from mcp.types import INTERNAL_ERROR, CallToolResult, ErrorData, TextContent, Tool, ToolExecution
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

server: Server[Any] = Server("peer-tasks")
support = server.experimental.enable_tasks()
labels: dict[str, str] = {}
"""Task -> what its call names it."""

SURE = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
SUPPORT = {
    "work": "required",
    "confirm": "required",
    "fail": "required",
    "break": "required",
    "either": "optional",
    "states": "forbidden",
}


@server.list_tools()
async def list_tools() -> list[Tool]:
    properties = {"label": {"type": "string"}, "seconds": {"type": "number"}}
    return [
        Tool(
            name=name,
            description=name,
            inputSchema={"type": "object", "properties": properties},
            execution=ToolExecution(taskSupport=support),
        )
        for name, support in SUPPORT.items()
    ]


def text(words: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=words)], isError=is_error)


@server.call_tool(validate_input=False)
async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
    context = server.request_context.experimental
    context.validate_task_mode(SUPPORT[name])
    if name == "states":
        tasks, more = await support.store.list_tasks()
        while more:
            page, more = await support.store.list_tasks(more)
            tasks += page
        found = [task.status for task in tasks if labels.get(task.taskId) == arguments["label"]]
        return text(json.dumps(found))
    if not context.is_task:
        return text("plain")

    async def work(task: ServerTaskContext) -> CallToolResult:
        labels[task.task_id] = arguments.get("label", "")
        await task.update_status("Under way")
        if name == "confirm":
            answer = await task.elicit(f"Sure of {arguments['label']}?", SURE)
            return text(f"{answer.action} {json.dumps(answer.content)}")
        if name == "break":
            raise ValueError("It broke.")
        await asyncio.sleep(arguments.get("seconds", 0))
        return text("It failed.", is_error=True) if name == "fail" else text("done as a task")

    if arguments.get("label") == "refused":
        raise McpError(ErrorData(code=INTERNAL_ERROR, message="No room."))
    return await context.run_task(work)


async def over_stdio() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def streamable() -> Starlette:
    sessions = StreamableHTTPSessionManager(server)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with sessions.run():
            yield

    return Starlette(routes=[Mount("/mcp", sessions.handle_request)], lifespan=lifespan)


def events() -> Starlette:
    transport = SseServerTransport("/messages/")

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        async with transport.connect_sse(scope, receive, send) as (read, write):
            await server.run(read, write, server.create_initialization_options())

    # Its address for messages is below that of the stream.
    return Starlette(routes=[Mount("/sse/messages/", transport.handle_post_message), Mount("/sse", stream)])


def main() -> None:
    if sys.argv[1] == "stdio":
        anyio.run(over_stdio)
        return
    from serving import serve  # which a confined child may not read

    app = events() if sys.argv[1] == "sse" else streamable()
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0))
    listener.listen(128)
    serve(app, listener, lifespan="on")


if __name__ == "__main__":
    main()
