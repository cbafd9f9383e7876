"""Tools in the words of a provider: names, schemas, results, and answers that are held to a schema. Pure."""

from __future__ import annotations

import gc
import json
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.chat.dialects import Dialect, dialect_of
from mcphub.features.chat.errors import ChatError
from mcphub.features.chat.tools import constrained
from mcphub.features.chat.tools.functions import PLAIN, Functions, function_name, runs_alone
from mcphub.features.chat.tools.results import cut, text_of
from mcphub.features.chat.tools.schema import is_strict, parameters_of
from tests.features.chat.tools import tool


@given(st.sets(st.text(min_size=1, max_size=128), min_size=1, max_size=20))
def test_every_name_has_a_function_that_leads_back(names: set[str]) -> None:
    functions = Functions([tool(name) for name in names])
    assert {each.name for each in functions.tools.values()} == names
    for function, found in functions.tools.items():
        assert PLAIN.fullmatch(function)
        assert functions.named(found.name) == function
    assert functions.renamed == {name: t.name for name, t in functions.tools.items() if not PLAIN.fullmatch(t.name)}


def test_plain_names_stay_and_others_are_the_same_in_every_turn() -> None:
    assert function_name("get_weather-2") == "get_weather-2"
    assert function_name("git.clone") == function_name("git.clone")
    assert function_name("git.clone").startswith("git_clone_")
    assert function_name("git.clone") != function_name("git/clone")
    assert len(function_name("x" * 128)) == 64


def test_a_client_may_not_take_the_name_of_a_tool() -> None:
    with pytest.raises(ChatError, match="'a'"):
        Functions([tool("a")], [{"type": "function", "function": {"name": "a"}}])


ANY = dialect_of("compatible", "https://models.example/v1", "m")
OPENAI = dialect_of("openai", "https://api.openai.com/v1", "m")
CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize("dialect", [ANY, OPENAI], ids=lambda dialect: dialect.name)
def test_a_tool_is_rewritten_once_for_all_requests(dialect: Dialect) -> None:
    shared = tool("git.clone", CLOSED)
    first, second = (Functions([shared]).wire(dialect)[0] for _ in range(2))
    assert first is second
    assert first["function"].get("strict") is (True if dialect is OPENAI else None)


def test_a_changed_tool_is_rewritten_and_the_one_before_is_forgotten() -> None:
    before, after = tool("a", {"properties": {"x": {}}}), tool("a", {"properties": {"y": {}}})
    made = [Functions([each]).wire(ANY)[0]["function"]["parameters"]["properties"] for each in (before, after)]
    assert made == [{"x": {}}, {"y": {}}]
    forgotten = weakref.ref(before)
    del before
    gc.collect()
    assert forgotten() is None


_leaf = st.sampled_from([{"type": "string"}, {"type": "integer"}, True, False, {"$ref": "#/$defs/a"}, {"$ref": "#"}])
_schema = st.recursive(
    _leaf,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(st.text(max_size=5), inner)}),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner, "x-mark": st.just(1)}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3), "$comment": st.just("c")}),
        st.fixed_dictionaries({"$ref": st.sampled_from(["#/$defs/a", "#/$defs/none", "https://x.example/s"])}),
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=5), _schema, max_size=4), _schema)
def test_any_schema_becomes_one_object_without_references(properties: dict[str, Any], shared: Any) -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": properties}
    made = parameters_of({**schema, "$defs": {"a": shared}}, ANY)
    assert made["type"] == "object"
    assert set(made["properties"]) == set(properties)
    waiting = [made]
    count = 0
    while waiting:
        node = waiting.pop()
        count += 1
        for name, value in node.items():
            if name == "properties":
                waiting += [each for each in value.values() if isinstance(each, dict)]
                continue
            assert name not in ("$ref", "$schema", "$defs", "$comment", "x-mark")
            waiting += [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)]
    assert count < 10_000


def test_references_are_put_in_place_and_siblings_stay() -> None:
    made = parameters_of(
        {
            "properties": {"a": {"$ref": "#/$defs/city", "description": "Where."}, "$schema": {"type": "string"}},
            "$defs": {"city": {"type": "string", "minLength": 1, "description": "A city."}},
        },
        ANY,
    )
    assert made["properties"] == {
        "a": {"type": "string", "minLength": 1, "description": "Where."},
        "$schema": {"type": "string"},
    }


def test_a_schema_that_holds_itself_ends() -> None:
    made = parameters_of({"properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}, ANY)
    assert len(json.dumps(made)) < 2000


def test_strict_is_said_of_closed_objects_only() -> None:
    closed = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert is_strict(parameters_of(closed, OPENAI))
    for change in (
        {"required": []},
        {"additionalProperties": True},
        {"properties": {"a": {"type": "string", "pattern": "x"}}},
        {"properties": {"a": {}}},
        {"properties": {"a": {"type": "array"}}},
    ):
        assert not is_strict(parameters_of({**closed, **change}, OPENAI))


@pytest.mark.parametrize(
    ("fields", "alone"),
    [
        ({}, True),
        ({"read_only": True}, False),
        ({"annotations": {"readOnlyHint": True}}, False),
        ({"annotations": {"destructiveHint": False}}, True),
        ({"annotations": {"destructiveHint": False, "idempotentHint": True}}, False),
    ],
)
def test_what_may_change_something_runs_alone(fields: dict[str, Any], alone: bool) -> None:
    assert runs_alone(tool("a", **fields)) is alone


@given(st.text(), st.integers(min_value=100, max_value=400))
def test_a_result_keeps_to_its_bytes_and_says_so(text: str, most: int) -> None:
    said = cut(text, most)
    assert len(said.encode()) <= max(most, len(text.encode("utf-8", "replace")))
    assert len(said.encode()) <= most
    if len(text.encode("utf-8", "replace")) > most:
        assert "[Cut:" in said


def test_each_kind_of_content_is_told() -> None:
    wire = {
        "content": [
            {"type": "text", "text": "hello"},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "https://a.example/b", "name": "b"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
        ],
        "structuredContent": {"a": 1},
    }
    assert text_of(wire, "id-1", 10_000).split("\n") == [
        "hello",
        "[Image, image/png, 6 bytes: not shown here. It stands in the audit, invocation id-1.]",
        "[Link: b https://a.example/b]",
        "[file:///a]",
        "inside",
        '{"a":1}',
    ]
    said_twice = {"content": [{"type": "text", "text": '{ "a": 1 }'}], "structuredContent": {"a": 1}}
    assert text_of(said_twice, "", 1000) == '{ "a": 1 }'
    assert text_of({"content": [{"type": "text", "text": "no"}], "isError": True}, "", 1000) == "Error: no"


def test_a_constrained_model_reads_calls_and_results_in_plain_messages() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "a", "arguments": '{"x":1}'}}
    plain = constrained.as_plain_messages(
        [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "tool_calls": [call, {**call, "id": "2"}]},
            {"role": "tool", "tool_call_id": "1", "content": "one"},
            {"role": "tool", "tool_call_id": "2", "content": "two"},
        ]
    )
    assert [each["role"] for each in plain] == ["user", "assistant", "user"]
    assert plain[1]["content"].count('{"name": "a", "arguments": {"x":1}}') == 2
    assert plain[2]["content"] == "Result of a:\none\n\nResult of a:\ntwo"
    assert constrained.read_answer('{"name": "a", "arguments": {"x": 1}}') == ("a", '{"x":1}')
    assert constrained.read_answer('{"answer": "so"}') == "so"
    assert constrained.read_answer("just words") == "just words"
