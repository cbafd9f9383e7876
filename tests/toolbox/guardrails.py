"""Guardrails for the tests of the wire: one that finds code names, and those that fail in each way."""

from __future__ import annotations

import threading

from mcphub.features.guardrails.functions import guardrail
from mcphub.features.guardrails.guardrail import GuardedCall, GuardrailFinding
from sessions_app.protocol.json import Json
from tools_catalog.backends.python import Context, ToolError, tool

CODE_NAME = "Bluebird"
_LATE_SECONDS = 4


@guardrail
def code_names(value: Json, call: GuardedCall) -> GuardrailFinding | None:
    """Find the code name of a project, and give the value without it."""
    count = _count(value)
    return GuardrailFinding({"code_name": count}, _without(value)) if count else None


@guardrail
def raises(value: Json, call: GuardedCall) -> None:
    raise RuntimeError("inner words")


@guardrail
def is_late(value: Json, call: GuardedCall) -> None:
    threading.Event().wait(_LATE_SECONDS)


@guardrail
def talks_nonsense(value: Json, call: GuardedCall) -> GuardrailFinding:
    return GuardrailFinding({"No such word!": -1})


@tool(open_world=False, read_only=True)
def complain(about: str) -> str:
    """Fail, and say what about."""
    raise ToolError(f"I do not like {about}.")


@tool(open_world=False, read_only=True)
async def murmur(text: str, context: Context) -> str:
    """Send the text as progress and as a log message, ask it, and answer something else."""
    await context.progress(1, 2, text)
    await context.log("info", {"said": text})
    await context.elicit(text, {"type": "object", "properties": {"text": {"type": "string", "description": text}}})
    return "It said nothing."


@tool(open_world=False, read_only=True)
async def consult(context: Context) -> str:
    """Ask for a text, and say it back."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    given = await context.elicit("What?", schema, key="what")
    return str(given.content["text"])


def _count(value: Json) -> int:
    if isinstance(value, str):
        return value.count(CODE_NAME)
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(_count, items))


def _without(value: Json) -> Json:
    if isinstance(value, str):
        return value.replace(CODE_NAME, "…")
    if isinstance(value, dict):
        return {name: _without(each) for name, each in value.items()}
    return [_without(each) for each in value] if isinstance(value, list) else value
