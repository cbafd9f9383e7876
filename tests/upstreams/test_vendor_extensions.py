"""Extensions of other vendors between clients and upstreams on the official SDK, in both eras."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.extension import advertise
from mcp.client.streamable_http import streamable_http_client

from tests.servers import Hub, until
from tests.upstreams.conftest import PEERS, Operator, Peer, child
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import LEGACY, META, Speaker, error_of, hello, request

NAME, UNLISTED = "com.example/search", "com.example/unlisted"
OURS = {"io.modelcontextprotocol/tasks", "io.modelcontextprotocol/ui"}
SETTINGS = {"version": 3, "modes": ["deep", "wide"]}
OF_CLIENT = {"extensions": {NAME: {"depth": 1}, UNLISTED: {}}, "experimental": {"openai/visibility": {"enabled": True}}}

ERAS = ("stateless", "handshake")


@pytest.fixture(scope="module", autouse=True)
def upstreams(operator: Operator) -> Iterator[None]:
    passing = {"extensions": [NAME, "openai/visibility"]}
    words = [str(PEERS / "extended.py"), json.dumps(SETTINGS), "stdio"]
    with Peer("extended.py", json.dumps(SETTINGS)) as peer:
        operator.connect_all(
            {
                "stateless": {"url": peer.url, "era": "stateless", **passing},
                "handshake": {"url": peer.url, "era": "handshake", **passing},
                "closed": {"url": peer.url},
                "child": {
                    **child("extended", "extended.py", sys.executable, arguments=words),
                    "era": "handshake",
                    **passing,
                },
            }
        )
        yield
        for slug in (*ERAS, "closed", "child"):
            operator.change(slug, enabled=False)


def structured_of(answer: httpx2.Response) -> dict[str, Any]:
    found: dict[str, Any] = answer.json()["result"]["structuredContent"]
    return found


def discovered(speaker: Speaker) -> dict[str, Any]:
    found: dict[str, Any] = speaker.modern("server/discover").json()["result"]["capabilities"]
    return found


def reached(speaker: Speaker, slug: str, capabilities: dict[str, Any]) -> dict[str, Any]:
    """Return the capabilities that arrive at an upstream from a stateless client with these."""
    answer = speaker.modern_call(f"{slug}.declared", **{f"{META}clientCapabilities": capabilities})
    found: dict[str, Any] = structured_of(answer)
    return found


@pytest.mark.parametrize("slug", ERAS)
def test_a_client_is_declared_with_its_settings_and_no_other_extension(speaker: Speaker, slug: str) -> None:
    found = reached(speaker, slug, OF_CLIENT)
    assert found["extensions"].keys() - OURS == {NAME}
    assert found["extensions"][NAME] == {"depth": 1}
    assert found["experimental"] == {"openai/visibility": {"enabled": True}}


@pytest.mark.parametrize("slug", ERAS)
def test_no_client_is_declared_with_the_extensions_of_another(speaker: Speaker, upstream_hub: Hub, slug: str) -> None:
    assert NAME in reached(speaker, slug, OF_CLIENT)["extensions"]
    with Speaker(upstream_hub.url, upstream_hub.key) as other:
        session = other.open_session()
        for found in (
            reached(other, slug, {}),
            reached(other, slug, {"elicitation": {}}),
            structured_of(other.call(session, f"{slug}.declared")),
        ):
            assert NAME not in found.get("extensions", {})
            assert "experimental" not in found
    assert reached(speaker, slug, {"extensions": {NAME: {"depth": 2}}})["extensions"][NAME] == {"depth": 2}


@pytest.mark.parametrize("slug", ERAS)
def test_a_client_with_a_session_is_declared_too(speaker: Speaker, slug: str) -> None:
    session = speaker.open_session(**OF_CLIENT)
    assert structured_of(speaker.call(session, f"{slug}.declared"))["extensions"][NAME] == {"depth": 1}


def test_a_session_that_all_clients_share_declares_nobodys_extensions(speaker: Speaker) -> None:
    found = reached(speaker, "child", OF_CLIENT)
    assert found["extensions"].keys() <= OURS
    assert "experimental" not in found


def test_a_connection_that_passes_none_declares_none(speaker: Speaker) -> None:
    found = reached(speaker, "closed", OF_CLIENT)
    assert found["extensions"].keys() <= OURS
    assert "experimental" not in found


@pytest.mark.parametrize("capability", [[], "yes", None, {"x": "y" * 5000}])
def test_what_is_no_declaration_or_too_large_goes_nowhere(speaker: Speaker, capability: Any) -> None:
    found = reached(speaker, "stateless", {"extensions": {NAME: capability}})
    assert NAME not in found["extensions"]


def test_clients_learn_what_an_upstream_declares_and_its_connection_passes(speaker: Speaker) -> None:
    until(lambda: NAME in discovered(speaker)["extensions"])
    found = discovered(speaker)["extensions"]
    assert found[NAME] == SETTINGS
    assert UNLISTED not in found
    assert "io.modelcontextprotocol/skills" in found
    greeted = speaker.post(hello()).json()["result"]["capabilities"]
    assert greeted["extensions"][NAME] == SETTINGS
    old = speaker.post(hello("2025-06-18")).json()["result"]["capabilities"]
    assert "extensions" not in old


def test_upstreams_that_disagree_are_declared_neither_way(
    speaker: Speaker, operator: Operator, upstream_hub: Hub
) -> None:
    until(lambda: discovered(speaker)["extensions"].get(NAME) == SETTINGS)
    with Peer("extended.py", '{"version": 4}') as peer:
        operator.connect("other", url=peer.url, extensions=[NAME])
        until(lambda: NAME not in discovered(speaker)["extensions"])
        operator.change("other", enabled=False)
        until(lambda: discovered(speaker)["extensions"].get(NAME) == SETTINGS)


@pytest.mark.parametrize("slug", ERAS)
def test_a_tool_that_demands_the_extension_runs_for_who_declares_it(speaker: Speaker, slug: str) -> None:
    declaring = {f"{META}clientCapabilities": OF_CLIENT}
    assert speaker.modern_call(f"{slug}.searched", **declaring).json()["result"]["structuredContent"] == {
        "result": "found"
    }
    refused = speaker.modern_call(f"{slug}.searched").json()["error"]
    assert (refused["code"], refused["data"]["requiredCapabilities"]) == (-32021, {"extensions": {NAME: {}}})


def test_a_client_is_not_told_to_declare_what_the_connection_keeps(speaker: Speaker) -> None:
    refused = speaker.modern_call("closed.searched").json()
    assert refused["result"]["isError"], refused


def test_methods_of_an_extension_are_refused(speaker: Speaker) -> None:
    assert error_of(speaker.modern("com.example/own"))["code"] == -32601
    session = speaker.open_session(**OF_CLIENT)
    assert (
        error_of(speaker.post(request("com.example/own"), mcp_session_id=session, mcp_protocol_version=LEGACY))["code"]
        == -32601
    )


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_client_of_the_sdk_and_the_server_of_the_sdk_find_each_other(upstream_hub: Hub, mode: Any) -> None:
    async def run() -> tuple[Any, Any]:
        headers = {"authorization": f"Bearer {upstream_hub.key}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_SECONDS) as http:
            transport = streamable_http_client(f"{upstream_hub.url}/mcp", http_client=http)
            async with Client(transport, mode=mode, extensions=[advertise(NAME, {"depth": 7})]) as client:
                reached = await client.call_tool("stateless.declared", {})
                return client.server_capabilities, reached.structured_content

    capabilities, reached = asyncio.run(run())
    assert capabilities.extensions[NAME] == SETTINGS
    assert reached["extensions"][NAME] == {"depth": 7}
