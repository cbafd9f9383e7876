"""Examples of use at a running hub: real calls give them, its searches read them, and clients do not get them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import operations
from tests.features.call_examples import operations as examples
from tests.features.fitting_results import tools as tools_of_results
from tests.servers import Hub, until
from tests.wire.speech import Speaker

pytestmark = pytest.mark.program

ASKED = "bedtime tale, long; lines"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    bundle = Path(tools_of_results.__file__).parent / "bundle.json"
    environment = {"MCPHUB_APPS": "tests.features.fitting_results"}
    with Hub(tmp_path_factory.mktemp("hub"), bundle=bundle, environment=environment) as running:
        running.operate(operations.create, "tools_catalog.McpToolset", slug="all", mode="search", patterns="*")
        running.settle()
        yield running


def call(speaker: Speaker, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    body, headers = speaker.modern_body("tools/call", params), speaker.modern_headers("tools/call", params)
    result: dict[str, Any] = speaker.post(body, "/mcp/s/all", **headers).json()["result"]
    return result


def found(speaker: Speaker, words: str) -> list[str]:
    return [each["name"] for each in call(speaker, "search_tools", {"query": words})["structuredContent"]["tools"]]


def test_words_that_led_to_a_call_find_its_tool_once_an_operator_takes_them(hub: Hub) -> None:
    key = hub.operate(operations.issue_key, "searcher", ["tools:list", "tools:call"])
    with Speaker(hub.url, key) as speaker:
        assert found(speaker, "bedtime") == []
        assert "story" in found(speaker, ASKED)
        assert call(speaker, "call_tool", {"name": "story", "arguments": {"lines": 2}}).get("isError") is not True
        assert found(speaker, "bedtime") == []
        until(lambda: hub.operate(operations.values, "invocations.McpToolInvocation", "status", tool_name="story"))
        assert hub.operate(examples.take, "story") == [ASKED]
        until(lambda: found(speaker, "bedtime") == ["story"])
        described = call(speaker, "describe_tool", {"name": "story"})
        assert "bedtime" not in str(described)
        assert "bedtime" not in speaker.modern("tools/list").text
        hub.operate(operations.delete, "call_examples.ToolExamples")
        until(lambda: found(speaker, "bedtime") == [])
