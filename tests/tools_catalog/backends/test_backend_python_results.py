"""Results of Python tools: what a function returned becomes content and data."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from backend_peers import reference_of, run_tool
from pydantic import BaseModel
from typing_extensions import TypedDict

from sessions_app.protocol import errors
from tools_catalog.backends.python import definition, tool
from tools_catalog.call.base import NOTHING, ToolResult
from tools_catalog.call.content import Audio, Image, Resource, ResourceLink, Text


class City(BaseModel):
    name: str
    founded: date | None = None


@dataclass
class Point:
    x: int
    y: float = 0.5


class Row(TypedDict):
    key: str


class Node(BaseModel):
    children: list[Node] = []


async def number() -> int:
    """Give."""
    return 42


async def flag() -> bool:
    """Give."""
    return True


async def numbers() -> list[float]:
    """Give."""
    return [1.5, 2]


async def model() -> City:
    """Give."""
    return City(name="Rom", founded=date(2026, 1, 2))


async def data_class() -> Point:
    """Give."""
    return Point(1)


async def typed_dict() -> Row:
    """Give."""
    return {"key": "v"}


async def recursive() -> Node:
    """Give."""
    return Node(children=[Node()])


async def maybe() -> City | None:
    """Give."""
    return None


async def text() -> str:
    """Give."""
    return "words"


async def nothing() -> None:
    """Give."""


async def unannotated():  # type: ignore[no-untyped-def]
    """Give."""
    return {"type": "text", "is": "data"}


async def words():  # type: ignore[no-untyped-def]
    """Give."""
    return ["a", "b"]


async def blocks() -> list[Text | Image | ResourceLink]:
    """Give."""
    return [Text("t"), Image(b"\x01"), ResourceLink("u:", "n", "d", "text/plain")]


async def block() -> Audio:
    """Give."""
    return Audio(b"\x02")


async def raw_block() -> Any:
    """Give."""
    return {"type": "image", "data": "AA==", "mimeType": "image/png"}


async def blob() -> Resource:
    """Give."""
    return Resource("u:", b"\x03", "x/y")


async def result() -> ToolResult:
    """Give."""
    return ToolResult(content=[], structured=None, meta={"a": 1})


def block_text(value: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": value}]


RESULTS: list[tuple[Callable[..., Any], list[dict[str, Any]], Any]] = [
    (number, block_text("42"), {"result": 42}),
    (flag, block_text("true"), {"result": True}),
    (numbers, block_text("[1.5,2]"), {"result": [1.5, 2]}),
    (model, block_text('{"name":"Rom","founded":"2026-01-02"}'), {"name": "Rom", "founded": "2026-01-02"}),
    (data_class, block_text('{"x":1,"y":0.5}'), {"x": 1, "y": 0.5}),
    (typed_dict, block_text('{"key":"v"}'), {"key": "v"}),
    (recursive, block_text('{"children":[{"children":[]}]}'), {"children": [{"children": []}]}),
    (maybe, block_text("null"), {"result": None}),
    (text, block_text("words"), NOTHING),
    (nothing, [], NOTHING),
    (unannotated, block_text('{"type":"text","is":"data"}'), {"type": "text", "is": "data"}),
    (words, block_text('["a","b"]'), {"result": ["a", "b"]}),
    (block, [{"type": "audio", "data": "Ag==", "mimeType": "audio/wav"}], NOTHING),
    (raw_block, [{"type": "image", "data": "AA==", "mimeType": "image/png"}], NOTHING),
    (blob, [{"type": "resource", "resource": {"uri": "u:", "mimeType": "x/y", "blob": "Aw=="}}], NOTHING),
    (
        blocks,
        [
            {"type": "text", "text": "t"},
            {"type": "image", "data": "AQ==", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "u:", "name": "n", "description": "d", "mimeType": "text/plain"},
        ],
        NOTHING,
    ),
]


@pytest.mark.parametrize(("function", "content", "structured"), RESULTS)
def test_result_is_content_and_data(function: Callable[..., Any], content: Any, structured: Any) -> None:
    given = run_tool(tool(function))
    assert given.content == content
    assert given.structured == structured


@pytest.mark.parametrize("function", [entry[0] for entry in RESULTS])
def test_structured_result_fits_the_output_schema(function: Callable[..., Any]) -> None:
    """MCP 2026-07-28, Tools §Output Schema: with a schema the structured result MUST conform."""
    import jsonschema

    schema = definition(reference_of(tool(function))).get("outputSchema")
    if schema is None:
        return
    assert schema["type"] == "object"
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(run_tool(function).structured, schema)


def test_result_that_is_one_already_passes_through() -> None:
    assert run_tool(tool(result)).wire() == {"content": [], "structuredContent": None, "_meta": {"a": 1}}


def test_wire_shape_leaves_out_what_is_not_said() -> None:
    assert ToolResult(content=[]).wire() == {"content": []}
    assert ToolResult(content=[], is_error=True).wire() == {"content": [], "isError": True}


@pytest.mark.parametrize("value", [float("nan"), {"a": float("inf")}, object(), {1: threading.Lock()}])
def test_result_that_json_cannot_say_is_invalid(value: Any) -> None:
    @tool(name="odd")
    async def f() -> Any:
        """Give."""
        return value

    with pytest.raises(errors.ResultInvalid):
        run_tool(f)
