"""Introspections of GraphQL as tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.importers import graphql, operations
from mcphub.features.importers.candidates import Found
from mcphub.features.importers.documents import DocumentRefused
from tests.features.importers.graphql_schema import SCHEMA, many, named, required
from tools_catalog.backends.http.backend import HttpConfiguration, Service


def look(schema: Any) -> Found:
    raw = json.dumps({"data": {"__schema": schema}}).encode()
    return operations.look(raw, operations.GRAPHQL, slug="books", prefix="books.")


def test_fields_become_tools_with_queries_of_their_own() -> None:
    found = look(SCHEMA)
    made = {each.key: each for each in found.candidates}
    assert [each.name for each in found.candidates] == ["books.book", "books.books", "books.count", "books.add"]
    book = made["query book"].definition
    assert book["configuration"]["body"] == {
        "query": "query($id: ID!) {{ book(id: $id) {{ id kind author {{ name books {{ id kind }} }} }} }}",
        "variables": {"id": "{id}"},
    }
    assert book["input_schema"]["required"] == ["id"]
    books = made["query books"].definition
    assert "required" not in books["input_schema"]
    assert books["input_schema"]["properties"]["kind"] == {"enum": ["NOVEL", "POEM"]}
    # $first has a default over there: as Int! it could not be left out.
    assert "query($kind: Kind, $first: Int)" in books["configuration"]["body"]["query"]
    assert made["query count"].definition["configuration"]["body"] == {"query": "query {{ count }}"}
    add = made["mutation add"].definition
    assert (add["read_only"], add["destructive"]) == (False, False)
    assert add["input_schema"]["properties"]["book"]["required"] == ["title"]
    for each in found.candidates:
        HttpConfiguration.parse(
            each.definition["configuration"], Service(slug="books", url="https://h/graphql", headers={})
        )


def field(name: str, kind: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "args": [], **more}


def thing(kind: str, name: str, *fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "fields": list(fields), **more}


KINDS = {"possibleTypes": [{"name": "Book"}, {"name": "Film"}]}
WORKS = {
    "queryType": {"name": "Query"},
    "types": [
        thing(
            "OBJECT",
            "Query",
            field("found", many(named("Hit", "UNION"))),
            field("node", named("Node", "INTERFACE")),
            field("old", named("Int"), isDeprecated=True),
        ),
        thing("OBJECT", "Book", field("id", named("ID")), field("title", named("String")), field("long", named("Int"))),
        thing(
            "OBJECT",
            "Film",
            field("id", named("ID")),
            field("title", named("String")),
            field("long", named("String")),
            field("reels", named("Int"), isDeprecated=True),
            field("cast", named("Int")),
        ),
        thing("INTERFACE", "Node", field("id", named("ID")), **KINDS),
        {"kind": "UNION", "name": "Hit", **KINDS},
        named("Int"),
        named("ID"),
        named("String"),
    ],
}


def test_of_unions_and_interfaces_the_fields_of_each_kind_are_asked_for() -> None:
    made = {each.key: each.definition for each in look(WORKS).candidates}
    # `long` is a number in one and a text in the other, which no query may ask for under one name.
    assert made["query found"]["configuration"]["body"]["query"].replace("{{", "{").replace("}}", "}") == (
        "query { found { __typename ... on Book { id title long } ... on Film { id title cast } } }"
    )
    assert made["query node"]["configuration"]["body"]["query"].replace("{{", "{").replace("}}", "}") == (
        "query { node { __typename id ... on Book { title long } ... on Film { title cast } } }"
    )
    assert made["query old"]["description"] == "Deprecated. GraphQL query old"


def test_a_union_of_large_kinds_leaves_room_for_each() -> None:
    wide = [field(f"f{n}", named("Int")) for n in range(100)]
    schema = {
        "queryType": {"name": "Query"},
        "types": [
            thing("OBJECT", "Query", field("found", named("Hit", "UNION"))),
            thing("OBJECT", "Book", *wide),
            thing("OBJECT", "Film", *wide),
            {"kind": "UNION", "name": "Hit", **KINDS},
        ],
    }
    [made] = look(schema).candidates
    query = made.definition["configuration"]["body"]["query"]
    assert query.count("f0 ") == 2
    assert len(query.split(" f")) - 1 <= 60 + 2


def wrapped(times: int, *, is_cut: bool = False) -> dict[str, Any]:
    """Return lists of lists of numbers, each of which is required; one that is cut names no innermost type."""
    kind: dict[str, Any] = {"kind": "LIST"} if is_cut else required(named("Float"))
    for _ in range(times):
        kind = required(many(kind))
    return kind


def places(shape: dict[str, Any], polygon: dict[str, Any]) -> Found:
    within = field("within", many(named("Place", "OBJECT")), args=[{"name": "polygon", "type": polygon}])
    return look(
        {
            "queryType": {"name": "Query"},
            "types": [
                thing("OBJECT", "Query", within, field("count", named("Int"))),
                thing("OBJECT", "Place", field("id", named("ID")), field("shape", shape)),
            ],
        }
    )


def test_shapes_of_geography_are_read_whole() -> None:
    assert graphql.INTROSPECTION.count("ofType") == 9
    made = {each.key: each.definition for each in places(wrapped(4), wrapped(3)).candidates}
    within = made["query within"]
    query = "query($polygon: [[[Float!]!]!]!) {{ within(polygon: $polygon) {{ id shape }} }}"
    assert within["configuration"]["body"]["query"] == query
    assert within["input_schema"]["required"] == ["polygon"]
    numbers = {"type": "array", "items": {"type": "number"}}
    polygon = within["input_schema"]["properties"]["polygon"]
    assert polygon == {"type": "array", "items": {"type": "array", "items": numbers}}


def test_of_what_the_introspection_cuts_only_that_part_is_left_out() -> None:
    found = places(wrapped(4, is_cut=True), wrapped(4, is_cut=True)["ofType"])
    query = found.candidates[0].definition["configuration"]["body"]["query"]
    assert query == "query {{ within {{ id }} }}"
    assert found.refused == []
    found = places(wrapped(1), wrapped(4, is_cut=True))
    assert [each.key for each in found.candidates] == ["query count"]
    assert [key for key, _ in found.refused] == ["query within"]


def test_names_that_would_write_a_query_of_their_own_are_not_read() -> None:
    evil = {"name": "a { b } } mutation { drop", "type": named("String"), "args": []}
    spoilt = {
        "queryType": {"name": "Query"},
        "types": [
            {
                "kind": "OBJECT",
                "name": "Query",
                "fields": [
                    evil,
                    {"name": "ok", "type": named("String"), "args": [{"name": "x) { y", "type": named("String")}]},
                    {"name": "fine", "type": named("String"), "args": []},
                ],
            }
        ],
    }
    found = look(spoilt)
    assert [each.key for each in found.candidates] == ["query fine"]
    assert [key for key, _ in found.refused] == ["query ok"]


@pytest.mark.parametrize("schema", [None, {}, {"types": []}, {"types": 5}, {"queryType": {"name": "Q"}, "types": []}])
def test_what_is_no_introspection_is_refused(schema: Any) -> None:
    with pytest.raises(DocumentRefused):
        look(schema)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.sampled_from(["Query", "Book", "OBJECT", "LIST", "x"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["kind", "name", "fields", "args", "type", "ofType", "types", "queryType"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_introspection_does_anything_but_be_read_or_refused(value: Any) -> None:
    query = {"kind": "OBJECT", "name": "Query", "fields": [{"name": "a", "type": value, "args": value}]}
    for schema in (value, {"queryType": {"name": "Query"}, "types": [query, value]}):
        try:
            look(schema)
        except DocumentRefused:
            continue
