"""Functions behind resources, prompts and completions: how they are described, called, and how they fail."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from sessions_app.protocol import errors
from tests.tools_catalog.backends.backend_peers import ScriptedContext
from tools_catalog.backends import offered, sources
from tools_catalog.backends.python import Context, ToolError
from tools_catalog.backends.signatures import ToolDefinitionError
from tools_catalog.backends.sources import Message
from tools_catalog.backends.threads import SyncContext
from tools_catalog.call.content import Image, Resource


class Point(BaseModel):
    x: int


@pytest.fixture(autouse=True)
def _registries():
    kept = [(registry, dict(registry)) for registry in (offered.resources, offered.prompts, offered.completions)]
    yield
    for registry, before in kept:
        registry.clear()
        registry.update(before)


def read(function, uri="x://1", values=None, mime_type=""):
    source = sources.FunctionContents(f"{function.__module__}:{function.__qualname__}", mime_type)
    return asyncio.run(source.read(uri, values or {}, ScriptedContext()))["contents"]


def get(function, **arguments):
    source = sources.FunctionMessages(f"{function.__module__}:{function.__qualname__}")
    return asyncio.run(source.get(arguments, ScriptedContext()))["messages"]


@pytest.mark.parametrize(
    ("value", "mime_type", "contents"),
    [
        ("text", "", [{"uri": "x://1", "text": "text"}]),
        (b"\x00\x01", "image/png", [{"uri": "x://1", "mimeType": "image/png", "blob": "AAE="}]),
        ({"a": 1}, "", [{"uri": "x://1", "mimeType": "application/json", "text": '{"a":1}'}]),
        (["a"], "", [{"uri": "x://1", "mimeType": "application/json", "text": '["a"]'}]),
        (Point(x=1), "", [{"uri": "x://1", "mimeType": "application/json", "text": '{"x":1}'}]),
        (
            [Resource("x://1/a", "a"), Resource("x://1/b", b"b", "image/png"), "c"],
            "text/plain",
            [
                {"uri": "x://1/a", "text": "a", "mimeType": "text/plain"},
                {"uri": "x://1/b", "mimeType": "image/png", "blob": "Yg=="},
                {"uri": "x://1", "mimeType": "text/plain", "text": "c"},
            ],
        ),
        (None, "", []),
    ],
)
def test_what_a_function_returns_becomes_contents(value, mime_type, contents):
    @offered.resource("x://1")
    async def give():
        return value

    assert read(give, mime_type=mime_type) == contents


def test_variables_arrive_as_the_types_say_and_other_texts_are_refused():
    @offered.resource("x://{number}/{share}/{flag}{?word}")
    def show(number: Annotated[int, Field(ge=1)], share: float, flag: bool, word: Literal["a", "b"] = "a") -> str:
        return json.dumps([number, share, flag, word])

    values = {"number": "3", "share": "0.5", "flag": "True"}
    assert read(show, values=values)[0]["text"] == '[3, 0.5, true, "a"]'
    assert offered.resources[f"{__name__}:{show.__qualname__}"].columns["completions"] == {"word": ["a", "b"]}
    for wrong, told in (
        ({"number": "x"}, "number"),
        ({"number": "0"}, "number"),
        ({"share": "nan"}, "share"),
        ({"word": "c"}, "word"),
        ({"flag": "yes"}, "flag"),
    ):
        with pytest.raises(errors.InvalidParams, match=told):
            read(show, values={**values, **wrong})


def test_what_a_function_returns_becomes_messages():
    @offered.prompt(title="Ask")
    def ask(city: Annotated[str, Field(description="Where.")], context: SyncContext, day: str = "today") -> list:
        """Ask for the weather."""
        return [f"{city}, {day}", Message("I look.", "assistant"), Image(b"i"), {"role": "user", "content": "?"}]

    assert [(one["role"], one["content"]["type"]) for one in get(ask, city="Oslo")] == [
        ("user", "text"),
        ("assistant", "text"),
        ("user", "image"),
        ("user", "text"),
    ]
    columns = offered.prompts[f"{__name__}:{ask.__qualname__}"].columns
    assert columns["description"] == "Ask for the weather."
    assert columns["arguments"] == [
        {"name": "city", "description": "Where.", "required": True},
        {"name": "day", "required": False},
    ]


def test_an_embedded_resource_of_a_function_has_a_type():
    @offered.prompt
    def embed() -> list:
        """Embed two."""
        return [Resource("x://a", "a"), Resource("x://b", b"b")]

    inner = [message["content"]["resource"] for message in get(embed)]
    assert [one["mimeType"] for one in inner] == ["text/plain", "application/octet-stream"]


@pytest.mark.parametrize("value", [1, None, [{"role": "system", "content": "x"}], [{"role": "user"}]])
def test_what_is_no_message_is_the_functions_fault(value):
    @offered.prompt
    async def odd():
        """Return something."""
        return value

    with pytest.raises(errors.ResultInvalid):
        get(odd)


@pytest.mark.parametrize(
    ("failure", "kind", "told"),
    [
        (ToolError("No such day. Try Monday."), errors.ExecutionError, "No such day. Try Monday."),
        (RuntimeError("inner words"), errors.ExecutionError, "RuntimeError"),
        (SystemExit(1), errors.ExecutionError, "SystemExit|RuntimeError"),
        (errors.EgressRefused(), errors.EgressRefused, "does not send"),
    ],
)
@pytest.mark.parametrize("sync", [True, False])
def test_failures_tell_what_they_may_and_no_more(failure, kind, told, sync):
    def fail():
        raise failure

    async def fail_later():
        raise failure

    function = offered.resource("x://1")(fail if sync else fail_later)
    with pytest.raises(kind, match=told) as caught:
        read(function)
    assert "inner words" not in caught.value.message


def test_a_completion_hears_what_is_typed_and_what_else_is_known():
    @offered.completion
    async def cities(context: Context, value: str, country: str = "") -> list[str]:
        return [f"{country}:{value}"]

    source = sources.FunctionCompletion(f"{__name__}:{cities.__qualname__}")
    known = {"country": "no", "else": "x"}
    assert asyncio.run(source.complete("Os", known, ScriptedContext())) == ["no:Os"]


def test_a_function_given_as_completion_registers_itself():
    def cities(value: str) -> list[str]:
        return [value]

    @offered.prompt(completions={"city": cities, "day": ["today"]})
    def ask(city: str, day: str) -> str:
        """Ask."""
        return city

    reference = f"{__name__}:{cities.__qualname__}"
    assert reference in offered.completions
    columns = offered.prompts[f"{__name__}:{ask.__qualname__}"].columns
    assert columns["completions"] == {"city": {"function": reference}, "day": ["today"]}


def test_a_completion_that_gives_no_texts_is_at_fault():
    @offered.completion
    def odd(value: str) -> list[int]:
        return [1]

    with pytest.raises(errors.ResultInvalid):
        asyncio.run(sources.FunctionCompletion(f"{__name__}:{odd.__qualname__}").complete("", {}, ScriptedContext()))


def test_functions_that_cannot_be_described_are_refused_at_import():
    def missing() -> str:
        return ""

    def surplus(id: str, other: str) -> str:
        return ""

    def nested(id: list[str]) -> str:
        return ""

    for function in (missing, surplus):
        with pytest.raises(ToolDefinitionError, match="variables of"):
            offered.resource("x://{id}")(function)
    with pytest.raises(ToolDefinitionError, match="come as text"):
        offered.resource("x://{id}")(nested)
    with pytest.raises(ToolDefinitionError, match=r"\{a\}"):
        offered.resource("x://{a}{b}")(missing)
    with pytest.raises(ToolDefinitionError, match="@prompt"):
        offered.prompt(lambda x: x)
    with pytest.raises(ToolDefinitionError, match="value"):
        offered.completion(missing)


def test_two_functions_of_one_name_are_refused():
    def define():
        @offered.prompt
        def same() -> str:
            """One."""
            return ""

        return same

    define()
    define()  # the same function again, as when a module is imported anew

    def other() -> str:
        """Another."""
        return ""

    other.__qualname__ = define().__qualname__
    with pytest.raises(ToolDefinitionError, match="two functions"):
        offered.prompt(other)
