"""Tools for models that cannot call functions, but can be held to a JSON schema: the call is the answer's only form.

Pure. The tools are described in a system message, the answer is forced into `{"name", "arguments"}` of one of them, or
`{"answer"}`. Calls and results of the conversation are written as plain messages: a result stands in a
user's message, never in the system's, for it is not to be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcphub.features.chat.dialects import Dialect
from mcphub.features.chat.tools.functions import LONGEST_DESCRIPTION, Functions
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json

RESULT_OF = "Result of "
"""How a message with a result begins."""


def instructions(functions: Functions, dialect: Dialect, *, may_answer: bool) -> str:
    """Return the system message that describes the tools and the two forms of an answer."""
    lines = ["You can use these tools:"]
    for tool in functions.wire(dialect):
        function = tool["function"]
        parameters = json.dumps(function.get("parameters") or {}).decode()
        description = str(function.get("description") or "")[:LONGEST_DESCRIPTION]
        lines.append(f"- {function['name']}: {description} Arguments: {parameters}")
    lines.append('To use a tool, write JSON: {"name": "the tool", "arguments": {…}}.')
    if may_answer:
        lines.append('When you need no tool, or have its result, write JSON: {"answer": "your words"}.')
    return "\n".join(lines)


def response_format(functions: Functions, dialect: Dialect, *, may_answer: bool) -> dict[str, Json]:
    """Return the request's `response_format`: one of the calls, or an answer."""
    forms: list[dict[str, Json]] = [
        _closed(
            name={"type": "string", "const": tool["function"]["name"]},
            arguments=tool["function"].get("parameters") or {"type": "object"},
        )
        for tool in functions.wire(dialect)
    ]
    if may_answer:
        forms.append(_closed(answer={"type": "string"}))
    schema = {"anyOf": forms} if len(forms) > 1 else forms[0]
    return {"type": "json_schema", "json_schema": {"name": "step", "schema": schema}}


def as_plain_messages(messages: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
    """Return the messages without calls and tool results, which such a model does not know."""
    names: dict[str, str] = {}
    plain: list[dict[str, Json]] = []
    for message in messages:
        if message["role"] == "assistant" and message.get("tool_calls"):
            parts = [message.get("content") or ""]
            for call in message["tool_calls"]:
                name, arguments = call["function"]["name"], call["function"]["arguments"]
                names[call["id"]] = name
                parts.append(f'{{"name": {json.dumps(name).decode()}, "arguments": {arguments or "{}"}}}')
            plain.append({"role": "assistant", "content": "\n".join(each for each in parts if each)})
        elif message["role"] == "tool":
            name = names.get(str(message.get("tool_call_id")), "the tool")
            text = f"{RESULT_OF}{name}:\n{message.get('content') or ''}"
            if plain and plain[-1]["role"] == "user" and str(plain[-1]["content"]).startswith(RESULT_OF):
                plain[-1]["content"] += "\n\n" + text
            else:
                plain.append({"role": "user", "content": text})
        else:
            plain.append(dict(message))
    return plain


def read_answer(text: str) -> tuple[str, str] | str:
    """Return (function, arguments) of an answer that is a call, or else its text."""
    try:
        value = json.loads(text.strip().encode("utf-8", "replace"))
    except ParseError:
        return text
    if not isinstance(value, dict):
        return text
    if isinstance(value.get("name"), str) and "arguments" in value:
        arguments = value["arguments"]
        return value["name"], arguments if isinstance(arguments, str) else json.dumps(arguments).decode()
    answer = value.get("answer")
    return answer if isinstance(answer, str) else text


def _closed(**properties: Json) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
