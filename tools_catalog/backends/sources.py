"""The source of a resource, a prompt and a completion: stored content, or a function.

Shared by concurrent requests, so nothing of a request is kept. Failures are HubErrors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from sessions_app.protocol import errors, json
from tools_catalog.backends import offered
from tools_catalog.backends.python import UnknownFunction
from tools_catalog.call.base import Json
from tools_catalog.call.content import ContentBlock, Resource, Text, as_block, dump, jsonable
from tools_catalog.call.context import ToolContext

_FIELD = re.compile(r"\{([A-Za-z0-9_.%-]+)\}")
_VERBATIM = frozenset({"type", "mimeType", "data", "blob"})
"""Members of a content block in which no argument stands."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt: a text or a content block, of the user or the assistant."""

    content: str | ContentBlock
    role: Literal["user", "assistant"] = "user"


class Contents(Protocol):
    """Returns the answer of `resources/read`."""

    is_static: bool
    """The row alone decides the content, for every caller at any time."""

    async def read(self, uri: str, values: Mapping[str, str], context: ToolContext | None) -> dict[str, Json]:
        """Return the result; no contents where the URI names nothing. `context` may be None where `is_static`."""
        ...


class Messages(Protocol):
    """Returns the answer of `prompts/get`."""

    is_static: bool

    async def get(self, arguments: Mapping[str, str], context: ToolContext | None) -> dict[str, Json]: ...


class Completion(Protocol):
    """Gives the values that `completion/complete` offers, all of them, the likeliest first."""

    is_static: bool

    async def complete(self, typed: str, others: Mapping[str, str], context: ToolContext | None) -> list[str]: ...


class StaticContents:
    """One text or blob; `{variable}` in the text of a template stands for its value, in JSON escaped."""

    is_static = True

    def __init__(self, content: str, mime_type: str, *, is_blob: bool, variables: tuple[str, ...] = ()) -> None:
        self._content = content
        self._mime_type = mime_type
        self._member = "blob" if is_blob else "text"
        self._variables = frozenset(variables)

    async def read(self, uri: str, values: Mapping[str, str], context: ToolContext | None) -> dict[str, Json]:
        text = self._content
        if self._variables:
            given = {name: values.get(name, "") for name in self._variables}
            if self._mime_type.partition(";")[0].endswith(("/json", "+json")):
                given = {name: json.dumps(value).decode()[1:-1] for name, value in given.items()}
            text = _filled(text, given)
        kind = {"mimeType": self._mime_type} if self._mime_type else {}
        return {"contents": [{"uri": uri, **kind, self._member: text}]}


class FunctionContents:
    is_static = False

    def __init__(self, reference: str, mime_type: str) -> None:
        self._entry = _find(offered.resources, reference, "@resource")
        self._mime_type = mime_type

    async def read(self, uri: str, values: Mapping[str, str], context: ToolContext | None) -> dict[str, Json]:
        assert context is not None
        value = await self._entry.call(values, context)
        if value is None:
            return {"contents": []}
        parts = value if isinstance(value, list | tuple) and any(isinstance(part, Resource) for part in value) else None
        return {"contents": [self._content(part, uri) for part in ([value] if parts is None else parts)]}

    def _content(self, value: object, uri: str) -> dict[str, Json]:
        kind = self._mime_type
        if isinstance(value, Text):
            value = value.text
        if not isinstance(value, str | bytes | Resource):
            value, kind = dump(jsonable(value)), kind or "application/json"
        if not isinstance(value, Resource):
            value = Resource(uri, value, kind or None)
        inner: dict[str, Json] = value.wire()["resource"]
        return inner if "mimeType" in inner or not kind else {**inner, "mimeType": kind}


class StaticMessages:
    """Messages as they are written; `{argument}` in their texts stands for its value."""

    is_static = True

    def __init__(self, messages: list[dict[str, Json]], arguments: frozenset[str]) -> None:
        self._messages = [{**message, "content": as_block(message["content"])} for message in messages]
        self._arguments = arguments

    async def get(self, arguments: Mapping[str, str], context: ToolContext | None) -> dict[str, Json]:
        given = {name: arguments.get(name, "") for name in self._arguments}
        filled = [{**message, "content": _filled_in(message["content"], given)} for message in self._messages]
        return {"messages": filled}


class FunctionMessages:
    is_static = False

    def __init__(self, reference: str) -> None:
        self._entry = _find(offered.prompts, reference, "@prompt")

    async def get(self, arguments: Mapping[str, str], context: ToolContext | None) -> dict[str, Json]:
        assert context is not None
        value = await self._entry.call(arguments, context)
        messages = value if isinstance(value, list | tuple) else [value]
        return {"messages": [_message(message) for message in messages]}


class Enumerated:
    """A closed list, of which those are offered that begin as is typed, then those that contain it."""

    is_static = True

    def __init__(self, values: list[str]) -> None:
        self._values = [(value.casefold(), value) for value in values]

    async def complete(self, typed: str, others: Mapping[str, str], context: ToolContext | None) -> list[str]:
        typed = typed.casefold()
        first = [value for folded, value in self._values if folded.startswith(typed)]
        return first + [value for folded, value in self._values if typed in folded and not folded.startswith(typed)]


class FunctionCompletion:
    is_static = False

    def __init__(self, reference: str) -> None:
        self._entry = _find(offered.completions, reference, "@completion")

    async def complete(self, typed: str, others: Mapping[str, str], context: ToolContext | None) -> list[str]:
        assert context is not None
        known = {name: text for name, text in others.items() if name in (self._entry.parameters.names or ())}
        value = await self._entry.call({**known, "value": typed}, context)
        if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
            raise errors.ResultInvalid("The function behind the completion gave no list of texts. Tell the operator.")
        return list(value)


def completions_of(column: Mapping[str, Json]) -> dict[str, Completion]:
    """Make the completions that a row's column names, by variable."""
    return {
        name: FunctionCompletion(source["function"]) if isinstance(source, dict) else Enumerated(source)
        for name, source in column.items()
    }


def _message(value: object) -> dict[str, Json]:
    if isinstance(value, Message):
        value = {"role": value.role, "content": value.content}
    if isinstance(value, dict) and value.keys() == {"role", "content"}:
        role, block = value["role"], as_block(value["content"])
    else:
        role, block = "user", as_block(value)
    if block is None or role not in ("user", "assistant"):
        raise errors.ResultInvalid("The function behind the prompt gave what is no message. Tell the operator.")
    inner = block.get("resource")
    if block["type"] == "resource" and isinstance(inner, dict) and "mimeType" not in inner:
        kind = "text/plain" if "text" in inner else "application/octet-stream"
        block = {**block, "resource": {**inner, "mimeType": kind}}
    return {"role": role, "content": block}


def _filled(text: str, given: Mapping[str, str]) -> str:
    """Insert values into a text, once: the text of a value is not read again."""
    return _FIELD.sub(lambda field: given.get(field[1], field[0]), text)


def _filled_in(value: Json, given: Mapping[str, str]) -> Json:
    if isinstance(value, str):
        return _filled(value, given)
    if isinstance(value, dict):
        return {name: part if name in _VERBATIM else _filled_in(part, given) for name, part in value.items()}
    if isinstance(value, list):
        return [_filled_in(part, given) for part in value]
    return value


def _find(registry: Mapping[str, offered.Offered], reference: str, decorator: str) -> offered.Offered:
    try:
        return registry[reference]
    except KeyError:
        raise UnknownFunction(
            f"No function is registered as '{reference}'. "
            f"Decorate it with {decorator} in the tools.py of an installed app or pack."
        ) from None
