"""Python's `mcp` 2.x, whose calls wait for a yes: `waiting_v2.py TARGET MODE`; see `waiting_v1.py`."""

import asyncio
import json
import sys

from mcp import types
from reach_v2 import reach


async def main(target: str, mode: str) -> None:
    now, asked = {}, []

    async def elicit(context, params):
        asked.append(params.message)
        return types.ElicitResult(**now["answer"])

    async def hear(progress, total, message):
        print(json.dumps({"heard": message or ""}), flush=True)

    async with reach(target, mode, elicitation_callback=elicit) as client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            now.update(json.loads(line))
            asked.clear()
            result = await client.call_tool(now["name"], now["arguments"], progress_callback=hear)
            told = {"text": result.content[0].text, "isError": bool(result.is_error), "meta": dict(result.meta or {})}
            print(json.dumps({**told, "asked": asked}), flush=True)


asyncio.run(main(*sys.argv[1:]))
