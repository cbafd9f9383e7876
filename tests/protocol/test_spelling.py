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
        # By hand, and from other languages.
        ('{"type": "object", "properties": {"a": {"type": "string"}}}', of(ONE)),
        ({"jsonSchema": of(ONE)}, of(ONE)),
        ({**OBJECT, "properties": {"a": ONE, "required": ["a"]}}, {**of(ONE), "required": ["a"]}),
        ({**OBJECT, "properties": [{"name": "a", "type": "string", "required": True}]}, {**of(ONE), "required": ["a"]}),
        (of("String"), of(ONE)),
        (of({"type": "array", "items": "int"}), of({"type": "array", "items": {"type": "integer"}})),
        (of({"type": "string[]"}), of({"type": "array", "items": ONE})),
        (of({"type": "string|null"}), of({"type": ["string", "null"]})),
        (of({"type": ["String", None, "undefined"]}), of({"type": ["string", "null"]})),
        (of({"type": "date-time"}), of(ONE)),
        (of({**ONE, "enum": {"A": "x", "B": "y"}}), of({**ONE, "enum": ["x", "y"]})),
        (of({"anyOf": ONE}), of({"anyOf": [ONE]})),
        ({**of(ONE), "required": {"a": True, "b": False}}, {**of(ONE), "required": ["a"]}),
        ({**of(ONE), "required": [None, "a"]}, {**of(ONE), "required": ["a"]}),
        ({**of(ONE), "required": "a, a"}, {**of(ONE), "required": ["a"]}),
        (
            {**of({"type": "array", "items": {**ONE, "required": True}}), "required": False},
            of({"type": "array", "items": ONE}),
        ),
        (of({**ONE, "maxLength": -1}), of(ONE)),
        (of({"type": "number", "multipleOf": 0, "maximum": "Infinity", "minimum": False}), of({"type": "number"})),
        (of({**ONE, "description": ["one", "two"], "title": 3}), of({**ONE, "description": "one two", "title": "3"})),
        (of({**ONE, "examples": "x"}), of({**ONE, "examples": ["x"]})),
        (of({**ONE, "examples": {"first": {"value": "x"}}}), of({**ONE, "examples": ["x"]})),
        (of({**ONE, "deprecated": "since 2", "readOnly": 1}), of(ONE)),
        (of({**ONE, "pattern": r"^a\Z"}), of({**ONE, "pattern": "^a$"})),
        (of({**ONE, "pattern": "/^a$/u"}), of({**ONE, "pattern": "^a$"})),
        (of({**ONE, "pattern": "/^a$/i"}), of(ONE)),
        (of({**ONE, "pattern": "(("}), of(ONE)),
        (
            {**of({"$ref": "#/$defs/x", "nullable": True, "title": "t"}), "$defs": {"x": ONE}},
            {**of({"title": "t", "anyOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]}), "$defs": {"x": ONE}},
        ),
        ({**of(ONE), "$schema": "draft-07"}, {**of(ONE), "$schema": "http://json-schema.org/draft-07/schema"}),
        (
            {**of(ONE), "$schema": "http://json-schema.org/draft/2020-12/schema#"},
            {**of(ONE), "$schema": "https://json-schema.org/draft/2020-12/schema"},
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
        of({"properties": {"required": ONE, "items": ONE, "name": ONE}}),
        of({**ONE, "pattern": r"^[\w.-]+$", "examples": [{"value": 1}], "minLength": 0, "enum": ["string"]}),
        of({"type": "number", "minimum": -1, "exclusiveMaximum": -0.5, "multipleOf": 0.1}),
    ],
)
def test_a_schema_that_is_well_stays_as_it_is(schema: Any) -> None:
    found, remarks = spelling.input_of(schema)
    assert found is schema
    assert remarks == []


@pytest.mark.parametrize(
    "schema",
    [
        "text",
        "{",
        5,
        [1],
        {"type": "string"},
        of({"type": "strange"}),
        of({"type": "string|strange"}),
        of({**ONE, "enum": "x,y"}),
        {**of(ONE), "additionalProperties": "none"},
        {**OBJECT, "properties": {"type": "object", "properties": {}}},
    ],
)
def test_what_has_no_other_meaning_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match=r"schema"):
        schemas.check(spelling.input_of(schema)[0], input=True)
