"""Toolsets at addresses of their own: what is listed, found and called there, in both eras and over SSE."""

from __future__ import annotations

import json
import re
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from tests import operations
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import Speaker, error_of, unmarked

TOOLSET = "tools_catalog.McpToolset"


@pytest.fixture(scope="module")
def toolsets(hub: Hub) -> None:
    few = hub.operate(operations.create, TOOLSET, slug="few", description="For sums.", patterns="ech?")
    hub.operate(operations.relate, TOOLSET, few, "tools", {"name": "add"})
    hub.operate(operations.create, TOOLSET, slug="all", mode="search", patterns="*")
    hub.operate(operations.create, TOOLSET, slug="off", enabled=False, patterns="*")
    hub.operate(operations.create, TOOLSET, slug="hidden", patterns="*")
    hub.operate(operations.show_to_group_only, TOOLSET, {"slug": "hidden"}, "those who see the toolset")
    hub.settle()  # one that is hidden is in force before its group is


def at(speaker: Speaker, slug: str, method: str, params: dict[str, Any] | None = None) -> httpx2.Response:
    params = params or {}
    return speaker.post(speaker.modern_body(method, params), f"/mcp/s/{slug}", **speaker.modern_headers(method, params))


def call(speaker: Speaker, slug: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    answer = at(speaker, slug, "tools/call", {"name": name, "arguments": arguments})
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result


pytestmark = pytest.mark.usefixtures("toolsets")


def test_a_toolset_lists_its_own_tools_only(speaker: Speaker) -> None:
    listed = at(speaker, "few", "tools/list").json()["result"]["tools"]
    assert [tool["name"] for tool in listed] == ["add", "echo"]
    assert at(speaker, "few", "server/discover").json()["result"]["instructions"] == "For sums."
    assert call(speaker, "few", "add", {"a": 1, "b": 2})["structuredContent"] == {"result": 3}


def test_a_tool_outside_is_not_there(speaker: Speaker, hub: Hub) -> None:
    answer = at(speaker, "few", "tools/call", {"name": "current_time", "arguments": {}})
    assert error_of(answer)["data"]["errorCode"] == "tool_not_found"
    assert hub.row(client=speaker.name)["error_code"] == "tool_not_found"


@pytest.mark.parametrize("slug", ["hidden", "off", "nowhere", "a b", "..", "%2e%2e"])
def test_what_is_hidden_off_or_missing_answers_alike(speaker: Speaker, slug: str) -> None:
    if slug in ("..", "a b"):
        assert speaker.post({}, f"/mcp/s/{slug}").status_code == (404 if slug == "a b" else 400)
        return
    missing = at(speaker, "missing", "tools/list")
    answer = at(speaker, slug, "tools/list")
    assert (answer.status_code, unmarked(error_of(answer))) == (404, unmarked(error_of(missing)))


def test_a_session_at_a_toolset_sees_the_same(speaker: Speaker) -> None:
    path = "/mcp/s/few"
    told = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": speaker.name, "version": "1"}}
    opened = speaker.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": told}, path)
    assert opened.json()["result"]["instructions"] == "For sums."
    session = opened.headers["mcp-session-id"]
    listed = speaker.post({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, path, mcp_session_id=session)
    assert [tool["name"] for tool in listed.json()["result"]["tools"]] == ["add", "echo"]


def test_a_cursor_of_another_address_is_refused(speaker: Speaker) -> None:
    answer = at(speaker, "few", "tools/list", {"cursor": "AAAA"})
    assert error_of(answer)["data"]["errorCode"] == "invalid_params"


def test_a_searched_toolset_shows_three_tools(speaker: Speaker) -> None:
    listed = at(speaker, "all", "tools/list").json()["result"]["tools"]
    assert [tool["name"] for tool in listed] == ["call_tool", "describe_tool", "search_tools"]


def test_what_is_searched_is_described_and_called_under_its_own_name(speaker: Speaker, hub: Hub) -> None:
    found = call(speaker, "all", "search_tools", {"query": "add numbers"})["structuredContent"]
    assert found["tools"][0]["name"] == "add"
    assert len(found["tools"]) <= 10
    described = call(speaker, "all", "describe_tool", {"name": "add"})["structuredContent"]
    assert described["inputSchema"]["required"] == ["a", "b"]
    result = call(speaker, "all", "call_tool", {"name": "add", "arguments": {"a": 2, "b": 2}})
    assert result["structuredContent"] == {"result": 4}
    rows = until(lambda: [row for row in [hub.rows(client=speaker.name)] if len(row) == 3])[0]
    assert [row["tool_name"] for row in rows] == ["add", "describe_tool", "search_tools"]
    assert rows[0]["arguments"] == {"a": 2, "b": 2}


def test_who_calls_what_a_searched_toolset_has_not_is_sent_to_its_search(speaker: Speaker) -> None:
    wrapped = {"name": "call_tool", "arguments": {"name": "nowhere"}}
    for params in (wrapped, {"name": "nowhere", "arguments": {}}):
        words = at(speaker, "all", "tools/call", params).json()["error"]["message"]
        assert words == 'There is no tool named "nowhere". Find the names with search_tools.'


def test_wrapped_arguments_are_checked_as_usual(speaker: Speaker, hub: Hub) -> None:
    result = call(speaker, "all", "call_tool", {"name": "add", "arguments": {"a": "two"}})
    assert result["isError"] is True
    row = hub.row(client=speaker.name)
    assert (row["tool_name"], row["error_code"]) == ("add", "invalid_arguments")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "invalid_arguments"),
        ({"name": 5}, "invalid_arguments"),
        ({"name": "add", "more": 1}, "invalid_arguments"),
        ({"name": "call_tool", "arguments": {"name": "add"}}, "execution_error"),
    ],
)
def test_a_malformed_wrapping_is_refused_as_what_it_is(
    speaker: Speaker, hub: Hub, arguments: dict[str, Any], code: str
) -> None:
    assert call(speaker, "all", "call_tool", arguments)["isError"] is True
    row = hub.row(client=speaker.name)
    assert (row["tool_name"], row["error_code"]) == ("call_tool", code)


def test_search_gives_ten_and_at_most_twenty_five(speaker: Speaker) -> None:
    found = call(speaker, "all", "search_tools", {"query": "test tool the a of"})["structuredContent"]
    assert len(found["tools"]) == 10 < found["found"]
    assert call(speaker, "all", "search_tools", {"query": "tool", "limit": 26})["isError"] is True


def test_the_sdk_calls_through_a_toolset_in_both_eras_and_over_sse(hub: Hub, keys: dict[str, str]) -> None:
    headers = {"Authorization": f"Bearer {keys['wire']}"}

    async def through(client: Client) -> None:
        async with client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            assert tools == ["add", "echo"]
            result = await client.call_tool("add", {"a": 20, "b": 22})
            assert json.loads(result.content[0].text) == 42  # type: ignore[union-attr]

    async def run() -> None:
        for mode in ("legacy", "auto"):
            async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_SECONDS) as http:
                address = f"{hub.url}/mcp/s/few"
                await through(Client(streamable_http_client(address, http_client=http), mode=mode))
        address = f"{hub.url}/mcp/s/few/sse"
        await through(Client(sse_client(address, headers=headers, timeout=PATIENCE_SECONDS), mode="legacy"))

    anyio.run(run)


def test_instructions_and_the_search_tool_name_what_there_is_for_this_caller(speaker: Speaker, hub: Hub) -> None:
    hub.operate(operations.create, TOOLSET, slug="brief", mode="search", description="For sums.", patterns="add chore")

    def overviews() -> list[str]:
        answer = at(speaker, "brief", "tools/list")
        if answer.status_code != 200:
            return []
        search = next(tool for tool in answer.json()["result"]["tools"] if tool["name"] == "search_tools")
        return [search["description"], at(speaker, "brief", "server/discover").json()["result"]["instructions"]]

    # The one that this hub's other tests called more often comes first.
    both = re.compile(r"Tools here: others \(2\): (?:add, chore|chore, add)\.")
    shown = until(lambda: [each for each in [overviews()] if both.search(str(each))])[0]
    assert shown[0].startswith("Find tools by what they do.")
    assert both.sub("", shown[1]) == "For sums.\n\n"
    hub.operate(operations.show_to_group_only, "tools_catalog.McpToolDefinition", {"name": "chore"}, "those of chores")
    try:
        until(lambda: all("Tools here: others (1): add." in words for words in overviews()))
    finally:
        hub.operate(operations.show_to_all, "tools_catalog.McpToolDefinition", {"name": "chore"})
        hub.settle()
