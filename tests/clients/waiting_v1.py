"""Python's `mcp` 1.x, whose calls wait for a yes: `waiting_v1.py TARGET http|sse|stdio`.

On each line of standard input is a call with the answer of its person, on each of output what the client got, or a word
of progress.
"""

import asyncio
import inspect
import json
import sys

from mcp import ClientSession, types
from reach_v1 import reach


async def main(target: str, transport: str) -> None:
    now, asked = {}, []

    async def elicit(context, params):
        asked.append(params.message)
        return types.ElicitResult(**now["answer"])

    async def hear(progress, total=None, message=None):
        print(json.dumps({"heard": message or ""}), flush=True)

    wanted = {"elicitation_callback": elicit} if hasattr(types, "ElicitResult") else {}
    callbacks = {name: each for name, each in wanted.items() if name in inspect.signature(ClientSession).parameters}
    async with reach(target, transport) as (read, write, *_), ClientSession(read, write, **callbacks) as session:
        await session.initialize()
        takes = inspect.signature(session.call_tool).parameters
        options = {"progress_callback": hear} if "progress_callback" in takes else {}
        while line := await asyncio.to_thread(sys.stdin.readline):
            now.update(json.loads(line))
            asked.clear()
            result = await session.call_tool(now["name"], now["arguments"], **options)
            meta = (result.model_extra or {}).get("_meta") or getattr(result, "meta", None) or {}
            told = {"text": result.content[0].text, "isError": bool(result.isError), "meta": meta}
            print(json.dumps({**told, "asked": asked}), flush=True)


asyncio.run(main(*sys.argv[1:]))
