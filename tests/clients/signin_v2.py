"""Python's `mcp` 2.x with nothing but an address: `signin_v2.py ADDRESS`."""

import asyncio
import json
import sys

from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import OAuthClientMetadata
from visit import Callback, Memory, visit


async def main(address):
    async with Callback() as callback:

        async def answer():
            told = await callback.told
            return AuthorizationCodeResult(code=told["code"], state=told["state"], iss=told.get("iss"))

        metadata = OAuthClientMetadata(client_name="Python SDK 2", redirect_uris=[callback.address])
        auth = OAuthClientProvider(address, metadata, Memory(), visit, answer)
        async with (
            create_mcp_http_client(auth=auth) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            said = await client.call_tool("echo", {"text": "signed in"})
            print(json.dumps(said.content[0].text), flush=True)


asyncio.run(main(sys.argv[1]))
