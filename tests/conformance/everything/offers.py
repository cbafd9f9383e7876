"""The resources and prompts of the fixture."""

from __future__ import annotations

import json
import re

import mcp_types as types
from mcp.shared.exceptions import MCPError

from tests.conformance.everything.call import Call, Json, Run, fields, form
from tests.conformance.everything.tools import PNG

RESOURCES: dict[str, dict[str, Json]] = {
    "test://static-text": {"name": "Static text", "description": "A text.", "mimeType": "text/plain"},
    "test://static-binary": {"name": "Static image", "description": "An image.", "mimeType": "image/png"},
    "test://watched-resource": {"name": "Watched", "description": "One to subscribe to.", "mimeType": "text/plain"},
}
TEMPLATE: dict[str, Json] = {
    "uriTemplate": "test://template/{id}/data",
    "name": "Data by id",
    "description": "Data about an id.",
    "mimeType": "application/json",
}
_BY_ID = re.compile(r"test://template/([^/]+)/data")


def read(uri: str) -> Json:
    """Return the contents of a resource; raise what MCP says of one that is not there."""
    if found := _BY_ID.fullmatch(uri):
        data = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
        return {"uri": uri, "mimeType": "application/json", "text": json.dumps(data)}
    if uri == "test://static-binary":
        return {"uri": uri, "mimeType": "image/png", "blob": PNG}
    if uri not in RESOURCES:
        raise MCPError(types.INVALID_PARAMS, "There is no such resource.", {"uri": uri})
    words = {"test://static-text": "This is the content of the static text resource."}
    return {"uri": uri, "mimeType": "text/plain", "text": words.get(uri, "Watched.")}


async def test_simple_prompt(call: Call) -> list[Json]:
    """Return one message."""
    return [_text("This is a simple prompt for testing.")]


async def test_prompt_with_arguments(call: Call) -> list[Json]:
    """Return the arguments back."""
    one, two = call.arguments.get("arg1"), call.arguments.get("arg2")
    return [_text(f"Prompt with arguments: arg1='{one}', arg2='{two}'")]


async def test_prompt_with_embedded_resource(call: Call) -> list[Json]:
    """Return a resource and what to do with it."""
    text = "Embedded resource content for testing."
    resource = {"uri": call.arguments["resourceUri"], "mimeType": "text/plain", "text": text}
    return [
        {"role": "user", "content": {"type": "resource", "resource": resource}},
        _text("Please process the embedded resource above."),
    ]


async def test_prompt_with_image(call: Call) -> list[Json]:
    """Return an image and what to do with it."""
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    return [{"role": "user", "content": image}, _text("Please analyze the image above.")]


async def test_input_required_result_prompt(call: Call) -> list[Json]:
    """Ask the person for the context of their question."""
    asked = form("What context should the prompt use?", fields(context={"type": "string"}))
    given = (await call.ask(user_context=asked))["user_context"]
    return [_text(f"Use this context: {(given.content or {}).get('context', 'none')}")]


PROMPTS: dict[str, tuple[Run, tuple[str, ...]]] = {
    "test_simple_prompt": (test_simple_prompt, ()),
    "test_prompt_with_arguments": (test_prompt_with_arguments, ("arg1", "arg2")),
    "test_prompt_with_embedded_resource": (test_prompt_with_embedded_resource, ("resourceUri",)),
    "test_prompt_with_image": (test_prompt_with_image, ()),
    "test_input_required_result_prompt": (test_input_required_result_prompt, ()),
}
"""Name -> what gives it, and its arguments."""


def _text(words: str) -> Json:
    return {"role": "user", "content": {"type": "text", "text": words}}
