"""How Python's `mcp` 1.x gets to a hub: over HTTP with a key, or by starting the command whose JSON `target` is."""

import json
import os


def reach(target: str, transport: str):
    if transport == "stdio":
        from mcp.client.stdio import StdioServerParameters, stdio_client

        command, *arguments = json.loads(target)
        return stdio_client(StdioServerParameters(command=command, args=arguments, env=dict(os.environ)))
    if transport == "sse":
        from mcp.client.sse import sse_client as connect
    else:
        from mcp.client.streamable_http import streamablehttp_client as connect
    return connect(target, headers={"Authorization": f"Bearer {os.environ['MCPHUB_KEY']}"})
