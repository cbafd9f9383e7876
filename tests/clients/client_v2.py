"""Python's `mcp` 2.x: `client_v2.py TARGET MODE`."""

import asyncio
import json
import os
import sys

from reach_v2 import reach


async def main(target: str, mode: str) -> None:
    async with reach(target, mode) as client:
        tools = await client.list_tools()
        echo = await client.call_tool("echo", {"text": os.environ["MCPHUB_WORDS"]})
        added = await client.call_tool("add", {"a": 2, "b": 40})
        bad = await client.call_tool("add", {"a": "two"})
        try:
            unknown = await client.call_tool("nowhere", {})
            refusal = "" if not unknown.is_error else unknown.content[0].text
        except Exception as error:
            refusal = str(error)
        offered = await client.list_resources()
        text = await client.read_resource("test://static-text")
        prompts = await client.list_prompts()
        prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "one", "arg2": "two"})
        print(
            json.dumps(
                {
                    "version": client.session.protocol_version,
                    "tools": [tool.name for tool in tools.tools],
                    "echo": echo.content[0].text,
                    "add": added.content[0].text,
                    "bad": bad.content[0].text if bad.is_error else "",
                    "unknown": refusal,
                    "resources": [str(one.uri) for one in offered.resources],
                    "read": text.contents[0].text,
                    "prompts": [one.name for one in prompts.prompts],
                    "prompt": prompt.messages[0].content.text,
                }
            )
        )


asyncio.run(main(*sys.argv[1:]))
