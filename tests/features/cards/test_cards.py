"""Server cards and the AI catalogue, read from a running hub as strangers and browsers read them.

The schema and the rules are written after `schema.json` and `docs/discovery.md` of the extension (SEP-2127).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import jsonschema
import pytest

from tests.features.cards import operations
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.program

CARD = "application/mcp-server-card+json"
PUBLIC = "https://tools.example.org"
CATALOG = "/.well-known/ai-catalog.json"
INPUT: dict[str, Any] = {
    "isRequired": {"type": "boolean"},
    "isSecret": {"type": "boolean"},
    "description": {"type": "string"},
    "value": {"type": "string"},
    "variables": {"type": "object"},
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["$schema", "name", "version", "description"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"},
        "name": {"type": "string", "maxLength": 200, "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$"},
        "version": {"type": "string", "maxLength": 255},
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "remotes": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "url"],
                "additionalProperties": False,
                "properties": {
                    "type": {"enum": ["streamable-http", "sse"]},
                    "url": {"type": "string", "pattern": "^https?://[^ ]+$"},
                    "supportedProtocolVersions": {"type": "array", "items": {"type": "string"}},
                    "headers": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "additionalProperties": False,
                            "properties": {"name": {"type": "string"}, **INPUT},
                        },
                    },
                },
            },
        },
    },
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that is a public registry, at a public address."""
    environment = {"MCPHUB_PUBLIC_REGISTRY": "1", "MCPHUB_PUBLIC_URL": PUBLIC, "MCPHUB_ALLOWED_HOSTS": "127.0.0.1"}
    with Hub(tmp_path_factory.mktemp("cards"), environment=environment) as running:
        running.operate(operations.make_toolsets)
        running.settle()
        yield running


@pytest.fixture(scope="module")
def closed_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub as it is without settings: keys, and no public registry."""
    with Hub(tmp_path_factory.mktemp("closed")) as running:
        running.operate(operations.make_toolsets)
        running.settle()
        yield running


def get(hub: Hub, path: str, method: str = "GET", **headers: str) -> httpx2.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.request(method, f"{hub.url}{path}", headers=sent, timeout=PATIENCE_SECONDS)


def test_the_card_of_the_hub_is_valid_and_agrees_with_the_live_server(hub: Hub) -> None:
    answer = get(hub, "/mcp/server-card", accept=CARD)
    assert (answer.status_code, answer.headers["content-type"]) == (200, CARD)
    card = answer.json()
    jsonschema.Draft202012Validator(SCHEMA).validate(card)
    assert card["name"] == "org.example.tools/hub"
    live = get(hub, "/.well-known/mcp").json()
    assert (card["title"], card["version"]) == (live["title"], live["version"])
    assert card["remotes"][0]["url"] == f"{PUBLIC}/mcp"
    assert card["remotes"][0]["supportedProtocolVersions"] == live["protocolVersions"]


def test_the_card_of_a_toolset_has_its_title_and_the_beginning_of_its_description(hub: Hub) -> None:
    card = get(hub, "/mcp/s/sales/server-card").json()
    jsonschema.Draft202012Validator(SCHEMA).validate(card)
    assert (card["name"], card["title"]) == ("org.example.tools/toolset.sales", "Sales desk")
    assert card["description"].startswith("Orders, invoices")
    assert card["description"].endswith("…")
    assert card["remotes"][0]["url"] == f"{PUBLIC}/mcp/s/sales"
    assert get(hub, "/mcp/s/plain/server-card").json()["title"] == "plain"


def test_the_catalogue_lists_the_cards_that_a_stranger_may_read_and_no_others(hub: Hub) -> None:
    answer = get(hub, CATALOG)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/ai-catalog+json")
    listed = answer.json()
    assert listed["specVersion"] == "1.0"
    assert [(each["identifier"], each["url"]) for each in listed["entries"]] == [
        ("urn:air:tools.example.org:mcp:hub", f"{PUBLIC}/mcp/server-card"),
        ("urn:air:tools.example.org:mcp:toolset.plain", f"{PUBLIC}/mcp/s/plain/server-card"),
        ("urn:air:tools.example.org:mcp:toolset.sales", f"{PUBLIC}/mcp/s/sales/server-card"),
    ]
    for each in listed["entries"]:
        assert each["type"] == CARD
        assert get(hub, each["url"].removeprefix(PUBLIC)).json()["title"] == each["displayName"]
    assert not any(word in answer.text for word in ("closed", "team", "off"))


@pytest.mark.parametrize(
    "path", ["/mcp/s/closed/server-card", "/mcp/s/teams/server-card", "/mcp/s/off/server-card", "/mcp/s/no/server-card"]
)
def test_a_hidden_endpoint_and_a_missing_one_answer_alike(hub: Hub, path: str) -> None:
    answer, missing = get(hub, path), get(hub, "/mcp/s/nowhere/server-card")
    assert (answer.status_code, answer.content) == (404, missing.content)
    assert answer.headers["cache-control"] == "no-store"
    assert set(answer.headers) == set(missing.headers)


def test_endpoints_of_workspaces_have_no_card_whether_they_exist_or_not(hub: Hub) -> None:
    assert {get(hub, f"/w/{name}/mcp/server-card").status_code for name in ("team", "nowhere")} == {404}


def test_without_a_public_registry_only_the_hub_has_a_card(closed_hub: Hub) -> None:
    assert [each["displayName"] for each in get(closed_hub, CATALOG).json()["entries"]] == ["MCP Hub"]
    assert get(closed_hub, "/mcp/s/plain/server-card").status_code == 404
    assert get(closed_hub, "/mcp/server-card/").json()["remotes"][0]["headers"][0]["name"] == "Authorization"


@pytest.mark.parametrize("path", ["/mcp/server-card", "/mcp/s/sales/server-card", CATALOG])
def test_an_unchanged_document_is_not_sent_again(hub: Hub, path: str) -> None:
    whole = get(hub, path)
    tag = whole.headers["etag"]
    assert whole.headers["cache-control"] == "public, max-age=3600"
    for sent in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        answer = get(hub, path, if_none_match=sent)
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
    for sent in ('"other"', tag.strip('"'), ""):
        assert get(hub, path, if_none_match=sent).content == whole.content


def test_a_head_has_the_headers_and_no_body(hub: Hub) -> None:
    whole, head = get(hub, "/mcp/server-card"), get(hub, "/mcp/server-card", "HEAD")
    assert (head.status_code, head.content) == (200, b"")
    names = ("content-type", "content-length", "etag", "cache-control", "access-control-allow-origin")
    assert {name: head.headers[name] for name in names} == {name: whole.headers[name] for name in names}


@pytest.mark.parametrize("path", ["/mcp/server-card", CATALOG, "/mcp/s/nowhere/server-card"])
def test_a_page_of_any_origin_may_read(hub: Hub, path: str) -> None:
    answer = get(hub, path, origin="https://page.example.net")
    assert answer.status_code in (200, 404)
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["access-control-expose-headers"] == "ETag"
    asked = get(hub, path, "OPTIONS", origin="https://page.example.net", access_control_request_method="GET")
    assert (asked.status_code, asked.headers["access-control-allow-methods"]) == (204, "GET")
    assert "If-None-Match" in asked.headers["access-control-allow-headers"]
    refused = get(hub, path, "POST", origin="https://page.example.net")
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (405, "*")


def test_a_foreign_host_name_gets_no_card(hub: Hub) -> None:
    assert get(hub, "/mcp/server-card", host="evil.example.net").status_code == 421


def test_the_endpoint_itself_stays_closed_to_pages_of_other_origins(hub: Hub) -> None:
    assert get(hub, "/mcp", "POST", origin="https://page.example.net").status_code == 403


def test_a_toolset_that_is_closed_leaves_the_catalogue(hub: Hub) -> None:
    before = get(hub, CATALOG).headers["etag"]
    hub.operate(operations.close, "plain")
    try:
        until(lambda: get(hub, "/mcp/s/plain/server-card").status_code == 404)
        after = get(hub, CATALOG, if_none_match=before)
    finally:
        hub.operate(operations.open_again, "plain")
    assert after.status_code == 200
    assert "plain" not in after.text
    until(lambda: get(hub, "/mcp/s/plain/server-card").status_code == 200)
