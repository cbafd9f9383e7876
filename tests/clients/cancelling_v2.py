"""Python's `mcp` 2.x, giving a call of `hold` up: `cancelling_v2.py TARGET MODE`; MCPHUB_WORDS names its box."""

import asyncio
import json
import os
import sys

from reach_v2 import reach


async def main(target: str, mode: str) -> None:
    began = asyncio.Event()

    async def hear(progress, total, message):
        began.set()

    async with reach(target, mode) as client:
        call = asyncio.create_task(
            client.call_tool("hold", {"name": os.environ["MCPHUB_WORDS"]}, progress_callback=hear)
        )
        await began.wait()
        call.cancel()
        await asyncio.wait([call])
        added = await client.call_tool("add", {"a": 2, "b": 40})
        seen = {"version": client.session.protocol_version, "cancelled": call.cancelled(), "add": added.content[0].text}
        print(json.dumps(seen), flush=True)


asyncio.run(main(*sys.argv[1:]))
