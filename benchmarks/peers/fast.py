"""FastMCP as a peer: async tools, JSON answers.

fast.py --port N --tools N [--stateful]
"""

import argparse

import uvicorn
from fastmcp import FastMCP

options = argparse.ArgumentParser()
options.add_argument("--port", type=int, required=True)
options.add_argument("--tools", type=int, default=10)
options.add_argument("--stateful", action="store_true")
given = options.parse_args()


async def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


server = FastMCP("peer")
for number in range(given.tools):
    server.tool(add, name=f"add_{number:04}" if number else "add")

application = server.http_app(path="/mcp", json_response=True, stateless_http=not given.stateful)
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
