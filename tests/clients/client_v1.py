"""Python's `mcp` 1.x: `client_v1.py URL http|sse`."""

import asyncio
import json
import os
import sys

from mcp import ClientSession


async def main(url: str, transport: str) -> None:
    if transport == "sse":
        from mcp.client.sse import sse_client as connect
    else:
        from mcp.client.streamable_http import streamablehttp_client as connect
    headers = {"Authorization": f"Bearer {os.environ['MCPHUB_KEY']}"}
    async with connect(url, headers=headers) as (read, write, *_), ClientSession(read, write) as session:
        hello = await session.initialize()
        tools = await session.list_tools()
        echo = await session.call_tool("echo", {"text": os.environ["MCPHUB_WORDS"]})
        added = await session.call_tool("add", {"a": 2, "b": 40})
        bad = await session.call_tool("add", {"a": "two"})
        try:
            unknown = await session.call_tool("nowhere", {})
            refusal = "" if not unknown.isError else unknown.content[0].text
        except Exception as error:
            refusal = str(error)
        print(
            json.dumps(
                {
                    "version": hello.protocolVersion,
                    "tools": [tool.name for tool in tools.tools],
                    "echo": echo.content[0].text,
                    "add": added.content[0].text,
                    "bad": bad.content[0].text if bad.isError else "",
                    "unknown": refusal,
                }
            ),
            flush=True,
        )


asyncio.run(main(*sys.argv[1:]))
