"""TypeScript declarations of tools, as models read them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.programs.declarations import of_tool, type_of


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["integer", "null"]}, "number | null"),
        ({"enum": ["a", 1, None]}, '"a" | 1 | null'),
        ({"const": "a"}, '"a"'),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "(string | null)[]"),
        ({"type": "array"}, "unknown[]"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "Record<string, number>"),
        ({"anyOf": [{"type": "string"}, {"type": "string"}]}, "string"),
        ({"anyOf": [{"type": "string"}, {}]}, "unknown"),
        ({"allOf": [{"type": "object"}, {"properties": {"a": {}}}]}, "Record<string, unknown> & { a?: unknown }"),
        ({"properties": {"a-b": {"$ref": "#/$defs/B"}}, "$defs": {"B": {"type": "boolean"}}}, '{ "a-b"?: boolean }'),
        ({"$ref": "https://example.org/a.json"}, "unknown"),
        (True, "unknown"),
    ],
)
def test_schemas_are_written_as_types(schema: Any, written: str) -> None:
    assert type_of(schema, schema) == written


def test_a_type_that_holds_itself_ends() -> None:
    schema = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    assert type_of(schema, schema).count("next") < 10


def test_words_do_not_end_their_comment() -> None:
    text = of_tool({"name": "a.b", "description": "It is */ here\nand there", "inputSchema": {"type": "object"}})
    assert text == '  /** It is * / here and there */\n  "a.b"(args?: Record<string, unknown>): Promise<unknown>;\n'


_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["type", "anyOf", "allOf", "enum", "const", "items", "properties", "$ref", "required"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@given(_json)
def test_any_schema_has_a_type(schema: Any) -> None:
    assert type_of(schema, schema if isinstance(schema, dict) else {})
