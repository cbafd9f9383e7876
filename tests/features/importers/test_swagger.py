"""Swagger 2.0 documents: what OpenAPI 3 says otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcphub.features.importers import operations
from mcphub.features.importers.candidates import Candidate, Found
from tools_catalog.backends.http.backend import Service, request_of
from tools_catalog.backends.http.configuration import HttpConfiguration
from tools_catalog.backends.http.template import Values
from tools_catalog.bindings import Destination

PET = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}


def look(operation: dict[str, Any], *, path: str = "/pets", method: str = "post", **more: Any) -> Found:
    document = {
        "swagger": "2.0",
        "info": {"title": "Pets"},
        "host": "pets.example",
        "basePath": "/v2/",
        "schemes": ["http", "https"],
        "paths": {path: {method: operation}},
        "definitions": {"Pet": PET},
        "parameters": {"Limit": {"name": "limit", "in": "query", "type": "integer", "maximum": 100}},
        "securityDefinitions": {"login": {"type": "basic"}, "key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
        **more,
    }
    return operations.look(json.dumps(document).encode(), operations.OPENAPI, slug="pets", prefix="")


def only(found: Found) -> Candidate:
    assert not found.refused
    [candidate] = found.candidates
    return candidate


def sent(candidate: Candidate, **arguments: Any) -> Any:
    service = Service(slug="pets", url="https://pets.example/v2", headers={})
    configuration = HttpConfiguration.parse(candidate.definition["configuration"], service)
    return request_of(configuration, Values(arguments, lambda name, _: name, Destination("https://pets.example")))


def test_address_and_credentials_are_found() -> None:
    found = look({}, security=[{"login": []}])
    assert (found.title, found.url) == ("Pets", "https://pets.example/v2")
    assert found.headers == {"Authorization": "Basic {basic:pets}"}
    assert only(found).key == "POST /pets"


def test_without_a_host_the_address_is_the_operators() -> None:
    assert look({}, host=None).url == ""
    assert "/v2" in look({}, host=None).notes[0]


def test_a_parameter_in_the_body_is_the_body() -> None:
    body = {"name": "pet", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Pet"}}
    made = only(look({"parameters": [body], "consumes": ["application/json"]}))
    assert made.definition["input_schema"]["required"] == ["name"]
    assert json.loads(sent(made, name="Rex", age=3).content) == {"name": "Rex", "age": 3}


def test_parameters_of_a_form_are_a_form() -> None:
    fields = [
        {"name": "name", "in": "formData", "type": "string", "required": True, "description": "Its name."},
        {"name": "tags", "in": "formData", "type": "array", "items": {"type": "string"}, "collectionFormat": "multi"},
        {"name": "codes", "in": "formData", "type": "array", "items": {"type": "string"}},
    ]
    made = only(look({"parameters": fields}))
    assert made.definition["input_schema"]["properties"]["name"] == {"type": "string", "description": "Its name."}
    assert made.definition["input_schema"]["required"] == ["name"]
    request = sent(made, name="Rex", tags=["a", "b"], codes=["x", "y"])
    assert request.content == b"name=Rex&tags=a&tags=b&codes=x,y"
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("written", "wanted"),
    [(None, "p=a,b"), ("csv", "p=a,b"), ("ssv", "p=a%20b"), ("pipes", "p=a%7Cb"), ("multi", "p=a&p=b")],
)
def test_lists_are_written_as_their_collection_format_says(written: str | None, wanted: str) -> None:
    parameter = {"name": "p", "in": "query", "type": "array", "items": {"type": "string"}}
    parameter |= {"collectionFormat": written} if written else {}
    made = only(look({"parameters": [parameter]}, method="get"))
    assert sent(made, p=["a", "b"]).url.query.decode() == wanted


def test_parameters_of_the_path_and_of_the_document_are_taken() -> None:
    shared = [{"name": "ids", "in": "path", "required": True, "type": "array", "items": {"type": "integer"}}]
    paths = {"/pets/{ids}": {"parameters": shared, "get": {"parameters": [{"$ref": "#/parameters/Limit"}]}}}
    made = only(look({}, paths=paths))
    assert made.definition["input_schema"]["properties"]["limit"] == {"type": "integer", "maximum": 100, "default": 25}
    assert sent(made, ids=[1, 2], limit=5).url.raw_path == b"/v2/pets/1,2?limit=5"


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ([{"name": "photo", "in": "formData", "type": "file"}], "It takes multipart/form-data"),
        ([{"name": "p", "in": "query", "type": "array", "required": True, "collectionFormat": "tsv"}], "with tabs"),
        ([{"$ref": "#/parameters/Nowhere"}], "which the document does not have"),
    ],
)
def test_what_cannot_be_said_is_left_out_with_the_reason(parameters: Any, why: str) -> None:
    found = look({"parameters": parameters})
    assert not found.candidates
    assert why in found.refused[0][1]
