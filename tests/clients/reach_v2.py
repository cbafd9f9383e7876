"""How Python's `mcp` 2.x gets to a hub: over HTTP with a key, or by starting the command whose JSON `target` is."""

import contextlib
import json
import os

from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client


@contextlib.asynccontextmanager
async def reach(target: str, mode: str, **callbacks):
    headers = {"Authorization": f"Bearer {os.environ['MCPHUB_KEY']}"}
    async with create_mcp_http_client(headers=headers) as http:
        if target.startswith("["):
            command, *arguments = json.loads(target)
            way = stdio_client(StdioServerParameters(command=command, args=arguments, env=dict(os.environ)))
        elif mode == "sse":
            way = sse_client(target, headers=headers)
        else:
            way = streamable_http_client(target, http_client=http)
        async with Client(way, mode="legacy" if mode == "sse" else mode, **callbacks) as client:
            yield client
