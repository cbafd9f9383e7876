"""Python's `mcp` 1.x, with somebody who answers: `asking_v1.py TARGET http|sse|stdio`."""

import asyncio
import json
import os
import sys

from mcp import ClientSession, types
from reach_v1 import reach


async def elicit(context, params):
    return types.ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.org"})


async def sample(context, params):
    said = params.messages[0].content.text
    content = types.TextContent(type="text", text=f"You said: {said}")
    return types.CreateMessageResult(role="assistant", content=content, model="parrot")


async def roots(context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="home")])


async def main(target: str, transport: str) -> None:
    answers = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}
    async with reach(target, transport) as (read, write, *_), ClientSession(read, write, **answers) as session:
        hello = await session.initialize()
        said = []
        for tool, arguments in json.loads(os.environ["MCPHUB_WORDS"]):
            result = await session.call_tool(tool, arguments)
            said.append(result.content[0].text)
        print(json.dumps({"version": hello.protocolVersion, "said": said}), flush=True)


asyncio.run(main(*sys.argv[1:]))
