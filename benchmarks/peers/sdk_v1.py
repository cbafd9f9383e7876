"""An upstream on Python's SDK 1.x, as most servers in the field are: sdk_v1.py streamable-http|sse|stdio [--port N]."""

import argparse

from mcp.server.fastmcp import FastMCP

options = argparse.ArgumentParser()
options.add_argument("transport", choices=("streamable-http", "sse", "stdio"))
options.add_argument("--port", type=int, default=0)
given = options.parse_args()

server = FastMCP("peer", port=given.port, log_level="WARNING")


@server.tool()
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


server.run(given.transport)
