"""What programs are generated from: every operation of the OpenAPI document has words, an id and examples that hold."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from django.test import Client
from rest_framework.test import APIClient

from invocations.models import McpErrorMapping
from sessions_app.kit.rest.examples import UNWRITTEN, contents, operations
from tests.factories import UserFactory
from tests.features.chat import rows

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

UPGRADING = Path(__file__).parents[2] / "docs/operate/upgrading.md"
PARTS = {
    "connections": "slug",
    "groups": "name",
    "guardrails": "name",
    "launch-profiles": "name",
    "model-prices": "name",
    "models": "id",
    "policy-rules": "name",
    "prompts": "name",
    "providers": "slug",
    "quotas": "name",
    "redaction-rules": "id",
    "resources": "id",
    "saved-views": "id",
    "secrets": "name",
    "services": "slug",
    "tool-definitions": "name",
    "toolsets": "slug",
    "workspaces": "slug",
}
"""Rows that are made and changed, and the member that stands in their address."""


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(APIClient().get("/api/schema").content)
    return document


def validator(shape: Mapping[str, Any], schema: Mapping[str, Any]) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({**shape, "components": schema["components"]})


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from leaves(each)
    else:
        yield value


def example_of(schema: Mapping[str, Any], path: str, method: str) -> dict[str, Any]:
    body: dict[str, Any] = schema["paths"][path][method]["requestBody"]["content"]["application/json"]["example"]
    return body


def test_every_operation_has_an_id_of_its_own_and_a_summary(schema: dict[str, Any]) -> None:
    found = list(operations(schema))
    assert all(operation["summary"] for operation in found)
    assert len({operation["operationId"] for operation in found}) == len(found)


def test_every_operation_has_examples_of_what_is_sent_and_answered(schema: dict[str, Any]) -> None:
    """Of the variable parts of its address, of its body, and of each success that has a body."""
    for operation in operations(schema):
        id_ = operation["operationId"]
        assert any(status.startswith("2") for status in operation["responses"]), id_
        for kind, content in contents(operation):
            assert "example" in content, (id_, kind)
            assert not any(leaf == UNWRITTEN for leaf in leaves(content["example"])), (id_, kind)
        for parameter in operation.get("parameters", ()):
            assert parameter["in"] != "path" or parameter.get("example") not in (None, UNWRITTEN), (id_, parameter)


def test_every_example_keeps_to_its_schema(schema: dict[str, Any]) -> None:
    for operation in operations(schema):
        told = [(kind, content["schema"], content["example"]) for kind, content in contents(operation)]
        told += [
            (each["name"], each["schema"], each["example"])
            for each in operation.get("parameters", ())
            if each["in"] == "path"
        ]
        for what, shape, example in told:
            problems = [error.message for error in validator(shape, schema).iter_errors(example)]
            assert not problems, (operation["operationId"], what)


def test_the_data_of_an_event_in_an_example_keeps_to_its_schema(schema: dict[str, Any]) -> None:
    streams = [
        content for each in operations(schema) for kind, content in contents(each) if kind == "text/event-stream"
    ]
    assert streams
    for content in streams:
        shape = next(
            each for each in content["schema"]["oneOf"] if validator(each, schema).is_valid(content["example"])
        )
        inner = shape["properties"]["data"]["contentSchema"]
        validator(inner, schema).validate(json.loads(content["example"]["data"]))


@pytest.mark.parametrize("part", PARTS)
def test_a_row_is_made_replaced_and_changed_by_the_examples(schema: dict[str, Any], part: str) -> None:
    client = Client()
    client.force_login(UserFactory(is_superuser=True, is_staff=True))
    if part in ("model-prices", "models"):
        rows.provide("openai", "openai", "https://api.openai.example/v1")
    body = example_of(schema, f"/api/{part}/", "post")
    made = client.post(f"/api/{part}/", body, content_type="application/json")
    assert made.status_code == 201, made.json()
    one = f"/api/{part}/{{{PARTS[part]}}}/"
    address = f"/api/{part}/{made.json()[PARTS[part]]}/"
    for method in ("put", "patch"):
        answer = getattr(client, method)(address, example_of(schema, one, method), content_type="application/json")
        assert answer.status_code == 200, (method, answer.content)


def test_the_other_requests_do_what_their_examples_say(schema: dict[str, Any]) -> None:
    client = Client()
    client.force_login(UserFactory(is_superuser=True, is_staff=True))

    def send(path: str, method: str = "post", **at: str) -> Any:
        body = example_of(schema, path, method)
        return getattr(client, method)(path.format(**at), body, content_type="application/json")

    key = send("/api/keys/")
    assert key.status_code == 201, key.content
    prefix = key.json()["prefix"]
    assert send("/api/keys/{prefix}/rotate/", prefix=prefix).status_code == 200
    assert send("/api/keys/{prefix}/revoke/", prefix=prefix).status_code == 200
    told = schema["paths"]["/api/guardrails/try/"]["post"]["responses"]["200"]["content"]["application/json"]["example"]
    tried = send("/api/guardrails/try/").json()
    assert {**tried, "milliseconds": None} == {**told, "milliseconds": None}
    code = McpErrorMapping.objects.values_list("internal_code", flat=True)[0]
    for method in ("put", "patch"):
        assert send("/api/error-mappings/{internal_code}/", method, internal_code=code).status_code == 200


def test_the_document_names_the_public_address_and_else_where_it_came_from(settings: Any) -> None:
    for address, told in (
        ("https://hub.example/mcp-hub/", "https://hub.example/mcp-hub"),
        ("http://127.0.0.1:8000", "/"),
        ("http://localhost:9000", "/"),
    ):
        settings.MCPHUB_PUBLIC_URL = address
        assert APIClient().get("/api/schema").json()["servers"] == [{"url": told}]


def test_the_document_promises_what_the_page_on_upgrading_promises(schema: dict[str, Any]) -> None:
    told = schema["info"]["description"]
    page = UPGRADING.read_text()
    for words in (
        "addresses, members, filters, error codes and their meaning stay",
        "may be added, so ignore those you do not know",
        "announced one minor version before in the changelog and as `deprecated`",
    ):
        assert words in told
        assert words in page


def test_any_json_has_no_type_that_refers_to_itself(schema: dict[str, Any]) -> None:
    """Generators of clients leave out operations with a recursive union, and say so as a warning."""
    shapes = schema["components"]["schemas"]
    assert "type" not in shapes["JSON"]
    check = validator(shapes["JSON"], schema)
    assert all(check.is_valid(value) for value in (None, True, 1.5, "a", [{"a": [2**63]}]))
    assert not any(check.is_valid(value) for value in itertools.chain([2**64], [[-(2**63) - 1025]], [{"a": [2**65]}]))
