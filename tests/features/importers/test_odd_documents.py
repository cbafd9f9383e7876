"""Documents as they are met: words of OpenAPI 3.1 and 3.2, parts of parts, other alphabets, aliases of YAML. Pure."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from mcphub.features.importers import documents, operations
from mcphub.features.importers.candidates import Found
from mcphub.features.importers.documents import DocumentRefused
from sessions_app.protocol import schemas

HEAD = {"openapi": "3.2.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": "https://a.example"}]}


def look(paths: dict[str, Any], **more: Any) -> Found:
    raw = yaml.safe_dump({**HEAD, "paths": paths, **more}, allow_unicode=True, sort_keys=False).encode()
    return operations.look(raw, operations.OPENAPI, slug="s", prefix="s_")


def body(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    return {"/x": {"post": {"operationId": "x", "requestBody": {"required": True, "content": content}}}, **more}


def arguments(found: Found) -> dict[str, Any]:
    (made,) = found.candidates
    schema: dict[str, Any] = made.definition["input_schema"]
    return schema


def takes(found: Found, value: dict[str, Any]) -> bool:
    return schemas.compile(arguments(found)).is_valid(value)


def test_operations_that_tools_do_not_send_are_left_out_with_a_line_each() -> None:
    found = look(
        {
            "/search": {"query": {"operationId": "find"}, "get": {"operationId": "list"}},
            "/files/{id}": {"additionalOperations": {"COPY": {"operationId": "copy"}, "LINK": {}}},
            "/me": {"get": {"parameters": [{"name": "s", "in": "cookie", "style": "cookie", "schema": {}}]}},
        }
    )
    assert [each.key for each in found.candidates] == ["GET /search", "GET /me"]
    assert found.refused == [
        ("QUERY /search", "Tools do not send QUERY."),
        ("COPY /files/{id}", "Tools do not send COPY."),
        ("LINK /files/{id}", "Tools do not send LINK."),
    ]


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("content", "required", "query", "refused"),
    [
        ({FORM: {"schema": {"type": "object", "properties": {"a": {}}}}}, False, {"a": "{a}"}, False),
        ({"application/json": {"schema": {"type": "object"}}}, False, None, False),
        ({"application/json": {"schema": {"type": "object"}}}, True, None, True),
    ],
)
def test_a_whole_query_is_spread_or_said_to_be_left_out(
    content: dict[str, Any], required: bool, query: dict[str, str] | None, refused: bool
) -> None:
    parameter = {"name": "filter", "in": "querystring", "required": required, "content": content}
    found = look({"/x": {"get": {"parameters": [parameter]}}})
    assert bool(found.refused) is refused
    if not refused:
        assert found.candidates[0].definition["configuration"].get("query") == query
        is_told = any("GET /x: without querystring filter" in note for note in found.notes)
        assert is_told is (query is None)


def test_a_media_type_may_be_a_reference() -> None:
    operation = {
        "operationId": "x",
        "requestBody": {"content": {"application/json": {"$ref": "#/components/mediaTypes/M"}}},
    }
    found = look(
        {"/x": {"post": operation}},
        components={"mediaTypes": {"M": {"schema": {"type": "object", "properties": {"a": {}}}}}},
    )
    assert arguments(found)["properties"].keys() == {"a"}


_BASE = {"type": "object", "properties": {"id": {"type": "string", "readOnly": True}, "name": {"type": "string"}}}


@pytest.mark.parametrize(
    "pet",
    [
        {"allOf": [{"$ref": "#/components/schemas/Base"}], "required": ["id", "name"]},
        {"allOf": [{"$ref": "#/components/schemas/Base"}, {"required": ["id", "name"]}]},
        {"allOf": [{"allOf": [{"$ref": "#/components/schemas/Base"}]}, {"type": "object", "required": ["id"]}]},
        {"type": "object", "required": ["id"], "properties": {"id": {"$ref": "#/components/schemas/Id"}, "name": {}}},
        {
            "type": "object",
            "required": ["id"],
            "properties": {"id": {"allOf": [{"$ref": "#/components/schemas/Id"}]}, "name": {}},
        },
        {"allOf": [{"$ref": "#/components/schemas/Base"}], "oneOf": [{"required": ["id"]}]},
    ],
)
def test_what_only_the_service_sets_is_demanded_nowhere(pet: dict[str, Any]) -> None:
    parts = {"Base": _BASE, "Id": {"type": "string", "readOnly": True}, "Pet": pet}
    found = look(body({"$ref": "#/components/schemas/Pet"}), components={"schemas": parts})
    value = {"name": "x"}
    assert takes(found, value if "name" in arguments(found)["properties"] else {"body": value})


def test_what_only_a_request_has_stays() -> None:
    found = look(body({"type": "object", "properties": {"password": {"type": "string", "writeOnly": True}}}))
    assert arguments(found)["properties"].keys() == {"password"}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"type": "object", "patternProperties": {"^[a-z]+$": {"type": "string"}}, "additionalProperties": False},
            {"team": "a"},
            {"1": "a"},
        ),
        ({"type": "array", "prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", 1]),
        ({"type": "array", "items": [{"type": "string"}], "additionalItems": False}, ["a"], [1]),
        ({"type": "object", "propertyNames": {"maxLength": 2}}, {"ab": 1}, {"abc": 1}),
        ({"type": "array", "contains": {"type": "integer"}}, ["a", 1], ["a"]),
        ({"if": {"type": "string"}, "then": {"minLength": 2}}, "ab", "a"),
    ],
)
def test_words_of_json_schema_2020_are_kept(schema: dict[str, Any], good: Any, bad: Any) -> None:
    found = look(body({"type": "object", "required": ["value"], "properties": {"value": schema}}))
    assert takes(found, {"value": good})
    assert not takes(found, {"value": bad})


def test_a_pattern_of_names_that_cannot_be_read_refuses_no_name() -> None:
    schema = {"type": "object", "patternProperties": {"(?<=x)[": {}}, "additionalProperties": False}
    found = look(body({"type": "object", "properties": {"value": schema}}))
    assert takes(found, {"value": {"anything": 1}})
    assert "cannot be read" in found.notes[-1]


def test_names_in_other_alphabets_can_be_told_apart() -> None:
    def parameter(name: str) -> dict[str, Any]:
        return {"name": name, "in": "query", "schema": {"type": "string"}}

    found = look(
        {
            "/users": {
                "get": {
                    "operationId": "获取用户列表",
                    "parameters": [parameter("姓名"), parameter("部门"), parameter("Größe")],
                },
                "post": {"operationId": "新增用户"},
            },
            "/orders": {"get": {"operationId": "получитьЗаказы"}},
            "/straße": {"get": {"operationId": "straßenListe"}},
        }
    )
    assert [each.name for each in found.candidates] == [
        "s_get_users",
        "s_post_users",
        "s_get_orders",
        "s_strassenListe",
    ]
    assert [each.definition["title"] for each in found.candidates] == ["获取用户列表", "新增用户", "получитьЗаказы", ""]
    first = found.candidates[0].definition
    described = {name: each["description"] for name, each in first["input_schema"]["properties"].items()}
    assert described == {"query": "(Sent as 姓名.)", "query_query": "(Sent as 部门.)", "Grosse": "(Sent as Größe.)"}
    assert first["configuration"]["query"] == {"姓名": "{query}", "部门": "{query_query}", "Größe": "{Grosse}"}


ALIASES = """
openapi: 3.0.3
info: {title: Aliases, version: '1'}
servers: [{url: 'https://a.example'}]
x-shared: &shared {description: Same., tags: [t]}
paths:
  /a: {get: {operationId: a, parameters: [&page {name: page, in: query, schema: {type: integer}}]}}
  /b: {get: {<<: *shared, operationId: b, parameters: [*page]}}
  /c: {get: {<<: [*shared, {description: Not this.}], operationId: c, summary: Own.}}
"""


def test_aliases_and_merges_of_yaml_are_read() -> None:
    found = operations.look(ALIASES.encode(), operations.OPENAPI, slug="s", prefix="")
    made = {each.name: each.definition for each in found.candidates}
    assert made["b"]["input_schema"]["properties"] == made["a"]["input_schema"]["properties"] != {}
    assert (made["b"]["description"], made["c"]["description"]) == ("Same.", "Same.")
    assert "t" in next(each.tags for each in found.candidates if each.name == "b")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: *b", "where nothing of that name is complete"),
        ("a: &a [*a]", "where nothing of that name is complete"),
        (
            "\n".join(["a0: &a0 [1, 2]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]),
            "repeat more than",
        ),
        ("\n".join(["a0: &a0 [1]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 200))]), "nested deeper than"),
    ],
    ids=["unknown", "of itself", "multiplied", "deep"],
)
def test_aliases_that_are_too_many_refuse_the_document(text: str, why: str) -> None:
    with pytest.raises(DocumentRefused, match=why):
        documents.read(text.encode())


@pytest.mark.parametrize("raw", [b"", b" \n", b"\xef\xbb\xbf"])
def test_a_document_without_a_word_is_called_empty(raw: bytes) -> None:
    with pytest.raises(DocumentRefused, match="The document is empty"):
        documents.read(raw)


@pytest.mark.parametrize("path", ["/x/{id}", "/x/{id:[0-9]+}", "/x/{id:[0-9]{3}}/", "/x/{*id}", "/x/{id*}"])
def test_a_part_of_a_path_is_named_by_its_parameter_whatever_the_framework_adds(path: str) -> None:
    number = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
    found = look({path: {"get": {"operationId": "x", "parameters": [number]}}})
    assert arguments(found)["properties"] == {"id": {"type": "integer"}}
    assert found.candidates[0].definition["configuration"]["url"].rstrip("/").endswith("/x/{id}")


@pytest.mark.parametrize("method", ["GET", "Get", "get"])
@pytest.mark.parametrize("kind", ["openapi", "swagger"])
def test_a_method_is_read_in_letters_of_any_case(method: str, kind: str) -> None:
    one = {"operationId": "x", "parameters": [{"name": "q", "in": "query", "type": "string"}]}
    head = {"swagger": "2.0", "info": {"title": "t"}, "host": "a.example", "schemes": ["https"]}
    document = {**(HEAD if kind == "openapi" else head), "paths": {"/x": {method: one}}}
    found = operations.look(yaml.safe_dump(document).encode(), operations.OPENAPI, slug="s", prefix="s_")
    assert [each.key for each in found.candidates] == ["GET /x"]


def test_parameters_by_name_are_read_and_what_is_no_list_is_refused() -> None:
    by_name = {"q": {"in": "query", "required": True, "schema": {"type": "string"}}}
    assert arguments(look({"/x": {"get": {"operationId": "x", "parameters": by_name}}}))["required"] == ["q"]
    assert arguments(look({"/x": {"get": {"operationId": "x", "parameters": None}}}))["properties"] == {}
    refused = look({"/x": {"get": {"operationId": "x", "parameters": "q"}}}).refused
    assert refused == [("GET /x", "Its parameters are no list.")]
