"""Which checks and which bodies are too dear for the event loop."""

from __future__ import annotations

from typing import Any

import pytest

from sessions_app.protocol import json, schemas
from sessions_app.protocol.errors import ParseError


def items(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "array", "items": schema}}}


DEAR = {
    "fractions": (items({"multipleOf": 0.01}), [1e300] * 10_000),
    "branches": (items({"anyOf": [{"const": f"c{number}"} for number in range(100)]}), ["c99"] * 100_000),
    "objects to choose from": (items({"enum": [{"x": number} for number in range(1000)]}), [{"x": 999}] * 5_000),
    "unique items": ({"properties": {"a": {"uniqueItems": True}}}, list(range(200_000))),
    "look-ahead": ({"properties": {"a": {"pattern": "(?=.*x)(a+)+$"}}}, "a" * 60_000),
    "many look-aheads": (items({"pattern": "(?=a)(a+)+b$"}), ["a" * 30] * 2_000),
    "a pattern that counts": ({"properties": {"a": {"pattern": "[01]*1[01]{1000}$"}}}, "01" * 50_000),
    "patterns for names": (
        {"properties": {"a": {"patternProperties": {f"^(a|b)*{number}$": {} for number in range(100)}}}},
        {str(number): 1 for number in range(50_000)},
    ),
}


@pytest.mark.parametrize(("schema", "value"), DEAR.values(), ids=DEAR)
def test_the_dearest_values_of_each_keyword_are_told(schema: dict[str, Any], value: Any) -> None:
    schemas.check(schema)
    assert schemas.compile(schema).may_hold(json.canonical({"a": value}))
    assert not schemas.compile(schema).may_hold(json.canonical({"a": value[:1] if isinstance(value, list) else 1}))


def test_a_long_text_under_a_plain_schema_is_checked_where_it_is() -> None:
    validator = schemas.compile({"type": "object", "properties": {"text": {"type": "string", "maxLength": 10**7}}})
    assert not validator.may_hold(json.canonical({"text": "a" * 4_000_000}))


@pytest.mark.parametrize("raw", [b"[" + b"{}," * 100_000 + b"1]", b"[" + b"[]," * 100_000 + b"1]", b'{"a":1,' * 60_000])
def test_a_body_of_too_many_members_is_refused_before_it_is_decoded(raw: bytes) -> None:
    with pytest.raises(ParseError, match="more than 100000 members"):
        json.refuse_many(raw)


@pytest.mark.parametrize("text", ["{" * 200_000, '{"a":[1]}' * 50_000, '\\"[' * 100_000, "\\" * 7 + "[" * 200_000])
def test_brackets_within_a_text_do_not_count(text: str) -> None:
    json.refuse_many(json.dumps({"text": text}))
