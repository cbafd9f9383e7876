"""Python's `mcp` 2.x: `client_v2.py URL MODE`."""

import asyncio
import json
import os
import sys

from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client


async def main(url: str, mode: str) -> None:
    key = os.environ["MCPHUB_KEY"]
    async with (
        create_mcp_http_client(headers={"Authorization": f"Bearer {key}"}) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        tools = await client.list_tools()
        echo = await client.call_tool("echo", {"text": os.environ["MCPHUB_WORDS"]})
        added = await client.call_tool("add", {"a": 2, "b": 40})
        bad = await client.call_tool("add", {"a": "two"})
        try:
            unknown = await client.call_tool("nowhere", {})
            refusal = "" if not unknown.is_error else unknown.content[0].text
        except Exception as error:
            refusal = str(error)
        print(
            json.dumps(
                {
                    "version": client.session.protocol_version,
                    "tools": [tool.name for tool in tools.tools],
                    "echo": echo.content[0].text,
                    "add": added.content[0].text,
                    "bad": bad.content[0].text if bad.is_error else "",
                    "unknown": refusal,
                }
            )
        )


asyncio.run(main(*sys.argv[1:]))
