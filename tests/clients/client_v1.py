"""Python's `mcp` 1.x: `client_v1.py TARGET http|sse|stdio`."""

import asyncio
import inspect
import json
import os
import sys

import anyio
from mcp import ClientSession, types
from reach_v1 import reach


async def elicit(context, params):
    return types.ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.org"})


async def sample(context, params):
    said = params.messages[0].content.text
    content = types.TextContent(type="text", text=f"You said: {said}")
    return types.CreateMessageResult(role="assistant", content=content, model="parrot")


async def roots(context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="home")])


async def look(session, version: str) -> None:
    tools = await session.list_tools()
    echo = await session.call_tool("echo", {"text": os.environ["MCPHUB_WORDS"]})
    added = await session.call_tool("add", {"a": 2, "b": 40})
    bad = await session.call_tool("add", {"a": "two"})
    try:
        unknown = await session.call_tool("nowhere", {})
        refusal = "" if not unknown.isError else unknown.content[0].text
    except Exception as error:
        refusal = str(error)
    offered = await session.list_resources()
    text = await session.read_resource(next(one.uri for one in offered.resources if one.name == "Static text"))
    prompts = await session.list_prompts()
    prompt = await session.get_prompt("test_prompt_with_arguments", {"arg1": "one", "arg2": "two"})
    seen = {
        "version": version,
        "tools": [tool.name for tool in tools.tools],
        "echo": echo.content[0].text,
        "add": added.content[0].text,
        "bad": bad.content[0].text if bad.isError else "",
        "unknown": refusal,
        "resources": [str(one.uri) for one in offered.resources],
        "read": text.contents[0].text,
        "prompts": [one.name for one in prompts.prompts],
        "prompt": prompt.messages[0].content.text,
    }
    print(json.dumps(seen), flush=True)


async def main(target: str, transport: str) -> None:
    changed = asyncio.Event()

    async def hear(message):
        if isinstance(getattr(message, "root", None), types.ToolListChangedNotification):
            changed.set()

    async def hear_all(messages):
        async for message in messages:
            await hear(message)

    everything = {
        "elicitation_callback": elicit,
        "sampling_callback": sample,
        "list_roots_callback": roots,
        "message_handler": hear,
    }
    takes = inspect.signature(ClientSession).parameters
    callbacks = {name: callback for name, callback in everything.items() if name in takes}
    async with reach(target, transport) as (read, write, *_), ClientSession(read, write, **callbacks) as session:
        hello = await session.initialize()
        # Before there were handlers there was a stream of messages.
        hearing = None if "message_handler" in takes else asyncio.create_task(hear_all(session.incoming_messages))
        await look(session, hello.protocolVersion)
        calls = [await session.call_tool(name, given) for name, given in json.loads(os.environ["MCPHUB_ASKED"])]
        print(json.dumps([call.content[0].text for call in calls]), flush=True)
        print("listening", flush=True)
        await changed.wait()
        print(json.dumps([tool.name for tool in (await session.list_tools()).tools]), flush=True)
        if hearing is not None:
            hearing.cancel()


try:
    asyncio.run(main(*sys.argv[1:]))
except* anyio.BrokenResourceError:
    pass  # its reader of HTTP+SSE fails on news that come while it is being closed
