"""LangChain at results that are too large: `handles_langchain.py ADDRESS KEY FOREIGN`. Calls with fields of its own,
reads the rest, and is refused another's link. Runs in an environment of its own (see `install.AGENTS`).
"""

import asyncio
import json
import re
import sys

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools


async def main(url, key, foreign):
    server = {"transport": "streamable_http", "url": url, "headers": {"Authorization": f"Bearer {key}"}}
    async with MultiServerMCPClient({"hub": server}).session("hub") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}

        async def called(**arguments):
            return await tools["list_pulls"].ainvoke(arguments)

        link = re.search(r"mcphub://results/[\w-]{32}", str(await called(count=500)))[0]
        chosen = await called(count=2, pick="values[].id")
        (part,) = await load_mcp_resources(session, uris=[f"{link}?path=%2Fvalues&start=499"])
        try:
            refused = await load_mcp_resources(session, uris=[foreign])
        except Exception as error:
            refused = error.__cause__ or error
        seen = {"last": json.loads(part.as_string())[0]["id"], "chosen": str(chosen), "refused": str(refused)}
        print(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
