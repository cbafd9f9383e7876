"""The tools that MCP's conformance suite calls, as its fixture catalogue describes them. For tests of the
hub itself; a hub in use does not need them."""

from __future__ import annotations

import asyncio
import base64
import io
import wave
from typing import Annotated, Any

from asgiref.sync import sync_to_async
from pydantic import Field

from tools_catalog.backends.base import Json
from tools_catalog.backends.content import Audio, Image, Resource, Text
from tools_catalog.backends.python import Context, ToolError, tool
from tools_catalog.packs.conformance import asking, offers, tasks  # noqa: F401 - they register their functions

_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_STEP_SECONDS = 0.05

_ADDRESS_SCHEMA: dict[str, Json] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@tool(read_only=True, open_world=False)
async def test_simple_text() -> str:
    """Return one short text."""
    return "This is a simple text response for testing."


@tool(read_only=True, open_world=False)
async def test_image_content() -> Image:
    """Return a PNG image of one pixel."""
    return Image(_PNG, "image/png")


@tool(read_only=True, open_world=False)
async def test_audio_content() -> Audio:
    """Return a very short WAV sound."""
    return Audio(_wav(), "audio/wav")


@tool(read_only=True, open_world=False)
async def test_embedded_resource() -> Resource:
    """Return a text resource inside the answer."""
    return Resource("test://embedded-resource", "This is an embedded resource content.", "text/plain")


@tool(read_only=True, open_world=False)
async def test_multiple_content_types() -> list[Text | Image | Resource]:
    """Return text, an image and a resource in one answer."""
    return [
        Text("Multiple content types test:"),
        Image(_PNG, "image/png"),
        Resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ]


@tool(read_only=True, open_world=False)
async def test_error_handling() -> str:
    """Fail on purpose, with a message meant for the model."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool(read_only=True, open_world=False)
async def test_tool_with_progress(context: Context) -> str:
    """Report progress three times, then return a text."""
    await context.progress(0, 100, "Started")
    await asyncio.sleep(_STEP_SECONDS)
    await context.progress(50, 100, "Half done")
    await asyncio.sleep(_STEP_SECONDS)
    await context.progress(100, 100, "Done")
    return "Progress was reported at 0, 50 and 100 of 100."


@tool(read_only=True, open_world=False)
async def test_tool_with_logging(context: Context) -> str:
    """Send three log messages of level info, then return a text."""
    await context.log("info", "Tool execution started")
    await asyncio.sleep(_STEP_SECONDS)
    await context.log("info", "Tool processing data")
    await asyncio.sleep(_STEP_SECONDS)
    await context.log("info", "Tool execution completed")
    return "Three log messages were sent."


@tool(read_only=True, open_world=False, input_schema=_ADDRESS_SCHEMA)
async def json_schema_2020_12_tool(**arguments: Any) -> str:
    """Take arguments that a schema with definitions, references and conditions describes."""
    return f"Accepted: {', '.join(sorted(arguments)) or 'nothing'}."


@tool(read_only=True, open_world=False)
async def test_x_mcp_header(
    region: Annotated[
        str,
        Field(description="A region, repeated in a header.", json_schema_extra={"x-mcp-header": "Region"}),
    ],
) -> str:
    """Take an argument that the client also sends as an HTTP header."""
    return f"Region: {region}"


@tool(read_only=True, open_world=False)
async def test_missing_capability(context: Context) -> str:
    """Refuse clients that did not declare the sampling capability."""
    context.require_capability("sampling")
    return "The client declares sampling."


@tool(read_only=True, open_world=False)
async def test_streaming_elicitation(context: Context) -> str:
    """Send notifications while running, and nothing else before the answer."""
    await context.progress(0, 1)
    await context.log("info", "Nothing is asked of the client")
    await context.progress(1, 1)
    return "Only notifications were sent before this answer."


@tool(read_only=True, open_world=False)
async def test_logging_tool(context: Context) -> str:
    """Send a log message, which only clients that asked for its level receive."""
    await context.log("info", "A message of the logging tool", "conformance")
    return "The message was logged."


@tool(open_world=False, destructive=False)
async def test_trigger_tool_change() -> str:
    """Make the hub tell its listeners that the list of tools changed."""
    await _publish("tools_changed")
    return "The change of the tool list was announced."


@tool(open_world=False, destructive=False)
async def test_trigger_prompt_change() -> str:
    """Make the hub tell its listeners that the list of prompts changed."""
    await _publish("prompts_changed")
    return "The change of the prompt list was announced."


async def _publish(subject: str) -> None:
    from sessions_app import bus

    await sync_to_async(bus.publish)(subject)


def _wav() -> bytes:
    raw = io.BytesIO()
    with wave.open(raw, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(b"\x80" * 8)
    return raw.getvalue()
