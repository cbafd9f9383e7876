"""The Python SDK as a peer: its low-level server, or the decorated one.

    sdk.py --port N --tools N [--decorated] [--stateful]

JSON answers in both eras. The low-level server has one handler that adds; it checks no arguments.
"""

import argparse

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer

options = argparse.ArgumentParser()
options.add_argument("--port", type=int, required=True)
options.add_argument("--tools", type=int, default=10)
options.add_argument("--decorated", action="store_true")
options.add_argument("--stateful", action="store_true")
given = options.parse_args()

NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}
RESULT = {"type": "object", "properties": {"result": {"type": "number"}}, "required": ["result"]}
NAMES = ["add", *(f"add_{number:04}" for number in range(1, given.tools))]
TOOLS = [
    types.Tool(name=name, description="Add two numbers.", inputSchema=NUMBERS, outputSchema=RESULT) for name in NAMES
]


async def list_tools(context, params):
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(context, params):
    total = params.arguments["a"] + params.arguments["b"]
    text = types.TextContent(type="text", text=str(total))
    return types.CallToolResult(content=[text], structuredContent={"result": total})


async def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


if given.decorated:
    server = MCPServer("peer", log_level="WARNING")
    for name in NAMES:
        server.add_tool(add, name=name)
else:
    # Without this look-up the SDK runs the list handler at every stateless call, to check Mcp-Param headers.
    schemas = {tool.name: NUMBERS for tool in TOOLS}
    server = Server("peer", get_tool_input_schema=schemas.get, on_list_tools=list_tools, on_call_tool=call_tool)

application = server.streamable_http_app(json_response=True, stateless_http=not given.stateful)
uvicorn.run(
    application,
    port=given.port,
    loop="uvloop",
    http="httptools",
    ws="none",
    log_level="warning",
    access_log=False,
    server_header=False,
)
