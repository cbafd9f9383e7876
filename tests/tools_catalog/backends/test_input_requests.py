"""What tools may ask: which forms there are, who can be asked, and what counts as an answer."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from sessions_app.protocol import revisions
from tools_catalog.call.input_requests import Elicited, Form, InvalidInputResponse, Relayed, Root, Roots, Sample, Url

REVISIONS = {version: revisions.revision(version) for version in revisions.ALL}
OLD, LEGACY, MODERN = (REVISIONS[version] for version in ("2025-06-18", "2025-11-25", "2026-07-28"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def form(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Person(BaseModel):
    name: str = Field(description="As on the door.", min_length=1)
    age: int | None = None
    colour: Colour = Colour.RED
    size: Literal["s", "m"] = "m"
    likes: list[Colour] = Field(default_factory=list)


def test_a_model_is_a_form() -> None:
    fields = Form("Who?", Person).schema["properties"]
    assert fields["name"] == {"type": "string", "title": "Name", "description": "As on the door.", "minLength": 1}
    assert fields["age"]["type"] == "integer"
    assert "default" not in fields["age"]
    assert (fields["colour"]["enum"], fields["colour"]["default"]) == (["red", "blue"], "red")
    assert fields["size"]["enum"] == ["s", "m"]
    assert fields["likes"]["items"] == {"type": "string", "enum": ["red", "blue"]}
    answer = Form("Who?", Person).read({"action": "accept", "content": {"name": "Ada", "likes": ["red"], "x": 1}})
    assert answer == Elicited("accept", {"name": "Ada", "likes": ["red"]})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": "object"},
        {**form(), "additionalProperties": False},
        {**form(), "required": ["a"]},
        form(a={"type": "object"}),
        form(a={}),
        form(a=True),
        form(a={"type": ["string", "null"]}),
        form(a={"type": "string", "format": "ipv4"}),
        form(a={"type": "string", "pattern": "x"}),
        form(a={"type": "string", "enum": []}),
        form(a={"type": "string", "enum": [1]}),
        form(a={"type": "string", "oneOf": [{"const": "a"}]}),
        form(a={"type": "array", "items": {"type": "string"}}),
        form(a={"type": "integer", "minimum": "x"}),
    ],
)
def test_what_clients_cannot_show_is_no_form(schema: Any) -> None:
    with pytest.raises(ValueError):
        Form("?", schema)


@pytest.mark.parametrize("url", ["ftp://a.example", "https://", "https://a:b@c.example", "javascript:alert(1)", "/x"])
def test_only_addresses_of_the_web_are_opened(url: str) -> None:
    with pytest.raises(ValueError):
        Url("Open", url)


def test_what_a_client_declares_and_its_revision_decide_who_is_asked() -> None:
    ask = Form("?", form(a={"type": "string", "default": "x"}))
    assert ask.is_possible({"elicitation": {}}, OLD)
    assert ask.is_possible({"elicitation": {"form": {}, "url": {}}}, MODERN)
    for capabilities in ({}, {"elicitation": True}, {"elicitation": {"url": {}}}):
        assert not ask.is_possible(capabilities, LEGACY)
    assert not ask.is_possible({"elicitation": {}}, REVISIONS["2025-03-26"])
    lists = Form("?", form(a={"type": "array", "items": {"type": "string", "enum": ["x"]}}))
    assert [lists.is_possible({"elicitation": {}}, each) for each in (OLD, LEGACY)] == [False, True]
    address = Url("Open", "https://a.example/x")
    both = {"elicitation": {"form": {}, "url": {}}}
    assert [address.is_possible(both, each) for each in (OLD, LEGACY, MODERN)] == [False, True, True]
    assert not address.is_possible({"elicitation": {}}, LEGACY)
    assert "elicitationId" in address.params(LEGACY)
    assert "elicitationId" not in address.params(MODERN)
    tools = Sample("?", tools=[{"name": "t", "inputSchema": {"type": "object"}}])
    assert tools.required == {"sampling": {"tools": {}}}
    assert not tools.is_possible({"sampling": {}}, LEGACY)
    assert tools.is_possible({"sampling": {"tools": {}}}, LEGACY)
    assert not tools.is_possible({"sampling": {"tools": {}}}, OLD)
    assert Roots().is_possible({"roots": {"listChanged": True}}, OLD)
    assert not Roots().is_possible({}, OLD)


def test_the_parameters_are_those_of_the_revision() -> None:
    titled = form(a={"type": "string", "oneOf": [{"const": "x", "title": "Ex"}], "default": "x"})
    assert Form("?", titled).params(MODERN) == {"mode": "form", "message": "?", "requestedSchema": titled}
    assert Form("?", titled).params(OLD) == {
        "message": "?",
        "requestedSchema": form(a={"type": "string", "enum": ["x"], "enumNames": ["Ex"]}),
    }
    assert Sample("Hi", max_tokens=5, temperature=0.5).params(MODERN) == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}],
        "maxTokens": 5,
        "temperature": 0.5,
    }
    for wrong in (0, True, "5"):
        with pytest.raises(ValueError):
            Sample("Hi", max_tokens=wrong)  # type: ignore[arg-type]


def test_answers_are_read() -> None:
    assert Roots().read({"roots": [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}]}) == [
        Root("file:///a", "A"),
        Root("file:///b"),
    ]
    said = Sample("?").read(
        {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}
    )
    assert (said.text, said.model, said.stop_reason, len(said.content)) == ("a", "m", None, 2)
    assert not Form("?", form()).read({"action": "decline", "content": 5}).accepted
    assert Url("Open", "https://a.example").read({"action": "accept"}).accepted


@given(st.dictionaries(st.sampled_from(["action", "content", "roots", "role", "model", "uri"]), JSON))
def test_any_answer_is_taken_or_refused_with_a_reason(result: dict[str, Any]) -> None:
    asked = Form("?", {**form(a={"type": "integer"}), "required": ["a"]})
    for question in (asked, Url("Open", "https://a.example"), Sample("?"), Roots(), Relayed("roots/list", {})):
        try:
            answer = question.read(result)
        except InvalidInputResponse:
            continue
        if question is asked and answer.accepted:
            assert isinstance(answer.content["a"], int)
