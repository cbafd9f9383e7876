"""`describe_tool` with `check`: whether this caller may call tools now, and why not. Nothing is recorded or counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import operations
from tests.servers import Hub
from tests.wire import approving
from tests.wire.conftest import TOOLBOX, make_keys
from tests.wire.speech import Speaker

RULE, QUOTA, COUNT = "tools_catalog.McpPolicyRule", "invocations.McpQuota", "invocations.QuotaCount"
TOOL = "tools_catalog.McpToolDefinition"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("checked"), environment={"MCPHUB_APPS": "tests.toolbox"}, **TOOLBOX) as running:
        running.operate(operations.create, "tools_catalog.McpToolset", slug="all", mode="search", patterns="*")
        on = {"applies_to": "tool", "effect": "deny"}
        running.operate(operations.create, RULE, name="never", target="echo", condition="client.name != ''", **on)
        running.operate(operations.update, RULE, {"name": "never"}, words="Not on Saturdays.")
        running.operate(operations.create, RULE, name="sums", target="add", condition="args.a > 5", **on)
        running.operate(operations.create, RULE, name="hides", target="look", **on)
        running.operate(approving.demand, "side_by_side")
        running.operate(operations.create, QUOTA, name="once", hard_limit=1, applies_to="tool", target="count")
        running.operate(operations.change, TOOL, {"name": "current_time"}, enabled=False)
        running.operate(operations.change, TOOL, {"name": "chatter"}, calls_per_minute=1)
        running.operate(operations.show_to_group_only, TOOL, {"name": "errand"}, "others")
        running.settle()
        yield running


@pytest.fixture(scope="module")
def keys(hub: Hub) -> dict[str, str]:
    return make_keys(hub)


@pytest.fixture
def speaker(hub: Hub, keys: dict[str, str]) -> Iterator[Speaker]:
    with Speaker(hub.url, keys["wire"]) as made:
        yield made


def described(speaker: Speaker, **arguments: Any) -> dict[str, Any]:
    params = {"name": "describe_tool", "arguments": arguments}
    headers = speaker.modern_headers("tools/call", params)
    answer = speaker.post(speaker.modern_body("tools/call", params), "/mcp/s/all", **headers)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result


def checked(speaker: Speaker, *names: str) -> dict[str, Any]:
    return {each.pop("name"): each for each in described(speaker, check=names)["structuredContent"]["checked"]}


def test_one_request_says_of_each_tool_whether_it_may_be_called_and_why_not(speaker: Speaker) -> None:
    found = checked(speaker, "echo", "add", "side_by_side", "current_time")
    assert found["echo"] == {"verdict": "no", "code": "policy_denied", "why": "Not on Saturdays."}
    assert found["add"]["verdict"] == "depends"
    assert found["side_by_side"]["verdict"] == "approval"
    assert found["current_time"]["code"] == "tool_disabled"


def test_a_hidden_tool_reads_like_one_that_is_not_there(speaker: Speaker) -> None:
    found = checked(speaker, "errand", "look", "nowhere")
    assert len(found) == 3
    for name, each in found.items():
        assert each["code"] == "tool_not_found"
        assert each["why"] == f'There is no tool named "{name}". Find the names with search_tools.'


def test_a_check_counts_and_records_nothing_and_names_what_calls_have_used_up(speaker: Speaker, hub: Hub) -> None:
    for _ in range(3):
        found = checked(speaker, "count", "chatter")
        assert found == {"count": {"verdict": "yes"}, "chatter": {"verdict": "yes"}}
    assert hub.operate(operations.count, COUNT) == 0
    assert {row["tool_name"] for row in hub.rows(client=speaker.name)} == {"describe_tool"}
    assert hub.operate(operations.count, "invocations.McpApproval") == 0

    speaker.modern_call("count", {"name": "x"})
    speaker.modern_call("chatter", {"text": "x"})
    found = checked(speaker, "count", "chatter")
    assert found["count"]["code"] == "quota_reached"
    assert "The quota once of 1 call" in found["count"]["why"]
    assert found["chatter"]["code"] == "rate_limited"


def test_the_bounds_of_a_check_are_those_of_its_schema(speaker: Speaker) -> None:
    many = described(speaker, check=[f"t{number}" for number in range(50)])
    assert len(many["structuredContent"]["checked"]) == 50
    assert described(speaker, check=["x"] * 51)["isError"] is True
    assert "needs name, or check" in described(speaker)["content"][0]["text"]


def test_a_description_and_a_check_come_in_one_answer(speaker: Speaker) -> None:
    both = described(speaker, name="add", check=["add"])["structuredContent"]
    assert (both["name"], both["checked"][0]["verdict"]) == ("add", "depends")
