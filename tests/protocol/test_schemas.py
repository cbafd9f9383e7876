"""Foreign JSON schemas: what is taken, what is refused, and how a refused value is explained."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol import schemas
from sessions_app.protocol.dialect import MAX_EVALUATIONS, Document
from sessions_app.protocol.schemas import SchemaRejected, check, compile

from .strategies import VALUES

DRAFTS = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2020-12/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-04/schema#",
]


def nested(depth: int) -> dict:
    found: dict = {}
    for _ in range(depth):
        found = {"not": found}
    return found


def doubling(levels: int, wrap=lambda ref: ref) -> dict:
    """A few lines that ask for 2^levels evaluations of one value."""
    steps = {f"a{i}": {"allOf": [wrap({"$ref": f"#/$defs/a{i + 1}"})] * 2} for i in range(levels)}
    for step in steps.values():
        step["allOf"] = [dict(branch) for branch in step["allOf"]]
    return {"$ref": "#/$defs/a0", "$defs": steps | {f"a{levels}": {"type": "object"}}}


@pytest.mark.parametrize("draft", DRAFTS)
def test_each_served_dialect_compiles_and_explains(draft):
    schema = {"$schema": draft, "type": "object", "properties": {"n": {"type": "integer"}}}
    check(schema, input=True)
    validator = compile(schema)
    assert validator.is_valid({"n": 1})
    assert not validator.is_valid({"n": "x"})
    assert validator.explain({"n": "x"}).sentence == '`n` must be integer, not "x".'


ACCEPTED = {
    "empty": {},
    "no arguments": {"type": "object", "additionalProperties": False},
    "self": {"properties": {"child": {"$ref": "#"}}},
    "definition": {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
    "anchor": {"$ref": "#a", "$defs": {"x": {"$anchor": "a"}}},
    "dynamic": {"$dynamicRef": "#n", "$defs": {"x": {"$dynamicAnchor": "n"}}},
    "recursive": {
        "$schema": DRAFTS[2],
        "$recursiveAnchor": True,
        "properties": {"c": {"$recursiveRef": "#"}},
    },
    "embedded resource": {"$id": "https://x/y", "$ref": "z", "$defs": {"a": {"$id": "z", "type": "string"}}},
    "absolute to itself": {"$id": "https://x/y", "properties": {"c": {"$ref": "https://x/y#"}}},
    "urn": {"$id": "urn:x:y", "properties": {"c": {"$ref": "#/$defs/a"}}, "$defs": {"a": {}}},
    "old anchor": {"$schema": DRAFTS[3], "$ref": "#foo", "definitions": {"a": {"$id": "#foo"}}},
    "draft-04 id": {
        "$schema": DRAFTS[6],
        "id": "http://x/y",
        "properties": {"a": {"$ref": "#/definitions/b"}},
        "definitions": {"b": {}},
    },
    "pointer with escapes": {"$ref": "#/$defs/a~1b%20c~0", "$defs": {"a/b c~": {}}},
    "pointer into a list": {"$ref": "#/allOf/0/not", "allOf": [{"not": False}]},
    "pointer under unknown keyword": {
        "$ref": "#/shared/a",
        "shared": {"a": {"$ref": "#/shared/b"}, "b": True},
    },
    "a property called $ref": {"properties": {"$ref": {"type": "string"}}},
    "data that looks like a reference": {"const": {"$ref": "http://127.0.0.1:1/"}, "default": {"$ref": "x"}},
    "look-around": {"properties": {"a": {"type": "string", "pattern": "^(?!x)y"}}},
    "items list": {
        "$schema": DRAFTS[3],
        "items": [{"type": "string"}, True],
        "additionalItems": {"type": "null"},
    },
    "dependencies": {"$schema": DRAFTS[3], "dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
    "ten thousand allOf, less one": {"allOf": [{"type": "object"} for _ in range(9_998)]},
    "tree": {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}},
    "grammar": {
        "oneOf": [{"properties": {"k": {"const": i}, "of": {"$ref": "#"}}, "required": ["k"]} for i in range(9)]
    },
    "63 deep": nested(63),
}


@pytest.mark.parametrize("schema", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_self_contained_schema_is_taken(schema):
    before = repr(schema)
    check(schema)
    compile(schema).is_valid({"a": 1})
    compile(schema).explain({"a": 1})
    assert repr(schema) == before


REJECTED = {
    "not an object": [],
    "boolean": True,
    "unknown dialect": {"$schema": "http://example.org/x"},
    "dialect of another kind": {"$schema": 7},
    "nested unknown dialect": {"$defs": {"a": {"$schema": "http://example.org/x"}}},
    "draft-03": {"$schema": "http://json-schema.org/draft-03/schema#"},
    "against the meta-schema": {"type": "strin"},
    "keyword of the wrong type": {"properties": []},
    "list for a schema": {"not": []},
    "reference that is no string": {"$ref": 1},
    "remote": {"$ref": "http://127.0.0.1:1/x"},
    "remote, not used": {"$defs": {"a": {"$ref": "https://127.0.0.1:1/x"}}},
    "remote meta-schema": {"$ref": DRAFTS[0]},
    "file": {"$ref": "file:///etc/passwd"},
    "relative": {"$ref": "other.json"},
    "protocol-relative": {"$ref": "//127.0.0.1:1/x"},
    "broken URI": {"$id": "http://x/", "$ref": "http://[x"},
    "broken id": {"$id": "http://x/", "not": {"$id": "http://[x"}},
    "id moves the base": {"$id": "http://127.0.0.1:1/", "properties": {"a": {"$ref": "b.json"}}},
    "missing definition": {"$ref": "#/$defs/a"},
    "missing anchor": {"$ref": "#a"},
    "missing list entry": {"$ref": "#/allOf/7", "allOf": [{}]},
    "bad list index": {"$ref": "#/allOf/x", "allOf": [{}]},
    "into a scalar": {"$ref": "#/title/x", "title": "t"},
    "to a scalar": {"$ref": "#/title", "title": "t"},
    "dynamic remote": {"$dynamicRef": "http://127.0.0.1:1/x#a"},
    "under unknown keyword": {
        "$ref": "#/shared",
        "shared": {"properties": {"a": {"$ref": "http://127.0.0.1:1/"}}},
    },
    "bad pattern": {"pattern": "["},
    "bad pattern, not used": {"$defs": {"a": {"pattern": "["}}},
    "bad patternProperties": {"patternProperties": {"(": {}}},
    "exploding pattern": {"pattern": "(?:a{1000}){1000}"},
    "65 deep": nested(65),
    "deep data": {"const": [[[[nested(64)]]]]},
    "100000 deep": nested(100_000),
    "ten thousand subschemas": {"allOf": [{"type": "object"} for _ in range(10_000)]},
    "5 MB": {"description": "x" * 5_000_000},
    "not JSON": {"const": object()},
    "lone surrogate": {"description": "\ud800"},
    "doubling": doubling(40),
    "doubling below properties": doubling(40, lambda ref: {"properties": {"a": ref}}),
    "doubling below items": doubling(40, lambda ref: {"items": ref}),
    "doubling below prefixItems": doubling(40, lambda ref: {"prefixItems": [ref]}),
    "doubling under not": doubling(40, lambda ref: {"not": ref}),
    "doubling a cycle": doubling(40) | {"additionalProperties": {"$ref": "#"}},
}


@pytest.mark.parametrize("schema", REJECTED.values(), ids=REJECTED.keys())
def test_any_other_schema_is_refused_in_words(schema):
    with pytest.raises(SchemaRejected) as caught:
        check(schema)
    assert 0 < len(str(caught.value)) < 1000
    assert isinstance(caught.value, ValueError)


def test_the_refusal_names_the_place():
    with pytest.raises(SchemaRejected) as caught:
        check({"properties": {"a/b": {"$ref": "http://127.0.0.1:1/"}}})
    assert caught.value.path == "/properties/a~1b"
    with pytest.raises(SchemaRejected) as caught:
        check({"properties": {"a": {"type": "strin"}}})
    assert caught.value.path == "/properties/a/type"


@pytest.mark.parametrize("schema", [{}, {"type": "array"}, {"type": ["object"]}, {"allOf": [{"type": "object"}]}])
def test_an_input_schema_is_an_object_at_its_root(schema):
    check(schema)
    with pytest.raises(SchemaRejected, match="object"):
        check(schema, input=True)


def test_nothing_is_fetched():
    """CVE class: a schema from an upstream makes its reader call internal addresses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        for hostile in (
            {"$ref": url},
            {"$schema": url},
            {"$id": url, "$ref": "other"},
            {"$dynamicRef": url + "#a"},
            {"$defs": {"a": {"$schema": url}}},
            {"$schema": DRAFTS[2], "$recursiveRef": url},
            {"properties": {"a": {"items": {"$ref": url}}}},
            {"not": {"$ref": url}},
        ):
            with pytest.raises(SchemaRejected):
                check(hostile)
            with pytest.raises(SchemaRejected):
                compile(hostile).explain({"a": [1]})
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_the_cost_of_references_is_bounded_where_they_multiply():
    assert Document(doubling(4)).evaluations() < 100
    assert Document(doubling(40)).evaluations() == MAX_EVALUATIONS + 1
    assert Document(ACCEPTED["tree"]).evaluations() < 10


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "(x+x+)+y", "^(a+)+$(?<=b)", "^((a+)+)+(?=b)$"])
def test_a_catastrophic_pattern_ends(pattern):
    schema = {"properties": {"s": {"type": "string", "pattern": pattern}}, "patternProperties": {pattern: {}}}
    check(schema)
    validator = compile(schema)
    value = {"s": "a" * 50_000 + "!", "x" * 5_000: 1}
    assert not validator.is_valid(value)
    assert validator.explain(value).violations[0]["path"] == "/s"


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
        (
            {"properties": {"a": {"type": ["string", "null"]}}},
            {"a": {}},
            "`a` must be null or string, not an object.",
        ),
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
        (
            {"prefixItems": [{}], "items": False},
            [1, 2],
            "`1` is not expected.",
        ),
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
        (
            {"$schema": DRAFTS[3], "dependencies": {"a": {"required": ["b"]}, "c": ["d"]}},
            {"a": 1},
            "`b` is required.",
        ),
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
    schema = {
        "additionalProperties": False,
        "properties": {f"p{i}": {} for i in range(1000)},
        "required": ["r" * 500],
    }
    found = explain(schema, {f"{i}" + "x" * 100_000: "y" * 100_000 for i in range(20)})
    assert len(found.violations) == 8
    assert "and more" in found.sentence
    assert len(found.sentence) < 10_000
    assert len(explain({"enum": [f"v{i}" for i in range(1000)]}, "z" * 10_000).sentence) < 1000


HOSTILE_PAIRS = {
    "recursive oneOf": (ACCEPTED["grammar"], "of"),
    "recursive anyOf": (
        {"anyOf": [{"properties": {"of": {"$ref": "#"}}, "required": [n]} for n in "abc"]},
        "of",
    ),
    "recursive not": (
        {"not": {"not": {"allOf": [{"additionalProperties": {"$ref": "#"}}, {"not": {"type": "object"}}]}}},
        "of",
    ),
    "recursive if": (
        {
            "if": {"properties": {"of": {"$ref": "#"}}},
            "then": {"properties": {"of": {"$ref": "#"}}, "required": ["z"]},
        },
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
            {
                "patternProperties": {f"x{i}y": {} for i in range(500)},
                "additionalProperties": {"type": "integer"},
            },
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


@given(VALUES)
def test_any_value_is_a_schema_or_is_refused(value):
    for candidate in (value, {"properties": {"a": value}}, {"allOf": value}):
        try:
            check(candidate)
        except SchemaRejected:
            continue
        compile(candidate).explain(value)


def test_format_is_an_annotation():
    schema = {"properties": {"at": {"type": "string", "format": "date-time"}, "x": {"format": "made-up"}}}
    check(schema)
    assert compile(schema).is_valid({"at": "soon", "x": 1})


def test_compiling_an_unchecked_schema_that_is_broken_is_refused():
    for broken in ({"type": 1}, nested(400), {"$ref": "#/$defs/x"}):
        with pytest.raises(SchemaRejected):
            schemas.compile(broken)
