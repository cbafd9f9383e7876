"""Python tools: schemas from type hints, calls with what the types ask for, failures in words."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from backend_peers import ScriptedContext, reference_of, run_tool, schema_of
from pydantic import AfterValidator, BaseModel, Field

from sessions_app.protocol import errors
from tools_catalog.backends import python
from tools_catalog.backends.python import Context, PythonBackend, ToolError, definition, tool
from tools_catalog.backends.signatures import ToolDefinitionError
from tools_catalog.backends.threads import SyncContext


class Colour(Enum):
    RED = "red"


class City(BaseModel):
    name: str
    founded: date | None = None


@dataclass
class Point:
    x: int
    y: float = 0.5


def never_negative(value: int) -> int:
    if value < 0:
        raise ValueError("below zero")
    return value


@tool
async def described(
    city: str,
    days: Annotated[int, Field(description="How many.", ge=1, le=9)] = 3,
    unit: Literal["c", "f"] = "c",
    tags: list[str] | None = None,
) -> str:
    """Tell the weather.

    It is a guess.

    Args:
        city: Name of the city,
            in any language.
        unit (str): Degrees.

    Returns:
        A sentence.
    """
    return f"{city} {days} {unit} {tags}"


def test_schema_follows_hints_defaults_and_docstring() -> None:
    assert schema_of(described) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Name of the city, in any language."},
            "days": {"type": "integer", "description": "How many.", "minimum": 1, "maximum": 9, "default": 3},
            "unit": {"type": "string", "enum": ["c", "f"], "description": "Degrees.", "default": "c"},
            "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}], "default": None},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_description_is_the_docstring_without_its_arguments() -> None:
    words = definition(reference_of(described))["description"]
    assert words == "Tell the weather.\n\nIt is a guess.\n\nReturns:\n    A sentence."


def test_decorated_function_stays_a_function() -> None:
    assert asyncio.run(described("x")) == "x 3 c None"


def test_definition_carries_hints_and_options() -> None:
    @tool(name="other", title="Other", version="7", timeout_seconds=2, read_only=True, meta={"a": 1})
    async def f() -> None:
        """Do nothing."""

    given = definition(reference_of(f))
    assert given["inputSchema"] == {"type": "object", "additionalProperties": False}
    assert "outputSchema" not in given
    assert given["_meta"] == {"a": 1}
    assert (given["name"], given["version"], given["timeout_seconds"]) == ("other", "7", 2)
    assert given["configuration"] == {"function": reference_of(f)}
    assert given["annotations"] == {
        "title": "Other",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": True,
    }


def test_unregistered_reference_is_refused_and_not_imported() -> None:
    sys.modules.pop("antigravity", None)
    with pytest.raises(python.UnknownFunction):
        PythonBackend("antigravity:geohash")
    assert "antigravity" not in sys.modules


def no_hint(x):  # type: ignore[no-untyped-def]
    """Words."""


def unknown_type(x: Missing) -> None:  # type: ignore[name-defined] # noqa: F821
    """Words."""


def foreign_type(x: threading.Lock) -> None:
    """Words."""


def any_arguments(**rest: int) -> None:
    """Words."""


def field_default(x: int = Field(1)) -> None:
    """Words."""


def hidden_default(x: Annotated[int, Field(default=1)]) -> None:
    """Words."""


def positional(x: int, /) -> None:
    """Words."""


def two_contexts(a: Context, b: Context) -> None:
    """Words."""


def odd_default(x: int = object()) -> None:  # type: ignore[assignment]
    """Words."""


def odd_result() -> threading.Lock:  # type: ignore[empty-body]
    """Words."""


def no_words() -> None: ...


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (no_hint, "no type hint. Write for example 'x: str'"),
        (unknown_type, "Import the types at module level"),
        (foreign_type, "Use JSON types"),
        (any_arguments, "Name each parameter"),
        (field_default, "Annotated"),
        (hidden_default, "as the parameter's default"),
        (positional, "Remove the '/'"),
        (two_contexts, "Keep one"),
        (odd_default, "Use JSON types"),
        (odd_result, "Use JSON types"),
        (no_words, "Write a docstring"),
    ],
)
def test_function_that_cannot_be_described_tells_its_author_what_to_do(
    function: Callable[..., Any], advice: str
) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        tool(function)
    assert advice in str(caught.value)
    assert function.__name__ in str(caught.value)
    assert reference_of(function) not in python.registry


def test_two_functions_of_one_name_are_refused() -> None:
    def make_first() -> None:
        """First."""

    def make_second() -> None:
        """Second."""

    make_second.__qualname__ = make_first.__qualname__
    tool(make_first)
    tool(make_first)
    with pytest.raises(ToolDefinitionError, match="Rename one"):
        tool(make_second)


# Arguments -------------------------------------------------------------------------------------------


@tool
async def typed(city: City, on: date, colour: Colour, *, points: tuple[Point, ...] = ()) -> str:
    """Show what arrived."""
    return f"{city!r} {on!r} {colour!r} {points!r}"


def test_models_dates_and_enums_arrive_as_python_values() -> None:
    result = run_tool(typed, {"city": {"name": "Rom"}, "on": "2026-01-02", "colour": "red", "points": [{"x": 1}]})
    assert result.content[0]["text"] == (
        "City(name='Rom', founded=None) datetime.date(2026, 1, 2) <Colour.RED: 'red'> (Point(x=1, y=0.5),)"
    )


def test_value_that_the_type_refuses_is_explained() -> None:
    with pytest.raises(errors.ArgumentsInvalid) as caught:
        run_tool(typed, {"city": {}, "on": "soon", "colour": "red"})
    assert "city.name" in str(caught.value)
    assert "on" in str(caught.value)


def test_own_validator_runs() -> None:
    @tool
    async def f(n: Annotated[int, AfterValidator(never_negative)]) -> int:
        """Check."""
        return n

    assert run_tool(f, {"n": 1}).structured == {"result": 1}
    with pytest.raises(errors.ArgumentsInvalid, match="below zero"):
        run_tool(f, {"n": -1})


def test_whole_float_arrives_as_the_int_that_the_hint_asks_for() -> None:
    """JSON Schema counts 1.0 as an integer."""

    @tool
    async def f(n: int, m: list[int]) -> str:
        """Show."""
        return repr((n, m))

    @tool
    async def g(n: int) -> str:
        """Show."""
        return repr(n)

    assert run_tool(f, {"n": 2.0, "m": [1.0]}).content[0]["text"] == "(2, [1])"
    assert run_tool(g, {"n": 2.0}).content[0]["text"] == "2"


def test_alias_is_the_name_on_the_wire() -> None:
    @tool
    async def f(source: Annotated[str, Field(alias="from")], schema: str = "s") -> str:
        """Show."""
        return source + schema

    assert schema_of(f)["required"] == ["from"]
    assert run_tool(f, {"from": "a"}).content[0]["text"] == "as"


@pytest.mark.parametrize("arguments", [{}, {"a": 1, "extra": 1}, {"a": 1, "context": 1}])
def test_arguments_beyond_the_signature_are_refused_not_passed(arguments: dict[str, Any]) -> None:
    @tool
    async def f(a: int, context: Context) -> str:
        """Show."""
        return "ran"

    with pytest.raises(errors.ArgumentsInvalid):
        run_tool(f, arguments)


def test_own_input_schema_passes_values_as_they_are() -> None:
    schema = {"type": "object", "properties": {"a-b": {}}}

    @tool(input_schema=schema)
    async def f(**arguments: Any) -> dict[str, Any]:
        """Show."""
        return arguments

    assert schema_of(f) == schema
    assert run_tool(f, {"a-b": [1]}).structured == {"a-b": [1]}


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("failure", [KeyError("password=x"), StopIteration("x"), SystemExit(3)])
def test_unexpected_exception_tells_its_type_and_nothing_else(
    is_async: bool, failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails_async() -> None:
        """Fail."""
        raise failure

    def fails_sync() -> None:
        """Fail."""
        raise failure

    function = tool(fails_async if is_async else fails_sync)
    with pytest.raises(errors.ExecutionError) as caught:
        run_tool(function)
    assert caught.value.code == "execution_error"
    assert "password" not in f"{caught.value} {caught.value.details}"
    assert "0199-test" in caplog.text


@pytest.mark.parametrize("is_async", [True, False])
def test_tool_error_reaches_the_model_as_it_is(is_async: bool) -> None:
    async def says_async() -> None:
        """Fail."""
        raise ToolError("No such city. Try Paris.")

    def says_sync() -> None:
        """Fail."""
        raise ToolError("No such city. Try Paris.")

    with pytest.raises(errors.ExecutionError) as caught:
        run_tool(tool(says_async if is_async else says_sync))
    assert str(caught.value) == "No such city. Try Paris."


@pytest.mark.parametrize("is_async", [True, False])
def test_error_of_the_hub_passes_through(is_async: bool) -> None:
    async def asks_async(context: Context) -> None:
        """Ask."""
        context.require_capability("sampling")

    def asks_sync(context: SyncContext) -> None:
        """Ask."""
        context.require_capability("sampling")

    with pytest.raises(errors.MissingClientCapability):
        run_tool(tool(asks_async if is_async else asks_sync))


def test_cancellation_passes_through() -> None:
    started = asyncio.Event()

    @tool
    async def waits() -> None:
        """Wait."""
        started.set()
        await asyncio.Event().wait()

    async def go() -> None:
        backend = PythonBackend(reference_of(waits))
        task = asyncio.create_task(backend.call({}, ScriptedContext()))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await backend.aclose()

    asyncio.run(go())


def test_discover_registers_the_packs_and_refuses_unknown_ones() -> None:
    python.discover(["starter"])
    assert "tools_catalog.packs.starter.tools:echo" in python.registry
    for name in ("nowhere", "../starter", "os"):
        with pytest.raises(python.UnknownFunction):
            python.discover([name])
