"""Foreign JSON schemas: what is taken and what is refused."""

import socket

import pytest
from hypothesis import given

from sessions_app.protocol import schemas
from sessions_app.protocol.dialect import MAX_EVALUATIONS, Document
from sessions_app.protocol.schemas import SchemaRejected, check, compile
from tests.protocol.schema_cases import ACCEPTED, DRAFTS, nested

from .strategies import VALUES


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
    "under unknown keyword": {"$ref": "#/shared", "shared": {"properties": {"a": {"$ref": "http://127.0.0.1:1/"}}}},
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
