"""Views of MCP Apps of two upstreams that use one URI: kept apart, read, and called by no model that may not."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests import operations
from tests.servers import until
from tests.upstreams.conftest import PEERS as PLACE
from tests.upstreams.conftest import Operator
from tests.wire.speech import MODERN, Speaker

UI = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
SLUGS = ("viewa", "viewb")


@pytest.fixture(scope="module", autouse=True)
def upstreams(operator: Operator) -> Iterator[None]:
    def words(slug: str) -> dict[str, Any]:
        profile = {"name": slug, "command": sys.executable, "arguments": [str(PLACE / "viewing.py"), slug]}
        return {"transport": "stdio", "profile": profile, "prefix": f"{slug}_"}

    operator.connect_all({slug: words(slug) for slug in SLUGS})
    yield
    for slug in SLUGS:
        operator.change(slug, enabled=False)


@pytest.fixture
def speaker(speaker: Speaker) -> Speaker:
    until(lambda: all(f"ui://{slug}/panel" in speaker.modern("resources/list").text for slug in SLUGS))
    return speaker


def tools(speaker: Speaker, **capabilities: Any) -> dict[str, Any]:
    """Return the tools that a session with these capabilities lists, by name."""
    session = speaker.open_session(**capabilities)
    listed = speaker.in_session(session, "tools/list", {}).json()["result"]["tools"]
    return {tool["name"]: tool for tool in listed if tool["name"].startswith(SLUGS)}


def test_tools_name_the_views_of_their_own_connection_in_both_places(speaker: Speaker) -> None:
    found = tools(speaker)
    for slug in SLUGS:
        uri = f"ui://{slug}/panel/page.html"
        assert found[f"{slug}_show"]["_meta"] == {"ui": {"resourceUri": uri}, "ui/resourceUri": uri}


def test_a_view_that_its_server_does_not_list_is_read_there_under_its_own_uri(speaker: Speaker) -> None:
    for slug in SLUGS:
        uri = f"ui://{slug}/panel/page.html"
        for answer in (
            speaker.modern("resources/read", {"uri": uri}),
            speaker.in_session(speaker.open_session(), "resources/read", {"uri": uri}),
        ):
            (part,) = answer.json()["result"]["contents"]
            assert part["uri"] == uri
            assert part["text"].endswith(f"the page of {slug}</p>")
            assert part["_meta"] == {"ui": {"prefersBorder": True}}


def test_a_tool_for_views_alone_is_listed_to_clients_that_show_views(speaker: Speaker) -> None:
    assert "viewa_refresh" not in tools(speaker)
    assert "viewa_refresh" in tools(speaker, extensions=UI)
    meta = {"io.modelcontextprotocol/clientCapabilities": {"extensions": UI}}
    plain = speaker.modern("tools/list").json()["result"]
    shown = speaker.modern("tools/list", {"_meta": meta}).json()["result"]
    names = [{tool["name"] for tool in each["tools"]} for each in (plain, shown)]
    assert {"viewa_refresh", "viewb_refresh"} <= names[1] - names[0]
    assert plain["cacheScope"] == shown["cacheScope"] == "private"


def test_the_hub_declares_views_to_upstreams_and_to_clients(speaker: Speaker) -> None:
    session = speaker.open_session()
    told = speaker.call(session, "viewa_told").json()["result"]["content"][0]["text"]
    assert json.loads(told)["extensions"] == UI
    declared = speaker.modern("server/discover").json()["result"]["capabilities"]["extensions"]
    assert declared["io.modelcontextprotocol/ui"] == UI["io.modelcontextprotocol/ui"]


def test_links_to_views_in_a_result_lead_to_them_here(speaker: Speaker) -> None:
    result = speaker.call(speaker.open_session(), "viewb_show").json()["result"]
    assert result["content"][1]["uri"] == "ui://viewb/panel/page.html"
    assert result["_meta"]["ui/resourceUri"] == "ui://viewb/panel/page.html"


def test_a_view_calls_a_tool_by_the_name_that_its_server_has_for_it(speaker: Speaker, operator: Operator) -> None:
    session = speaker.open_session(extensions=UI)
    both = speaker.call(session, "refresh").json()["error"]
    assert both["code"] == -32602
    assert "viewa_refresh, viewb_refresh" in both["message"]
    only = {"slug": "viewa-alone", "patterns": "viewa_*", "description": "One of them."}
    operator.hub.operate(operations.create, "tools_catalog.McpToolset", **only)
    until(lambda: speaker.post({}, "/mcp/s/viewa-alone").status_code != 404)
    body = speaker.modern_body("tools/call", {"name": "refresh", "arguments": {}})
    body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {"extensions": UI}
    headers = speaker.modern_headers("tools/call", body["params"])
    answer = speaker.post(body, "/mcp/s/viewa-alone", **headers).json()
    assert answer["result"]["content"][0]["text"] == "refresh of viewa"
    body["params"]["name"] = "told"  # which views may not call
    headers = speaker.modern_headers("tools/call", body["params"])
    assert speaker.post(body, "/mcp/s/viewa-alone", **headers).json()["error"]["code"] == -32602


def test_a_client_that_shows_no_views_calls_by_full_names_alone(speaker: Speaker) -> None:
    assert "There is no tool" in speaker.call(speaker.open_session(), "refresh").json()["error"]["message"]
    assert MODERN in speaker.modern("server/discover").json()["result"]["supportedVersions"]
