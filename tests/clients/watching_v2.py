"""Python's `mcp` 2.x, waiting for news: `watching_v2.py TARGET MODE`."""

import asyncio
import json
import sys

from mcp import types
from reach_v2 import reach


async def main(target: str, mode: str) -> None:
    changed = asyncio.Event()

    async def hear(message):
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    async with reach(target, mode, message_handler=hear) as client:
        if mode == "auto":
            async with client.listen(tools_list_changed=True) as news:
                print("listening", flush=True)
                await anext(aiter(news))
        else:
            print("listening", flush=True)
            await changed.wait()
        tools = await client.list_tools()
        print(json.dumps([tool.name for tool in tools.tools]), flush=True)


asyncio.run(main(*sys.argv[1:]))
