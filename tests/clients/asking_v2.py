"""Python's `mcp` 2.x, with somebody who answers: `asking_v2.py TARGET MODE`."""

import asyncio
import json
import os
import sys

from mcp import types
from reach_v2 import reach


async def elicit(context, params):
    return types.ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.org"})


async def sample(context, params):
    said = params.messages[0].content.text
    content = types.TextContent(type="text", text=f"You said: {said}")
    return types.CreateMessageResult(role="assistant", content=content, model="parrot")


async def roots(context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="home")])


async def main(target: str, mode: str) -> None:
    answers = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}
    async with reach(target, mode, **answers) as client:
        said = []
        for tool, arguments in json.loads(os.environ["MCPHUB_WORDS"]):
            result = await client.call_tool(tool, arguments)
            said.append(result.content[0].text)
        print(json.dumps({"version": client.session.protocol_version, "said": said}))


asyncio.run(main(*sys.argv[1:]))
