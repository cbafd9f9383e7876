"""`fastmcp` 4.x, whose calls wait for a yes: `waiting_fast.py TARGET MODE`; see `waiting_v1.py`."""

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport


async def main(target: str, mode: str) -> None:
    now, asked = {}, []

    async def elicit(message, response_type, params, context):
        asked.append(message)
        return ElicitResult(**now["answer"])

    async def hear(progress, total, message):
        print(json.dumps({"heard": message or ""}), flush=True)

    options = {"mode": mode, "elicitation_handler": elicit}
    if target.startswith("["):
        command, *arguments = json.loads(target)
        client = Client(StdioTransport(command, arguments, env=dict(os.environ), keep_alive=False), **options)
    else:
        client = Client(target, auth=os.environ["MCPHUB_KEY"], **options)
    async with client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            now.update(json.loads(line))
            asked.clear()
            result = await client.call_tool(now["name"], now["arguments"], raise_on_error=False, progress_handler=hear)
            told = {"text": result.content[0].text, "isError": bool(result.is_error), "meta": dict(result.meta or {})}
            print(json.dumps({**told, "asked": asked}), flush=True)


asyncio.run(main(*sys.argv[1:]))
