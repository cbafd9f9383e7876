"""Schemas of tools as published servers write them: what the hub makes of each, and that it then serves it."""

from __future__ import annotations

from typing import Any

import pytest

from sessions_app.protocol import schemas, spelling

OBJECT = {"type": "object"}
ONE = {"type": "string"}


def of(inner: Any) -> dict[str, Any]:
    return {**OBJECT, "properties": {"a": inner}}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (None, OBJECT),
        ([], OBJECT),
        ({}, OBJECT),
        (True, OBJECT),
        ({"properties": {"a": ONE}}, of(ONE)),
        ({"type": "Object", "properties": {"a": ONE}}, of(ONE)),
        ({"type": ["object", "null"], "properties": {"a": ONE}}, of(ONE)),
        ({**OBJECT, "properties": [], "required": []}, {**OBJECT, "properties": {}, "required": []}),
        ({**OBJECT, "properties": None, "required": None, "description": None}, OBJECT),
        ({**OBJECT, "required": {}}, {**OBJECT, "required": []}),
        ({**of(ONE), "required": {"0": "a"}}, {**of(ONE), "required": ["a"]}),
        ({**of(ONE), "required": "a"}, {**of(ONE), "required": ["a"]}),
        (of([]), of({})),
        (of({"type": "array", "items": []}), of({"type": "array", "items": {}})),
        (of({"type": "int"}), of({"type": "integer"})),
        (of({"type": "any"}), of({})),
        (of({"type": "string", "enum": {"0": "x", "2": "y"}}), of({"type": "string", "enum": ["x", "y"]})),
        (
            of({"type": "string", "nullable": True, "enum": ["x"]}),
            of({"type": ["string", "null"], "enum": ["x", None]}),
        ),
        (of({"type": "string", "minLength": "1"}), of({"type": "string", "minLength": 1})),
        ({**of(ONE), "additionalProperties": "false"}, {**of(ONE), "additionalProperties": False}),
        (
            of({"type": "integer", "minimum": 0, "exclusiveMinimum": True}),
            of({"type": "integer", "exclusiveMinimum": 0}),
        ),
        (of({"type": "integer", "maximum": 9, "exclusiveMaximum": False}), of({"type": "integer", "maximum": 9})),
        (of({"type": "integer", "divisibleBy": 2}), of({"type": "integer", "multipleOf": 2})),
        (of({**ONE, "required": True}), {**of(ONE), "required": ["a"]}),
        ({**of(ONE), "$schema": "https://example.com/own"}, of(ONE)),
        ({**of({"anyOf": []})}, of({})),
        (
            {
                **of({"type": "integer", "minimum": 0, "exclusiveMinimum": True}),
                "$schema": "http://json-schema.org/draft-04/schema#",
                "id": "http://a.example/s",
            },
            of({"type": "integer", "exclusiveMinimum": 0}),
        ),
    ],
)
def test_a_schema_is_read_as_it_is_meant_and_served(written: Any, read: Any) -> None:
    found, remarks = spelling.input_of(written)
    assert found == read
    assert remarks or written == {}
    schemas.check(found, input=True)


@pytest.mark.parametrize(
    "schema",
    [
        of({"type": "string", "default": None, "const": None}),
        {**of(ONE), "$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"x": {"items": [ONE]}}},
        {**of({"$ref": "#/$defs/x"}), "$defs": {"x": True}},
        of({"properties": {"required": {"type": "boolean"}, "type": ONE}}),
        of({"enum": [None, []], "const": {"properties": []}}),
    ],
)
def test_a_schema_that_is_well_stays_as_it_is(schema: Any) -> None:
    found, remarks = spelling.input_of(schema)
    assert found is schema
    assert remarks == []


@pytest.mark.parametrize("schema", ["text", 5, [1], {"type": "string"}, of({"type": "strange"})])
def test_what_has_no_other_meaning_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match=r"schema"):
        schemas.check(spelling.input_of(schema)[0], input=True)
