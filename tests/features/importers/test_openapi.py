"""OpenAPI documents: what becomes of operations, and what hostile documents are refused for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.importers import operations
from mcphub.features.importers.candidates import Candidate, Found
from mcphub.features.importers.documents import DocumentRefused, read
from tools_catalog.backends.http.backend import HttpConfiguration, Service

TICKETS: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Tickets", "version": "1"},
    "servers": [{"url": "https://{where}.tickets.example/v1/", "variables": {"where": {"default": "eu"}}}],
    "components": {
        "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        "parameters": {"Number": {"name": "number", "in": "path", "required": True, "schema": {"type": "integer"}}},
        "schemas": {
            "Ticket": {
                "type": "object",
                "required": ["title", "id"],
                "properties": {
                    "id": {"type": "integer", "readOnly": True},
                    "title": {"type": "string", "maxLength": 200, "description": "In one line.", "example": "x"},
                    "state": {"type": "string", "nullable": True, "enum": ["open", "closed"]},
                    "parent": {"$ref": "#/components/schemas/Ticket"},
                    "weight": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
                },
            }
        },
    },
    "security": [{"key": []}],
    "paths": {
        "/tickets": {
            "get": {
                "operationId": "listTickets",
                "summary": "List tickets",
                "description": "All of them.",
                "parameters": [
                    {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {"name": "ids", "in": "query", "explode": False, "schema": {"type": "array", "items": {}}},
                    {
                        "name": "filter",
                        "in": "query",
                        "style": "deepObject",
                        "schema": {"type": "object", "properties": {"state": {"type": "string"}}},
                    },
                    {"name": "Accept", "in": "header", "schema": {"type": "string"}},
                    {"name": "X-Team", "in": "header", "schema": {"type": "string"}},
                    {"name": "crumb", "in": "cookie", "schema": {"type": "string"}},
                ],
            },
            "post": {
                "operationId": "openTicket",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Ticket"}}},
                },
            },
        },
        "/tickets/{number}": {
            "parameters": [{"$ref": "#/components/parameters/Number"}],
            "delete": {"deprecated": True},
            "put": {"requestBody": {"content": {"application/json": {"schema": {"type": "array", "items": {}}}}}},
            "patch": {"requestBody": {"required": True, "content": {"multipart/form-data": {}}}},
        },
    },
}


def look(document: Any, **more: Any) -> Found:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return operations.look(raw, operations.OPENAPI, slug="tickets", prefix="t.", **more)


def by_key(found: Found) -> dict[str, Candidate]:
    return {each.key: each for each in found.candidates}


def test_operations_become_tools() -> None:
    found = look(TICKETS)
    assert (found.title, found.url) == ("Tickets", "https://eu.tickets.example/v1")
    assert found.headers == {"Authorization": "Bearer {secret:tickets}"}
    made = by_key(found)
    listing = made["GET /tickets"]
    assert (listing.name, listing.definition["title"], listing.definition["description"]) == (
        "t.listTickets",
        "List tickets",
        "All of them.",
    )
    assert listing.definition["configuration"] == {
        "service": "tickets",
        "method": "GET",
        "url": "/tickets",
        "query": {"tag": "{tag}", "ids": "{ids|form}", "filter[state]": "{filter_state}"},
        "headers": {"X-Team": "{X-Team}"},
        "cookies": {"crumb": "{crumb}"},
    }
    properties = listing.definition["input_schema"]["properties"]
    assert properties["ids"] == {"type": "array", "items": {}}
    assert not listing.definition["destructive"]
    assert listing.definition["idempotent"]


def test_bodies_are_spread_into_arguments_and_cut_where_they_repeat_themselves() -> None:
    opening = by_key(look(TICKETS))["POST /tickets"].definition
    schema = opening["input_schema"]
    assert schema["required"] == ["title"]
    assert "id" not in schema["properties"]
    assert schema["properties"]["title"] == {"type": "string", "maxLength": 200, "description": "In one line."}
    assert schema["properties"]["state"] == {"type": ["string", "null"], "enum": ["open", "closed", None]}
    assert schema["properties"]["weight"] == {"type": "number", "exclusiveMinimum": 0}
    assert schema["properties"]["parent"] == {"description": "The same again."}
    assert opening["configuration"]["body"]["title"] == "{title}"


def test_other_bodies_are_one_argument_and_files_are_left_out() -> None:
    found = look(TICKETS)
    made = by_key(found)
    assert made["PUT /tickets/{number}"].definition["configuration"] == {
        "service": "tickets",
        "method": "PUT",
        "url": "/tickets/{number}",
        "body": "{body}",
    }
    gone = made["DELETE /tickets/{number}"]
    assert gone.name == "t.delete_tickets_number"
    assert gone.definition["destructive"]
    assert gone.definition["description"].startswith("Deprecated.")
    assert [key for key, _ in found.refused] == ["PATCH /tickets/{number}"]


def test_yaml_is_read_as_json_is() -> None:
    text = b"openapi: 3.1.0\nservers: [{url: 'https://h/'}]\npaths:\n  /a:\n    get: {responses: {200: {}}}\n"
    assert [each.key for each in look(text).candidates] == ["GET /a"]


def test_an_address_beside_the_document_is_completed() -> None:
    document = {"openapi": "3.1.0", "servers": [{"url": "/api"}], "paths": {"/a": {"get": {}}}}
    assert look(document, source="https://h.example/docs/openapi.json").url == "https://h.example/api"
    assert look(document).url == ""


@pytest.mark.parametrize(
    ("scheme", "headers", "query"),
    [
        ({"type": "apiKey", "in": "header", "name": "X-Key"}, {"X-Key": "{secret:tickets}"}, {}),
        ({"type": "apiKey", "in": "query", "name": "key"}, {}, {"key": "{secret:tickets}"}),
        ({"type": "http", "scheme": "basic"}, {"Authorization": "Basic {basic:tickets}"}, {}),
        ({"type": "oauth2"}, {"Authorization": "Bearer {secret:tickets}"}, {}),
    ],
)
def test_credentials_are_written_as_secrets(scheme: Any, headers: Any, query: Any) -> None:
    document = {"openapi": "3.1.0", "components": {"securitySchemes": {"x": scheme}}, "paths": {"/a": {"get": {}}}}
    found = look(document)
    assert found.headers == headers
    assert found.candidates[0].definition["configuration"].get("query", {}) == query


def document(schema: Any, **components: Any) -> dict[str, Any]:
    """One operation whose body is `schema`, and one that is harmless."""
    body = {"content": {"application/json": {"schema": schema}}}
    return {
        "openapi": "3.1.0",
        "components": {"schemas": components},
        "paths": {"/a": {"post": {"requestBody": body}, "get": {}}},
    }


def _wide(levels: int) -> dict[str, Any]:
    parts = {
        f"L{n}": {"properties": {x: {"$ref": f"#/components/schemas/L{n + 1}"} for x in "abcd"}} for n in range(levels)
    }
    return document({"$ref": "#/components/schemas/L0"}, **parts, **{f"L{levels}": {"type": "string"}})


def _deep(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


HOSTILE = {
    "remote reference": document({"$ref": "https://evil.example/schema.json"}),
    "file reference": document({"$ref": "file:///etc/passwd"}),
    "relative reference": document({"$ref": "other.yaml#/a"}),
    "missing reference": document({"$ref": "#/components/schemas/Nowhere"}),
    "ten thousand allOf": document({"allOf": [{"type": "string"}] * 10_000}),
    "references that multiply": _wide(12),
    "deep nesting": document(_deep(45)),
    "a false type": document({"type": "object", "properties": {"a": {"type": "nothing"}}}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_operation_is_left_out_with_a_reason_and_the_others_come(name: str) -> None:
    found = look(HOSTILE[name])
    assert [each.key for each in found.candidates] == ["GET /a"]
    [(key, why)] = found.refused
    assert key == "POST /a"
    assert len(why) > 10


def test_a_catastrophic_pattern_is_bounded_when_it_is_used() -> None:
    from sessions_app.protocol import schemas

    evil = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    made = by_key(look(document(evil)))["POST /a"].definition["input_schema"]
    validator = schemas.compile(made)
    assert not validator.is_valid({"a": "a" * 50_000 + "!"})


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"5",
        b"\xff\xfe",
        b"{",
        b'{"openapi": "3.1.0"}',
        b'{"swagger": "2.0", "paths": {}}',
        b'{"swagger": "1.2", "paths": {"/": {}}}',
        b'{"openapi": "4.0.0", "paths": {"/": {}}}',
        b'{"openapi": 3, "paths": {"/": {}}}',
        b"openapi: 3.1.0\npaths: {/a: &x {get: {}}, /b: *y}\n",
        b"openapi: 3.1.0\npaths: {/a: {get: {description: 1e999}}}\n",
        b"? [a]\n: 1\n",
        b"a: !!python/object/apply:os.system [ls]\n",
        b"a: [" * 5000,
        b'{"a":' * 2000 + b"1" + b"}" * 2000,
        b"a: .nan\n",
        b'{"openapi": "3.1.0", "openapi": "3.0.0"}',
        b"{" + b" " * 1024 + b"}",
        b'a: "\\ud800"\n',
    ],
)
def test_a_document_that_cannot_be_read_is_refused_with_a_reason(raw: bytes) -> None:
    with pytest.raises(DocumentRefused) as caught:
        look(raw)
    assert len(str(caught.value)) > 10


@pytest.mark.slow
def test_the_number_of_operations_is_bounded() -> None:
    paths: dict[str, Any] = {f"/p{n}": {"get": {}} for n in range(30_000)}
    assert len(look({"openapi": "3.1.0", "paths": paths}).candidates) == 30_000
    with pytest.raises(DocumentRefused, match="more than 30000 operations"):
        look({"openapi": "3.1.0", "paths": {**paths, "/more": {"get": {}}}})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "$ref",
                        "type",
                        "properties",
                        "allOf",
                        "parameters",
                        "name",
                        "in",
                        "schema",
                        "requestBody",
                        "content",
                        "application/json",
                        "get",
                        "items",
                        "required",
                        "enum",
                        "x",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_document_does_anything_but_be_read_or_refused(value: Any) -> None:
    try:
        found = look({"openapi": "3.1.0", "paths": {"/a/{x}": value, "/b": {"get": value, "post": value}}})
    except DocumentRefused:
        return
    for each in found.candidates:
        there = Service(slug="tickets", url="https://h", headers={})
        assert HttpConfiguration.parse(each.definition["configuration"], there)
        assert len(each.name) <= 64


@given(st.lists(st.text(max_size=100), max_size=20))
def test_names_are_those_of_tools_and_differ(names: list[str]) -> None:
    import re

    paths = {f"/{n}": {"get": {"operationId": name}} for n, name in enumerate(names)}
    if not paths:
        return
    made = [each.name for each in look({"openapi": "3.1.0", "paths": paths}).candidates]
    assert len(set(made)) == len(made) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in made)


def test_read_gives_json_values_only() -> None:
    assert read(b"a: 2020-01-01\nb: 1e3\n200: true\n") == {"a": "2020-01-01", "b": 1000, "200": True}


def test_yaml_is_read_as_version_1_2_which_knows_fewer_words_and_numbers() -> None:
    text = b"a: [NO, on, yes, 12:30:00, 1_000, 0x1f, '1', =, <<]\nb: [010, -3, 1.5, .5, true, ~, null]\nc:\n"
    assert read(text) == {
        "a": ["NO", "on", "yes", "12:30:00", "1_000", 0x1F, "1", "=", "<<"],
        "b": [10, -3, 1.5, 0.5, True, None, None],
        "c": None,
    }


def test_a_version_without_quotes_in_yaml_is_a_version() -> None:
    assert look(b"openapi: 3.1\npaths: {/a: {get: {}}}\n").candidates


def test_numbers_that_no_call_can_break_are_no_bounds() -> None:
    """Generators write the highest integer of their own language, and round it beyond 64 bits."""
    highest = {"type": "integer", "minimum": -9223372036854775808, "maximum": 18446744073709552000}
    raw = json.dumps(document({"type": "object", "properties": {"n": highest, "t": {"maxLength": 10**20}}}))
    made = by_key(look(raw.encode()))["POST /a"].definition["input_schema"]
    assert made["properties"]["n"] == {"type": "integer", "minimum": -9223372036854775808}
    assert made["properties"]["t"] == {}
    assert look(f"openapi: 3.1.0\npaths: {{/a: {{get: {{description: {10**30}}}}}}}\n".encode()).candidates


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        (r"^[\p{L}\p{N}-_]+$", "äЖ7-_", "a b"),
        (r"/^\p{Script=Greek}+$/u", "αβγ", "abc"),
        (r"^[\w-\.]+$", "a-b.c", "a/b"),
        (r"^\uD83D\uDE00[^]$", "😀x", "😀"),
        (r"^{\d{2}}$", "{12}", "12"),
        (r"\Aab\Z", "ab", "abc"),
        (r"^[\u{1F600}-\u{1F64F}]$", "😀", "a"),
        (r"^\/a\_\0?$", "/a_", "a_"),
    ],
)
def test_patterns_of_ecmascript_are_read(pattern: str, fits: str, fits_not: str) -> None:
    from sessions_app.protocol import schemas

    given = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    validator = schemas.compile(by_key(look(document(given)))["POST /a"].definition["input_schema"])
    assert validator.is_valid({"a": fits})
    assert not validator.is_valid({"a": fits_not})


@pytest.mark.parametrize("pattern", ["(", "a**", "(?>a)", "[]", r"\w{1,100000}", r"\ud83d", 5, "x" * 20_000])
def test_a_pattern_that_cannot_be_read_costs_the_pattern_and_is_told(pattern: Any) -> None:
    given = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    found = look(document(given))
    assert by_key(found)["POST /a"].definition["input_schema"]["properties"]["a"] == {"type": "string"}
    told = [note for note in found.notes if note.startswith("POST /a: the pattern ")]
    assert len(told) == (0 if pattern == 5 else 1)


def test_what_no_request_needs_counts_for_nothing() -> None:
    answers = {"200": {"content": {"application/json": {"schema": {"description": "x" * 500_000}, "example": {}}}}}
    large = {
        "openapi": "3.1.0",
        "paths": {"/a": {"get": {"responses": answers, "x-code": "y" * 500_000}}},
        "components": {"schemas": {"Unused": {"description": "z" * 500_000}}},
    }
    assert look(large, most_bytes=1000).candidates
    large["paths"]["/a"]["get"]["description"] = "w" * 2000
    with pytest.raises(DocumentRefused, match=r"An import needs 2.*the limit max_import_bytes"):
        look(large, most_bytes=1000)


def test_references_into_what_is_dropped_are_followed() -> None:
    """Bundlers make one schema stand for the others, wherever it came first: in an answer, in an example's place."""
    first = {"type": "object", "properties": {"examples": {"type": "string"}, "x-note": {"type": "integer"}}}
    made = look(
        {
            "openapi": "3.1.0",
            "paths": {
                "/a": {"get": {"responses": {"200": {"content": {"application/json": {"schema": first}}}}}},
                "/b": {
                    "post": {
                        "requestBody": {
                            "required": True,
                            "content": {
                                "application/json": {
                                    "schema": {"$ref": "#/paths/~1a/get/responses/200/content/application~1json/schema"}
                                }
                            },
                        }
                    }
                },
            },
        }
    )
    assert not made.refused
    assert by_key(made)["POST /b"].definition["input_schema"]["properties"] == first["properties"]


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (
            ["Which tickets are open?", "Which tickets are open?", 7, " Who  waits\nfor us? "],
            ["Which tickets are open?", "Who waits for us?"],
        ),
        (
            [
                {"summary": "Which are open?", "description": "Longer."},
                {"description": "Which are late?"},
                {"value": 1},
            ],
            ["Which are open?", "Which are late?"],
        ),
        (
            {"open": {"summary": "Which are open?", "value": {}}, "late": "Which are late?"},
            ["Which are open?", "Which are late?"],
        ),
        ({"application/json": "{}", "text/plain": {"summary": "A ticket"}}, []),
        ([f"Question {number}?" for number in range(40)], [f"Question {number}?" for number in range(10)]),
        (["word " * 1_000, "x" * 1_000, "\u202eopen\x00?", "\u0007"], [("word " * 40).strip(), "x" * 200, "open?"]),
        ("Which tickets are open?", []),
        (None, []),
    ],
)
@pytest.mark.parametrize("version", [{"openapi": "3.1.0"}, {"swagger": "2.0"}])
def test_questions_of_x_examples_are_examples_of_use(given: Any, asked: list[str], version: dict[str, str]) -> None:
    found = look({**version, "paths": {"/a": {"get": {"operationId": "listTickets", "x-examples": given}}}})
    [candidate] = found.candidates
    assert candidate.definition.get("meta") == ({"mcphub/examples": asked} if asked else None)
