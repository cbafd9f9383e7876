"""Content blocks for authors of Python tools, and the turning of whatever a function returned into a result.

Imports the seam and the JSON encoder of the protocol core.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from pydantic_core import PydanticSerializationError, to_jsonable_python

from sessions_app.protocol import errors, json
from tools_catalog.call.base import Absent, Json, ToolResult

REQUIRED_MEMBERS = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource": ("resource",),
    "resource_link": ("uri", "name"),
}
"""Members that make a dict with a `type` a content block of MCP, and not data that has a type of its own."""


class ContentBlock:
    """Something a model is shown. Return one, or a list of them and of strings."""

    __slots__ = ()

    def wire(self) -> dict[str, Json]:
        """Return the block as MCP writes it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Text(ContentBlock):
    """Text for the model."""

    text: str

    def wire(self) -> dict[str, Json]:
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class Image(ContentBlock):
    """A picture; `data` are its bytes."""

    data: bytes
    mime_type: str = "image/png"

    def wire(self) -> dict[str, Json]:
        return binary_block("image", self.data, self.mime_type)


@dataclass(frozen=True, slots=True)
class Audio(ContentBlock):
    """A sound; `data` are its bytes."""

    data: bytes
    mime_type: str = "audio/wav"

    def wire(self) -> dict[str, Json]:
        return binary_block("audio", self.data, self.mime_type)


@dataclass(frozen=True, slots=True)
class Resource(ContentBlock):
    """An embedded resource: its content travels in the answer."""

    uri: str
    content: str | bytes
    mime_type: str | None = None

    def wire(self) -> dict[str, Json]:
        inner: dict[str, Json] = {"uri": self.uri}
        if self.mime_type:
            inner["mimeType"] = self.mime_type
        if isinstance(self.content, str):
            inner["text"] = self.content
        else:
            inner["blob"] = base64.b64encode(self.content).decode("ascii")
        return {"type": "resource", "resource": inner}


@dataclass(frozen=True, slots=True)
class ResourceLink(ContentBlock):
    """A reference that the client may read later."""

    uri: str
    name: str
    description: str | None = None
    mime_type: str | None = None

    def wire(self) -> dict[str, Json]:
        block: dict[str, Json] = {"type": "resource_link", "uri": self.uri, "name": self.name}
        if self.description:
            block["description"] = self.description
        if self.mime_type:
            block["mimeType"] = self.mime_type
        return block


def text_block(text: str) -> dict[str, Json]:
    return {"type": "text", "text": text}


def binary_block(kind: str, data: bytes, mime_type: str) -> dict[str, Json]:
    return {"type": kind, "data": base64.b64encode(data).decode("ascii"), "mimeType": mime_type}


def result_from(value: object, *, has_schema: bool, is_wrapped: bool) -> ToolResult:
    """Convert a function's return value into a result.

    With an output schema the value is always data: the JSON goes into `structured` and, as text, into the content.
    Without one, text and content blocks are content alone; other values are data, and a value that is not an object
    is wrapped as `{"result": value}`. Raises `ResultInvalid` for values that JSON cannot express.
    """
    if isinstance(value, ToolResult):
        return value
    if not has_schema:
        content = _content(value)
        if content is not None:
            return ToolResult(content=content)
        is_wrapped = True
    plain = jsonable(value)
    text = plain if isinstance(plain, str) else dump(plain)
    structured: Json | Absent = plain
    if is_wrapped and (has_schema or not isinstance(plain, dict)):
        structured = {"result": plain}
    return ToolResult(content=[text_block(text)], structured=structured)


def dump(value: Json) -> str:
    """Return compact JSON text. Raises `ResultInvalid` for NaN, infinities and lone surrogates."""
    try:
        return json.dumps(value).decode()
    except (TypeError, ValueError, errors.ProtocolError) as exc:
        raise errors.ResultInvalid("The tool's result cannot be written as JSON.") from exc


def as_block(value: object) -> dict[str, Json] | None:
    """Return a text or a content block in MCP's form, or None for anything else."""
    return text_block(value) if isinstance(value, str) else _block(value)


def _content(value: object) -> list[dict[str, Json]] | None:
    if value is None:
        return []
    if isinstance(value, str):
        return [text_block(value)]
    block = _block(value)
    if block is not None:
        return [block]
    if isinstance(value, (list, tuple)) and any(_block(item) is not None for item in value):
        blocks = [text_block(item) if isinstance(item, str) else _block(item) for item in value]
        if all(item is not None for item in blocks):
            return [item for item in blocks if item is not None]
    return None


def _block(value: object) -> dict[str, Json] | None:
    if isinstance(value, ContentBlock):
        return value.wire()
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        members = REQUIRED_MEMBERS.get(value["type"])
        if members and all(member in value for member in members):
            return value
    return None


def jsonable(value: object) -> Json:
    """Turn models, dataclasses, dates and the like into JSON. Raises `ResultInvalid` for values that JSON cannot
    express.
    """
    if type(value) in (str, int, bool, float, type(None)):
        return value
    try:
        return to_jsonable_python(value, by_alias=True)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as exc:
        raise errors.ResultInvalid("The tool's result cannot be written as JSON.") from exc
