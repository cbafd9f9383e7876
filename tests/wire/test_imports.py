"""Descriptions become tools that a client calls: from an address and from a file, with credentials and audit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import Hub, until
from tests.tools_catalog.importers.test_graphql import SCHEMA
from tests.wire.conftest import make_keys
from tests.wire.service import Answer, Asked, Service
from tests.wire.speech import Speaker

_SECRETS = """
from tools_catalog.models import Secret
for name in ("tickets", "books"):
    row = Secret(name=name, hosts="127.0.0.1")
    row.set_value(f"{name}-key-123456")
    row.save()
"""
TICKETS: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Tickets"},
    "servers": [{"url": "/v1"}],
    "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    "paths": {
        "/tickets/{n}": {
            "get": {
                "operationId": "read",
                "parameters": [{"name": "n", "in": "path", "required": True, "schema": {"type": "string"}}],
            }
        },
    },
}


def answer(asked: Asked) -> Answer:
    if asked.path == "/openapi.json":
        return 200, TICKETS
    if asked.path.startswith("/v1/tickets/"):
        key = asked.headers.get("authorization")
        return (200, {"id": asked.raw_path}) if key == "Bearer tickets-key-123456" else (401, "no")
    if asked.path == "/graphql" and "__schema" in asked.json["query"]:
        return 200, {"data": {"__schema": SCHEMA}}
    if asked.path == "/graphql" and asked.json["variables"]["id"] == "none":
        return 200, {"data": None, "errors": [{"message": "There is no such book."}]}
    if asked.path == "/graphql":
        return 200, {"data": {"book": {"id": asked.json["variables"]["id"], "kind": "NOVEL"}}}
    return 404, "nowhere"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service(answer).running() as running:
        yield running


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, service: Service) -> Iterator[Hub]:
    """A hub that may reach the service."""
    environment = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
    with Hub(tmp_path_factory.mktemp("imports"), environment=environment) as running:
        running.shell(_SECRETS)
        yield running


@pytest.fixture(scope="module")
def caller(own: Hub) -> Iterator[Speaker]:
    with Speaker(own.url, make_keys(own)["wire"]) as made:
        yield made


def test_openapi_from_an_address_to_an_audited_call(own: Hub, caller: Speaker, service: Service) -> None:
    words = ["catalog", "import", "openapi", f"{service.url}/openapi.json", "--service", "tickets"]
    assert own.command(*words).startswith("1 new, 0 changed")
    until(lambda: "tickets.read" in caller.modern("tools/list").text)
    result = caller.modern_call("tickets.read", {"n": "a/b c"}).json()["result"]
    assert result["structuredContent"] == {"id": "/v1/tickets/a%2Fb%20c"}
    refused = caller.modern_call("tickets.read", {"n": ".."}).json()["result"]
    assert refused["isError"] is True
    rows = [row["error_code"] for row in own.rows(client=caller.name, tool="tickets.read")]
    assert rows == ["invalid_arguments", ""]


def test_graphql_from_its_endpoint_to_a_call(own: Hub, caller: Speaker, service: Service) -> None:
    words = ["catalog", "import", "graphql", f"{service.url}/graphql", "--service", "books", "--only", "query book"]
    assert own.command(*words).startswith("1 new")
    until(lambda: "books.book" in caller.modern("tools/list").text)
    result = caller.modern_call("books.book", {"id": "7"}).json()["result"]
    assert result["structuredContent"] == {"id": "7", "kind": "NOVEL"}
    failed = caller.modern_call("books.book", {"id": "none"}).json()["result"]
    assert failed["isError"] is True
    assert "There is no such book." in failed["content"][0]["text"]


def test_a_file_that_cannot_be_read_is_said(own: Hub, tmp_path: Path) -> None:
    there = tmp_path / "other.json"
    there.write_text("{")
    with pytest.raises(AssertionError, match="The document is not valid JSON"):
        own.command("catalog", "import", "openapi", str(there), "--service", "other", "--dry-run")
