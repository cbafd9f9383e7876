"""Python's `mcp` 1.x with nothing but an address: `signin_v1.py ADDRESS`."""

import asyncio
import json
import sys

from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamablehttp_client
from mcp.shared.auth import OAuthClientMetadata
from visit import Callback, Memory, visit


async def main(address):
    async with Callback() as callback:

        async def answer():
            told = await callback.told
            return told["code"], told["state"]

        metadata = OAuthClientMetadata(client_name="Python SDK 1", redirect_uris=[callback.address])
        auth = OAuthClientProvider(address, metadata, Memory(), visit, answer)
        async with streamablehttp_client(address, auth=auth) as (read, write, _), ClientSession(read, write) as session:
            await session.initialize()
            said = await session.call_tool("echo", {"text": "signed in"})
            print(json.dumps(said.content[0].text), flush=True)


asyncio.run(main(sys.argv[1]))
