"""`fastmcp` 4.x: `client_fast.py URL MODE`."""

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp import types
from mcp.client.subscriptions import listen


async def elicit(message, response_type, params, context):
    return {"username": "ada", "email": "ada@example.org"}


async def sample(messages, params, context):
    return f"You said: {messages[0].content.text}"


async def act(client: Client) -> None:
    """As the function of this name in `report.mjs`."""
    calls = [
        await client.call_tool(name, arguments, raise_on_error=False)
        for name, arguments in json.loads(os.environ["MCPHUB_ASKED"])
    ]
    print(json.dumps([call.content[0].text for call in calls]), flush=True)

    began = asyncio.Event()

    async def hear(progress, total, message):
        began.set()

    held = asyncio.create_task(client.call_tool("hold", {"name": os.environ["MCPHUB_BOX"]}, progress_handler=hear))
    await began.wait()
    held.cancel()
    await asyncio.wait([held])
    added = await client.call_tool("add", {"a": 2, "b": 40})
    print(json.dumps({"gaveUp": held.cancelled(), "add": added.content[0].text}), flush=True)

    async with listen(client.session, tools_list_changed=True) as news:
        print("listening", flush=True)
        await anext(aiter(news))
    print(json.dumps([tool.name for tool in await client.list_tools()]), flush=True)


async def main(target: str, mode: str) -> None:
    roots = [types.Root(uri="file:///home/ada", name="home")]
    options = {"mode": mode, "elicitation_handler": elicit, "sampling_handler": sample, "roots": roots}
    if target.startswith("["):
        command, *arguments = json.loads(target)
        client = Client(StdioTransport(command, arguments, env=dict(os.environ), keep_alive=False), **options)
    else:
        client = Client(target, auth=os.environ["MCPHUB_KEY"], **options)
    async with client:
        tools = await client.list_tools()
        echo = await client.call_tool("echo", {"text": os.environ["MCPHUB_WORDS"]})
        added = await client.call_tool("add", {"a": 2, "b": 40})
        bad = await client.call_tool("add", {"a": "two"}, raise_on_error=False)
        try:
            unknown = await client.call_tool("nowhere", {}, raise_on_error=False)
            refusal = "" if not unknown.is_error else unknown.content[0].text
        except Exception as error:
            refusal = str(error)
        offered = await client.list_resources()
        text = await client.read_resource("test://static-text")
        prompts = await client.list_prompts()
        prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "one", "arg2": "two"})
        seen = {
            "version": client.protocol_version,
            "tools": [tool.name for tool in tools],
            "echo": echo.content[0].text,
            "add": added.content[0].text,
            "bad": bad.content[0].text if bad.is_error else "",
            "unknown": refusal,
            "resources": [str(one.uri) for one in offered],
            "read": text[0].text,
            "prompts": [one.name for one in prompts],
            "prompt": prompt.messages[0].content.text,
        }
        print(json.dumps(seen), flush=True)
        await act(client)


asyncio.run(main(*sys.argv[1:]))
