"""Python's `mcp` 2.x: `client_v2.py TARGET MODE`."""

import asyncio
import json
import os
import sys

import anyio
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


async def look(client) -> None:
    tools = await client.list_tools()
    echo = await client.call_tool("echo", {"text": os.environ["MCPHUB_WORDS"]})
    added = await client.call_tool("add", {"a": 2, "b": 40})
    bad = await client.call_tool("add", {"a": "two"})
    try:
        unknown = await client.call_tool("nowhere", {})
        refusal = "" if not unknown.is_error else unknown.content[0].text
    except Exception as error:
        refusal = str(error)
    offered = await client.list_resources()
    text = await client.read_resource("test://static-text")
    prompts = await client.list_prompts()
    prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "one", "arg2": "two"})
    seen = {
        "version": client.session.protocol_version,
        "tools": [tool.name for tool in tools.tools],
        "echo": echo.content[0].text,
        "add": added.content[0].text,
        "bad": bad.content[0].text if bad.is_error else "",
        "unknown": refusal,
        "resources": [str(one.uri) for one in offered.resources],
        "read": text.contents[0].text,
        "prompts": [one.name for one in prompts.prompts],
        "prompt": prompt.messages[0].content.text,
    }
    print(json.dumps(seen), flush=True)


async def give_up(client) -> None:
    began = asyncio.Event()

    async def hear(progress, total, message):
        began.set()

    held = asyncio.create_task(client.call_tool("hold", {"name": os.environ["MCPHUB_BOX"]}, progress_callback=hear))
    await began.wait()
    held.cancel()
    await asyncio.wait([held])
    added = await client.call_tool("add", {"a": 2, "b": 40})
    print(json.dumps({"gaveUp": held.cancelled(), "add": added.content[0].text}), flush=True)


async def main(target: str, mode: str) -> None:
    changed = asyncio.Event()

    async def hear(message):
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    callbacks = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}
    async with reach(target, mode, message_handler=hear, **callbacks) as client:
        await look(client)
        calls = [await client.call_tool(name, given) for name, given in json.loads(os.environ["MCPHUB_ASKED"])]
        print(json.dumps([call.content[0].text for call in calls]), flush=True)
        await give_up(client)
        if client.session.protocol_version >= "2026":
            async with client.listen(tools_list_changed=True) as news:
                print("listening", flush=True)
                await anext(aiter(news))
        else:
            print("listening", flush=True)
            await changed.wait()
        print(json.dumps([tool.name for tool in (await client.list_tools()).tools]), flush=True)


try:
    asyncio.run(main(*sys.argv[1:]))
except* anyio.BrokenResourceError:
    pass  # its reader of HTTP+SSE fails on news that come while it is being closed
