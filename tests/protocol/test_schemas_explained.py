"""How a value that a foreign JSON schema refuses is explained: in words, of all that is wrong, in bounded steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol.schemas import check, compile
from tests.protocol.schema_cases import ACCEPTED, DRAFTS


def explain(schema, value):
    check(schema)
    validator = compile(schema)
    assert not validator.is_valid(value)
    found = validator.explain(value)
    assert found.sentence.endswith(".")
    assert validator.explain(value) == found
    return found


OBJECT = {"type": "object"}


@pytest.mark.parametrize(
    ("schema", "value", "sentence"),
    [
        (OBJECT, [], "the value must be object, not an array."),
        (OBJECT | {"required": ["a"]}, {}, "`a` is required."),
        (
            OBJECT | {"properties": {"city": {}}, "additionalProperties": False},
            {"citty": 1},
            '`citty` is not expected; known are "city".',
        ),
        (OBJECT | {"additionalProperties": False}, {"x": 1}, "`x` is not expected."),
        ({"items": False}, [1, 2], "`0` is not expected; `1` is not expected."),
        ({"properties": {"a": {"type": ["string", "null"]}}}, {"a": {}}, "`a` must be null or string, not an object."),
        (
            {"properties": {"a": {"properties": {"b/c": {"type": "null"}}}}},
            {"a": {"b/c": 1}},
            "`/a/b~1c` must be null, not 1.",
        ),
        ({"properties": {"a": {"enum": ["x", "y"]}}}, {"a": "z"}, '`a` must be one of "x", "y", not "z".'),
        ({"properties": {"a": {"const": {"k": 1}}}}, {"a": "z"}, '`a` must be {"k":1}, not "z".'),
        ({"properties": {"a": {"minimum": 1}}}, {"a": 0}, "`a` must be at least 1, not 0."),
        (
            {"$schema": DRAFTS[6], "properties": {"a": {"minimum": 1, "exclusiveMinimum": True}}},
            {"a": 1},
            "`a` must be greater than 1, not 1.",
        ),
        ({"properties": {"a": {"pattern": "^x"}}}, {"a": "z"}, '`a` must match the pattern "^x", not "z".'),
        ({"properties": {"a": {"minItems": 2}}}, {"a": [1]}, "`a` must have at least 2 items."),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [1, 1]}, "`a` must not repeat an item."),
        ({"properties": {"a": False}}, {"a": 1}, "`a` is not expected."),
        ({"items": {"type": "string"}}, ["x", 1], "`1` must be string, not 1."),
        (
            {"prefixItems": [{}, {"type": "string"}], "items": {"type": "null"}},
            [1, 2, 3],
            "`1` must be string, not 2; `2` must be null, not 3.",
        ),
        ({"prefixItems": [{}], "items": False}, [1, 2], "`1` is not expected."),
        (
            {"$schema": DRAFTS[3], "items": [{"type": "string"}], "additionalItems": {"type": "null"}},
            [1, 2],
            "`0` must be string, not 1; `1` must be null, not 2.",
        ),
        ({"contains": {"type": "null"}}, [1], "the value lacks an item that the schema asks for (contains)."),
        ({"propertyNames": {"maxLength": 2}}, {"abc": 1}, "`abc` is not an allowed name."),
        (
            {"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": {"type": "null"}},
            {"x1": 1, "y": 2},
            "`x1` must be string, not 1; `y` must be null, not 2.",
        ),
        ({"allOf": [{"required": ["a"]}, {"required": ["b"]}]}, {}, "`a` is required; `b` is required."),
        ({"anyOf": [{"type": "string"}]}, 1, "the value must be string, not 1."),
        (
            {
                "anyOf": [
                    {"type": "string"},
                    {"type": "object", "required": ["a", "b"]},
                    {"type": "object", "required": ["a"]},
                ]
            },
            {},
            "the value fits none of 3 allowed forms; the nearest says; `a` is required.",
        ),
        ({"oneOf": [{}, {"type": "integer"}]}, 1, "the value fits 2 forms where exactly one is allowed."),
        ({"not": {"type": "integer"}}, 1, "the value must not be 1."),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"a": 1}, "`b` is required."),
        ({"if": {"required": ["a"]}, "else": {"required": ["b"]}}, {}, "`b` is required."),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, "`b` is required."),
        ({"$schema": DRAFTS[3], "dependencies": {"a": {"required": ["b"]}, "c": ["d"]}}, {"a": 1}, "`b` is required."),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "null"}}}, 1, "the value must be null, not 1."),
        (
            {"$schema": DRAFTS[3], "$ref": "#/definitions/x", "definitions": {"x": {"type": "null"}}},
            1,
            "the value must be null, not 1.",
        ),
        (OBJECT | {"unevaluatedProperties": False}, {"x": 1}, "the value does not match the schema."),
    ],
)
def test_the_sentence_says_what_to_change(schema, value, sentence):
    assert explain(schema, value).sentence == sentence


def test_a_tagged_form_is_followed_through_its_tags():
    value = {"k": 8, "of": {"k": 3, "of": {"k": 5, "of": {"k": 6, "of": {"of": {"k": 1}}}}}}
    assert "`/of/of/of/of/k` is required" in explain(ACCEPTED["grammar"], value).sentence


def test_the_same_violation_is_told_once():
    assert explain({"allOf": [{"type": "null"}, {"type": "null"}]}, 1).sentence == "the value must be null, not 1."


def test_violations_carry_path_message_and_expectation():
    found = explain({"properties": {"n": {"type": "integer"}}, "required": ["m"]}, {"n": "x"})
    assert found.violations == [
        {"path": "/m", "message": "is required"},
        {"path": "/n", "message": 'must be integer, not "x"', "expected": ["integer"]},
    ]


def test_an_explanation_is_short_whatever_the_value_is():
    schema = {"additionalProperties": False, "properties": {f"p{i}": {} for i in range(1000)}, "required": ["r" * 500]}
    found = explain(schema, {f"{i}" + "x" * 100_000: "y" * 100_000 for i in range(20)})
    assert len(found.violations) == 8
    assert "and more" in found.sentence
    assert len(found.sentence) < 10_000
    assert len(explain({"enum": [f"v{i}" for i in range(1000)]}, "z" * 10_000).sentence) < 1000


HOSTILE_PAIRS = {
    "recursive oneOf": (ACCEPTED["grammar"], "of"),
    "recursive anyOf": ({"anyOf": [{"properties": {"of": {"$ref": "#"}}, "required": [n]} for n in "abc"]}, "of"),
    "recursive not": (
        {"not": {"not": {"allOf": [{"additionalProperties": {"$ref": "#"}}, {"not": {"type": "object"}}]}}},
        "of",
    ),
    "recursive if": (
        {"if": {"properties": {"of": {"$ref": "#"}}}, "then": {"properties": {"of": {"$ref": "#"}}, "required": ["z"]}},
        "of",
    ),
    "refers to itself": ({"allOf": [{"$ref": "#"}, {"required": ["z"]}]}, "of"),
}


@pytest.mark.parametrize(("schema", "name"), HOSTILE_PAIRS.values(), ids=HOSTILE_PAIRS.keys())
def test_a_recursive_schema_is_explained_in_bounded_steps(schema, name):
    check(schema)
    validator = compile(schema)
    value: object = 1
    for _ in range(60):
        value = {name: value, "k": 1}
    validator.is_valid(value)
    assert validator.explain(value).violations


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"type": "integer"}}, ["x"] * 500_000),
        ({"items": {"type": "integer"}}, [1] * 500_000 + ["x"]),
        ({"additionalProperties": {"type": "integer"}}, {str(i): i for i in range(100_000)} | {"x": "x"}),
        (
            {"patternProperties": {f"x{i}y": {} for i in range(500)}, "additionalProperties": {"type": "integer"}},
            {f"a{i}": i for i in range(10_000)} | {"b": "x"},
        ),
        ({"contains": {"type": "null"}}, [1] * 100_000),
        ({"allOf": [{"required": [f"r{i}"]} for i in range(9_000)]}, {str(i): i for i in range(10_000)}),
        ({"anyOf": [{"required": [f"r{i}"]} for i in range(9_000)]}, {str(i): i for i in range(10_000)}),
    ],
)
def test_a_large_value_is_explained_in_bounded_steps(schema, value):
    found = explain(schema, value)
    assert 1 <= len(found.violations) <= 8


KEYWORDS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "array", "string", "integer", "null"]),
        "required": st.just(["a"]),
        "enum": st.just([1, "a", None]),
        "minimum": st.just(3),
        "maxLength": st.just(1),
        "minItems": st.just(1),
        "additionalProperties": st.booleans(),
    },
)


def _wider(inner):
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=2),
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "contains": inner,
            "propertyNames": inner,
            "$ref": st.just("#"),
        },
    )


SCHEMAS = st.recursive(KEYWORDS | st.booleans(), _wider, max_leaves=6).filter(lambda found: isinstance(found, dict))
SMALL = st.recursive(
    st.none() | st.integers(0, 5) | st.sampled_from(["", "a", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(SCHEMAS, SMALL)
def test_a_refused_value_is_always_explained(schema, value):
    check(schema)
    validator = compile(schema)
    if not validator.is_valid(value):
        found = validator.explain(value)
        assert found.sentence
        assert all(violation["message"] for violation in found.violations)


def test_an_object_of_very_many_members_is_explained_by_some_of_them():
    schema = {
        "type": "object",
        "properties": {"late": {"type": "string"}, "a": {"type": "number"}},
        "required": ["b"],
        "additionalProperties": False,
    }
    value = {f"k{number}": 1 for number in range(99_000)} | {"late": 1, "a": "x"}
    few = dict(list(value.items())[:150]) | {"late": 1, "a": "x"}
    assert compile(schema).explain(value) == compile(schema).explain(few)
    assert compile({**schema, "additionalProperties": True}).explain(value).sentence.count(";") == 2
    for most in (500, 50_000):
        narrow = compile({"maxProperties": most}).explain(dict.fromkeys(map(str, range(most + 1)), 1))
        assert f"at most {most} members" in narrow.sentence
