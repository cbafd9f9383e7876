"""Python's `mcp` 1.x, waiting for news: `watching_v1.py TARGET http|sse|stdio`."""

import asyncio
import json
import sys

from mcp import ClientSession, types
from reach_v1 import reach


async def main(target: str, transport: str) -> None:
    changed = asyncio.Event()

    async def hear(message):
        if isinstance(getattr(message, "root", None), types.ToolListChangedNotification):
            changed.set()

    async def hear_all(messages):
        async for message in messages:
            await hear(message)

    has_stream = hasattr(ClientSession, "incoming_messages")  # before there were handlers
    handlers = {} if has_stream else {"message_handler": hear}
    async with reach(target, transport) as (read, write, *_), ClientSession(read, write, **handlers) as session:
        await session.initialize()
        hearing = asyncio.create_task(hear_all(session.incoming_messages)) if has_stream else None
        print("listening", flush=True)
        await changed.wait()
        tools = await session.list_tools()
        print(json.dumps([tool.name for tool in tools.tools]), flush=True)
        if hearing is not None:
            hearing.cancel()


asyncio.run(main(*sys.argv[1:]))
