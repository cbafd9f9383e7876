"""Python's `mcp` 1.x reads what a hub offers: `offers_v1.py TARGET http|sse|stdio`."""

import asyncio
import inspect
import json
import sys

from mcp import ClientSession, types
from pydantic import AnyUrl
from reach_v1 import reach

WATCHED = "test://watched-resource"
PATIENCE_SECONDS = 180  # what a busy machine may need


async def main(target: str, transport: str) -> None:
    heard = asyncio.get_running_loop().create_future()

    async def hear(message):
        told = getattr(message, "root", None)
        if isinstance(told, types.ResourceUpdatedNotification) and not heard.done():
            heard.set_result(str(told.params.uri))

    async def hear_all(session):
        async for message in session.incoming_messages:
            await hear(message)

    takes_handler = "message_handler" in inspect.signature(ClientSession).parameters
    options = {"message_handler": hear} if takes_handler else {}
    async with reach(target, transport) as (read, write, *_), ClientSession(read, write, **options) as session:
        if not takes_handler:
            listening = asyncio.create_task(hear_all(session))
            heard.add_done_callback(lambda _: listening.cancel())
        hello = await session.initialize()
        resources = await session.list_resources()
        # 1.2.0 knows them not.
        lists_templates = hasattr(session, "list_resource_templates")
        templates = (await session.list_resource_templates()).resourceTemplates if lists_templates else None
        prompts = await session.list_prompts()
        text = await session.read_resource(AnyUrl("test://static-text"))
        made = await session.read_resource(AnyUrl("test://template/7/data"))
        got = await session.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
        ref = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
        completed = await session.complete(ref, {"name": "arg1", "value": "par"})
        try:
            await session.read_resource(AnyUrl("nowhere://x"))
            refusal = 0
        except Exception as error:
            refusal = error.error.code
        await session.subscribe_resource(AnyUrl(WATCHED))
        await session.call_tool("announce", {"uri": WATCHED})
        updated = await asyncio.wait_for(heard, PATIENCE_SECONDS)
        await session.unsubscribe_resource(AnyUrl(WATCHED))
        print(
            json.dumps(
                {
                    "version": hello.protocolVersion,
                    "resources": [str(each.uri) for each in resources.resources],
                    "templates": templates and [each.uriTemplate for each in templates],
                    "prompts": [each.name for each in prompts.prompts],
                    "text": text.contents[0].text,
                    "made": json.loads(made.contents[0].text)["id"],
                    "got": got.messages[0].content.text,
                    "completed": completed.completion.values,
                    "refusal": refusal,
                    "updated": updated,
                }
            ),
            flush=True,
        )


asyncio.run(main(*sys.argv[1:]))
