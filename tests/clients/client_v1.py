"""Python's `mcp` 1.x: `client_v1.py TARGET http|sse|stdio`."""

import asyncio
import json
import os
import sys

from mcp import ClientSession
from reach_v1 import reach


async def main(target: str, transport: str) -> None:
    async with reach(target, transport) as (read, write, *_), ClientSession(read, write) as session:
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
        offered = await session.list_resources()
        text = await session.read_resource(next(one.uri for one in offered.resources if one.name == "Static text"))
        prompts = await session.list_prompts()
        prompt = await session.get_prompt("test_prompt_with_arguments", {"arg1": "one", "arg2": "two"})
        print(
            json.dumps(
                {
                    "version": hello.protocolVersion,
                    "tools": [tool.name for tool in tools.tools],
                    "echo": echo.content[0].text,
                    "add": added.content[0].text,
                    "bad": bad.content[0].text if bad.isError else "",
                    "unknown": refusal,
                    "resources": [str(one.uri) for one in offered.resources],
                    "read": text.contents[0].text,
                    "prompts": [one.name for one in prompts.prompts],
                    "prompt": prompt.messages[0].content.text,
                }
            ),
            flush=True,
        )


asyncio.run(main(*sys.argv[1:]))
