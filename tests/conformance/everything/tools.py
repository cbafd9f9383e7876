"""The tools of the fixture: what the suite calls, by the names and with the answers that it expects."""

from __future__ import annotations

import base64
import io
import json
import wave
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from tests.conformance.everything.call import Call, Json, Run, fields, form, roots, sampling

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_STEP_SECONDS = 0.05
_NOTHING: dict[str, Json] = {"type": "object", "properties": {}}
_FRANCE = "What is the capital of France?"
_NAME = fields(name={"type": "string"})
_CONFIRM = fields(ok={"type": "boolean"})


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    schema: dict[str, Json]
    run: Run


TOOLS: dict[str, Tool] = {}


class Failed(Exception):
    """The tool failed, with words for the model."""


def tool(schema: dict[str, Json] | None = None) -> Callable[[Run], Run]:
    """Offer a function as the tool of its name; its first line of words describes it."""

    def offered(run: Run) -> Run:
        name = getattr(run, "__name__", "")
        TOOLS[name] = Tool(name, (run.__doc__ or "").strip(), schema or _NOTHING, run)
        return run

    return offered


@tool()
async def test_simple_text(call: Call) -> str:
    """Return one short text."""
    return "This is a simple text response for testing."


@tool()
async def test_image_content(call: Call) -> list[Json]:
    """Return a PNG image of one pixel."""
    return [{"type": "image", "data": PNG, "mimeType": "image/png"}]


@tool()
async def test_audio_content(call: Call) -> list[Json]:
    """Return a very short WAV sound."""
    return [{"type": "audio", "data": _wav(), "mimeType": "audio/wav"}]


@tool()
async def test_embedded_resource(call: Call) -> list[Json]:
    """Return a text resource inside the answer."""
    text = "This is an embedded resource content."
    return [_resource("test://embedded-resource", "text/plain", text)]


@tool()
async def test_multiple_content_types(call: Call) -> list[Json]:
    """Return text, an image and a resource in one answer."""
    return [
        {"type": "text", "text": "Multiple content types test:"},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        _resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ]


@tool()
async def test_error_handling(call: Call) -> str:
    """Fail on purpose."""
    raise Failed("This tool intentionally returns an error for testing")


@tool()
async def test_tool_with_progress(call: Call) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        await call.ctx.session.report_progress(done, 100, f"{done} of 100")
        await anyio.sleep(_STEP_SECONDS)
    return "Progress was reported at 0, 50 and 100 of 100."


@tool()
async def test_tool_with_logging(call: Call) -> str:
    """Send three log messages."""
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await call.log(words)
        await anyio.sleep(_STEP_SECONDS)
    return "Three log messages were sent."


@tool(fields(prompt={"type": "string"}))
async def test_sampling(call: Call) -> str:
    """Ask the client's model what the caller asks."""
    said = (await call.ask(said=sampling(call.arguments["prompt"])))["said"]
    return f"LLM response: {said.content.text}"


@tool(fields(message={"type": "string"}))
async def test_elicitation(call: Call) -> str:
    """Ask the person for a user name and an address."""
    wanted = fields(
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    return await _told(call, "User response", call.arguments["message"], wanted)


@tool()
async def test_elicitation_sep1034_defaults(call: Call) -> str:
    """Ask the person to look over a form whose fields have defaults."""
    properties: dict[str, Json] = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    wanted = {"type": "object", "properties": properties}
    return await _told(call, "Elicitation completed", "Please review", wanted)


@tool()
async def test_elicitation_sep1330_enums(call: Call) -> str:
    """Ask the person to choose, in each way that a form has."""
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{number}", "title": f"Value {number}"} for number in (1, 2, 3)]
    properties: dict[str, Json] = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    wanted = {"type": "object", "properties": properties}
    return await _told(call, "Elicitation completed", "Please choose", wanted)


@tool()
async def test_reconnection(call: Call) -> str:
    """End the stream in the midst of the call, where it can be resumed."""
    if call.ctx.close_sse_stream is not None:
        await anyio.sleep(_STEP_SECONDS)  # the SDK sends a stream's first event beside the call, and may not have yet
        await call.ctx.close_sse_stream()
        await anyio.sleep(2 * _STEP_SECONDS)
    return "The stream was closed and resumed."


_ADDRESS: dict[str, Json] = {
    "$anchor": "addressDef",
    "type": "object",
    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
}


@tool(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": _ADDRESS},
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
)
async def json_schema_2020_12_tool(call: Call) -> str:
    """Take what a schema with definitions, references and conditions describes."""
    return f"Taken: {', '.join(call.arguments) or 'nothing'}."


@tool(fields(region={"type": "string", "description": "Repeated in a header.", "x-mcp-header": "Region"}))
async def test_x_mcp_header(call: Call) -> str:
    """Take an argument that the client repeats in a header."""
    return f"Region: {call.arguments['region']}"


@tool()
async def test_missing_capability(call: Call) -> str:
    """Refuse clients that do not sample."""
    if not call.can_ask("sampling/createMessage"):
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "It needs sampling.", needed)
    return "The client samples."


@tool()
async def test_streaming_elicitation(call: Call) -> str:
    """Send notifications before the answer, and nothing else."""
    await call.ctx.session.report_progress(0, 1)
    await call.ctx.session.report_progress(1, 1)
    return "Notifications only."


@tool()
async def test_logging_tool(call: Call) -> str:
    """Send a log message to who wants it."""
    await call.log("A message")
    return "Logged."


@tool()
async def test_input_required_result_elicitation(call: Call) -> str:
    """Greet the person by the name that they give."""
    given = (await call.ask(user_name=form("What is your name?", _NAME)))["user_name"]
    return f"Hello, {(given.content or {}).get('name', 'whoever you are')}!"


@tool()
async def test_input_required_result_sampling(call: Call) -> str:
    """Ask the client's model for the capital of France."""
    said = (await call.ask(capital_question=sampling(_FRANCE)))["capital_question"]
    return str(said.content.text)


@tool()
async def test_input_required_result_list_roots(call: Call) -> str:
    """Count the client's roots."""
    found = (await call.ask(client_roots=roots()))["client_roots"].roots
    return f"{len(found)} roots: {', '.join(str(root.uri) for root in found)}"


@tool()
async def test_input_required_result_request_state(call: Call) -> str:
    """Ask for a confirmation whose state travels with the client."""
    await call.ask(confirm=form("Please confirm", _CONFIRM))
    return "state-ok"


@tool()
async def test_input_required_result_multiple_inputs(call: Call) -> str:
    """Ask for a name, a greeting and the roots in one round."""
    given = await call.ask(
        user_name=form("What is your name?", _NAME), greeting=sampling("Greet.", 50), client_roots=roots()
    )
    name = (given["user_name"].content or {}).get("name", "nobody")
    return f"{given['greeting'].content.text} {name}, {len(given['client_roots'].roots)} roots"


@tool()
async def test_input_required_result_multi_round(call: Call) -> str:
    """Ask for a name, and then for a colour."""
    first = await call.ask(step1=form("What is your name?", _NAME))
    second = await call.ask(step2=form("Which colour?", fields(color={"type": "string"})))
    return f"{first['step1'].content} {second['step2'].content}"


@tool()
async def test_input_required_result_tampered_state(call: Call) -> str:
    """Ask for a confirmation whose state nobody may change."""
    await call.ask(confirm=form("Please confirm", _CONFIRM))
    return "The state came back as it was."


@tool()
async def test_input_required_result_capabilities(call: Call) -> str:
    """Ask what the client can answer."""
    asked = {
        "user_name": form("What is your name?", _NAME),
        "capital_question": sampling(_FRANCE),
        "client_roots": roots(),
    }
    possible = {key: request for key, request in asked.items() if call.can_ask(request["method"])}
    given = await call.ask(**possible) if possible else {}
    return f"Answered: {', '.join(sorted(given)) or 'nothing'}"


async def _told(call: Call, words: str, message: str, schema: dict[str, Json]) -> str:
    given: Any = (await call.ask(user_response=form(message, schema)))["user_response"]
    return f"{words}: action={given.action}, content={json.dumps(given.content or {})}"


def _resource(uri: str, mime_type: str, text: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


def _wav() -> str:
    raw = io.BytesIO()
    with wave.open(raw, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(1)
        sound.setframerate(8000)
        sound.writeframes(b"\x80" * 8)
    return base64.b64encode(raw.getvalue()).decode()
