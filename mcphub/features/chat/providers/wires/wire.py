"""The seam of a provider's wire: its address, its headers, its requests, its answers. Pure.

A turn makes each request in the form of chat completions. A wire of another form converts that, and reads its answers
into the same `ProviderCompletion`, so the engine knows one form alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mcphub.features.chat.providers.completions import FunctionCall, ProviderCompletion
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json

ITEMS = "x_mcp_items"
"""A vendor member of messages: parts of the answer that a wire takes back unchanged, before its calls."""
_NAMED = re.compile(r'"name": ?("(?:[^"\\]|\\.)*")')
"""In the text of a search result, be it cut."""


@dataclass(frozen=True, slots=True)
class DeferredTools:
    """Functions that a model may call once a search has found them."""

    functions: Mapping[str, dict[str, Json]] = field(default_factory=dict)
    """As in `tools[].function` of chat completions, by name."""
    of_tools: Mapping[str, str] = field(default_factory=dict)
    """Names of tools -> their functions."""

    def found(self, result: str) -> list[str]:
        """Return the functions of the tools that a result of the search names, each once, in its order."""
        tools = (json.loads(name.encode("utf-8", "replace")) for name in _NAMED.findall(result))
        names = dict.fromkeys(self.of_tools[tool] for tool in tools if tool in self.of_tools)
        return [name for name in names if name in self.functions]


class AnswerReader(Protocol):
    """Reads one answer. Raises Malformed for what is none."""

    def read_whole(self, value: Json) -> None: ...

    def read_event(self, value: Json) -> tuple[str, str]:
        """Return the additions of an event of a stream to text and to reasoning."""

    def failure(self, value: Json) -> Json:
        """Return the error that a body or an event of status 200 is; None where it is none."""


class Wire(Protocol):
    name: str
    path: str
    """Behind the provider's base URL."""

    def credentials(self, key: str, base_url: str) -> dict[str, str]:
        """Return the headers that identify the hub, and the wire's own. An empty key: none is sent."""

    def body(self, body: dict[str, Json], deferred: DeferredTools) -> dict[str, Json]:
        """Return a request for chat completions in the form of this wire."""

    def reader(self, answer: ProviderCompletion) -> AnswerReader: ...


class ChatCompletions:
    """The form that all providers speak."""

    name = "chat"
    path = "/chat/completions"

    def credentials(self, key: str, base_url: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, body: dict[str, Json], deferred: DeferredTools) -> dict[str, Json]:
        return body

    def reader(self, answer: ProviderCompletion) -> AnswerReader:
        return _ChunkReader(answer)


class _ChunkReader:
    def __init__(self, answer: ProviderCompletion) -> None:
        self._answer = answer

    def read_whole(self, value: Json) -> None:
        self._answer.read_whole(value)

    def read_event(self, value: Json) -> tuple[str, str]:
        return self._answer.read_chunk(value)

    def failure(self, value: Json) -> Json:
        return value if isinstance(value, dict) and value.get("error") and not value.get("choices") else None


CHAT = ChatCompletions()
NOTHING_DEFERRED = DeferredTools()


# For the other wires ------------------------------------------------------------------------------


def object_of(arguments: Json) -> dict[str, Json]:
    """Return arguments, as a model wrote them, as the object that they are; else as a member of one."""
    try:
        value = json.loads(str(arguments or "{}").encode("utf-8", "replace"))
    except ParseError:
        value = arguments
    return value if isinstance(value, dict) else {"arguments": value}


def image_address(part: Mapping[str, Json]) -> str:
    image = part.get("image_url")
    return str(image.get("url", "")) if isinstance(image, dict) else str(image or "")


def image_detail(part: Mapping[str, Json]) -> str:
    image = part.get("image_url")
    return str(image.get("detail") or "auto") if isinstance(image, dict) else "auto"


def add_call(answer: ProviderCompletion, id_: Json, name: Json, arguments: Json) -> None:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}).decode()
    answer.calls.append(FunctionCall(str(id_ or ""), str(name or ""), text))


def add_item(answer: ProviderCompletion, item: dict[str, Json]) -> None:
    answer.vendor.setdefault(ITEMS, []).append(item)
