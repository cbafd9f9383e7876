"""The tools of MCP's conformance suite that ask their client something."""

from __future__ import annotations

import asyncio
import json

from tools_catalog.backends.base import Json
from tools_catalog.backends.python import Context, tool
from tools_catalog.backends.questions import Elicited, Form, Question, Roots, Sample

_RECONNECT_SECONDS = 0.1
_FRANCE = "What is the capital of France?"


def _form(**fields: dict[str, Json]) -> dict[str, Json]:
    return {"type": "object", "properties": fields, "required": list(fields)}


_NAME = _form(name={"type": "string"})
_CONFIRM = _form(ok={"type": "boolean"})
_PERSON = _form(
    username={"type": "string", "description": "User's response"},
    email={"type": "string", "description": "User's email address"},
)
_DEFAULTS: dict[str, Json] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}
_TITLED = [{"const": f"value{n}", "title": f"{word} Option"} for n, word in enumerate(("First", "Second", "Third"), 1)]
_ENUMS: dict[str, Json] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    },
}


@tool(read_only=True, open_world=False)
async def test_sampling(context: Context, prompt: str) -> str:
    """Ask the client's model what the caller asks."""
    said = await context.sample(prompt, max_tokens=100)
    return f"LLM response: {said.text}"


@tool(read_only=True, open_world=False)
async def test_elicitation(context: Context, message: str) -> str:
    """Ask the person for a user name and an e-mail address."""
    return _told("User response", await context.elicit(message, _PERSON))


@tool(read_only=True, open_world=False)
async def test_elicitation_sep1034_defaults(context: Context) -> str:
    """Ask the person to fill in a form whose fields have defaults."""
    return _told("Elicitation completed", await context.elicit("Please review the form", _DEFAULTS))


@tool(read_only=True, open_world=False)
async def test_elicitation_sep1330_enums(context: Context) -> str:
    """Ask the person to choose, in all five ways that a form has."""
    return _told("Elicitation completed", await context.elicit("Please choose", _ENUMS))


@tool(read_only=True, open_world=False)
async def test_reconnection(context: Context) -> str:
    """End the connection in the midst of the call; the client resumes it to get the answer."""
    await context.close_stream()
    await asyncio.sleep(_RECONNECT_SECONDS)
    return "Reconnection test completed"


@tool(read_only=True, open_world=False)
async def test_input_required_result_elicitation(context: Context) -> str:
    """Greet the person by the name that they give."""
    given = await context.elicit("What is your name?", _NAME, key="user_name")
    return f"Hello, {given.content['name']}!" if given.accepted else "Hello, whoever you are!"


@tool(read_only=True, open_world=False)
async def test_input_required_result_sampling(context: Context) -> str:
    """Ask the client's model for the capital of France."""
    return (await context.sample(_FRANCE, max_tokens=100, key="capital_question")).text


@tool(read_only=True, open_world=False)
async def test_input_required_result_list_roots(context: Context) -> str:
    """List the client's roots."""
    roots = await context.roots(key="client_roots")
    return f"The client has {len(roots)} roots: {', '.join(root.uri for root in roots)}"


@tool(read_only=True, open_world=False)
async def test_input_required_result_request_state(context: Context) -> str:
    """Ask for a confirmation, whose state travels with the client."""
    await context.elicit("Please confirm", _CONFIRM, key="confirm")
    return "state-ok"


@tool(read_only=True, open_world=False)
async def test_input_required_result_multiple_inputs(context: Context) -> str:
    """Ask for a name, a greeting and the roots, all in one round."""
    answers = await context.ask(
        {
            "user_name": Form("What is your name?", _NAME),
            "greeting": Sample("Generate a greeting", max_tokens=50),
            "client_roots": Roots(),
        }
    )
    name = answers["user_name"].content.get("name", "nobody")
    return f"{answers['greeting'].text} {name}, with {len(answers['client_roots'])} roots"


@tool(read_only=True, open_world=False)
async def test_input_required_result_multi_round(context: Context) -> str:
    """Ask for a name, and then for a colour."""
    name = await context.elicit("Step 1: What is your name?", _NAME, key="step1")
    colour = _form(color={"type": "string"})
    choice = await context.elicit("Step 2: What is your favorite color?", colour, key="step2")
    return f"{name.content.get('name')} likes {choice.content.get('color')}"


@tool(read_only=True, open_world=False)
async def test_input_required_result_tampered_state(context: Context) -> str:
    """Ask for a confirmation, whose state nobody may change."""
    await context.elicit("Please confirm", _CONFIRM, key="confirm")
    return "The state came back as it was given."


@tool(read_only=True, open_world=False)
async def test_input_required_result_capabilities(context: Context) -> str:
    """Ask whatever the client says that it can answer."""
    questions: dict[str, Question] = {
        "user_name": Form("What is your name?", _NAME),
        "capital_question": Sample(_FRANCE, max_tokens=100),
        "client_roots": Roots(),
    }
    answers = await context.ask({key: asked for key, asked in questions.items() if context.can_ask(asked)})
    return f"Answered: {', '.join(sorted(answers)) or 'nothing was asked'}"


def _told(words: str, given: Elicited) -> str:
    return f"{words}: action={given.action}, content={json.dumps(given.content)}"
