"""Python's `mcp` 2.x reads what a hub offers: `offers_v2.py TARGET MODE`."""

import asyncio
import json
import sys
import warnings

from mcp import types
from reach_v2 import reach

WATCHED = "test://watched-resource"
PATIENCE_SECONDS = 180  # what a busy machine may need


async def updated_in_session(client, heard):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a revision without sessions the client would say so
        await client.subscribe_resource(WATCHED)
        await client.call_tool("announce", {"uri": WATCHED})
        uri = await asyncio.wait_for(heard, PATIENCE_SECONDS)
        await client.unsubscribe_resource(WATCHED)
    return uri


async def updated_without(client):
    async with client.listen(resource_subscriptions=[WATCHED], prompts_list_changed=True) as changes:
        await client.call_tool("announce", {"uri": WATCHED})
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for change in changes:
                return change.uri


async def main(target: str, mode: str) -> None:
    heard = asyncio.get_running_loop().create_future()

    async def hear(message):
        if isinstance(message, types.ResourceUpdatedNotification) and not heard.done():
            heard.set_result(message.params.uri)

    async with reach(target, mode, message_handler=hear) as client:
        resources = await client.list_resources()
        templates = await client.list_resource_templates()
        prompts = await client.list_prompts()
        text = await client.read_resource("test://static-text")
        made = await client.read_resource("test://template/7/data")
        got = await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
        ref = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
        completed = await client.complete(ref, {"name": "arg1", "value": "par"})
        try:
            await client.read_resource("nowhere://x")
            refusal = 0
        except Exception as error:
            refusal = error.error.code
        version = client.session.protocol_version
        updated = await (updated_without(client) if version >= "2026" else updated_in_session(client, heard))
        print(
            json.dumps(
                {
                    "version": version,
                    "resources": [str(each.uri) for each in resources.resources],
                    "templates": [each.uri_template for each in templates.resource_templates],
                    "prompts": [each.name for each in prompts.prompts],
                    "text": text.contents[0].text,
                    "made": json.loads(made.contents[0].text)["id"],
                    "got": got.messages[0].content.text,
                    "completed": completed.completion.values,
                    "refusal": refusal,
                    "updated": str(updated),
                }
            )
        )


asyncio.run(main(*sys.argv[1:]))
