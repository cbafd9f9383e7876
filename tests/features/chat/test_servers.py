"""What a client may name as a server in its `mcp` tools: the hub, a toolset, a connection, by name or address."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from mcphub.features.chat.tools.functions import function_name
from tests import operations
from tests.features.chat import rows
from tests.features.chat.conftest import ENVIRONMENT, TOOLBOX, set_up
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import calls, say, script
from tests.servers import Hub, until
from tests.upstreams.conftest import Operator, Peer
from tests.waiting import PATIENCE_SECONDS

MODEL = "openai/scripted-large"

TOOLSET = "tools_catalog.McpToolset"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, providers: dict[str, ScriptedProvider]) -> Iterator[Hub]:
    """One of its own: a connection changes what others ask the shared one."""
    folder = tmp_path_factory.mktemp("servers-hub")
    with Hub(folder, packs=["starter"], bundle=TOOLBOX, environment=ENVIRONMENT) as running:
        yield running


@pytest.fixture(scope="module")
def client(hub: Hub, providers: dict[str, ScriptedProvider]) -> Iterator[openai.OpenAI]:
    key = set_up(hub, providers)
    with openai.OpenAI(base_url=f"{hub.url}/v1", api_key=key, max_retries=0, timeout=PATIENCE_SECONDS) as made:
        yield made


@pytest.fixture(scope="module")
def far(hub: Hub, client: openai.OpenAI) -> Iterator[Peer]:
    """A connection `far`, and toolsets."""
    with Peer("sdk_v2.py", "http") as peer:
        Operator(hub).connect("far", url=peer.url)
        for slug, patterns in (("sums", "add"), ("mixed", "add far.echo"), ("hidden", "add")):
            hub.operate(operations.create, TOOLSET, slug=slug, patterns=patterns)
        hub.operate(operations.create, TOOLSET, slug="finder", mode="search", patterns="add far.* shout")
        hub.operate(operations.show_to_group_only, TOOLSET, {"slug": "hidden"}, "Others")
        until(lambda: refusal(client, "nobody").endswith("Known: hub, far, finder, mixed, sums."))
        yield peer


def server(label: str, **more: Any) -> dict[str, Any]:
    return {"type": "mcp", "server_label": label, "require_approval": "never", **more}


def refusal(client: openai.OpenAI, label: str, **more: Any) -> str:
    with pytest.raises(openai.APIStatusError) as refused:
        listed(client, server(label, **more))
    return str(refused.value.body["message"])  # type: ignore[index]


def listed(client: openai.OpenAI, *servers: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """The servers of an answer, and the tools that it lists of each."""
    response = client.responses.create(model=MODEL, input=script(say("x")), tools=list(servers))  # type: ignore[arg-type]
    items = [item for item in response.output if item.type == "mcp_list_tools"]
    return [(item.server_label, sorted(tool.name for tool in item.tools)) for item in items]


def test_a_connection_is_known_by_its_name_and_its_address(client: openai.OpenAI, far: Peer) -> None:
    [(label, tools)] = listed(client, server("far"))
    assert label == "far"
    assert {name.partition(".")[0] for name in tools} == {"far"}
    assert "far.echo" in tools
    assert listed(client, server("theirs", server_url=f"{far.url}/")) == [("theirs", tools)]


def test_a_toolset_is_known_by_its_name_and_its_address(client: openai.OpenAI, far: Peer, hub: Hub) -> None:
    assert listed(client, server("sums")) == [("sums", ["add"])]
    assert listed(client, server("mine", server_url=f"{hub.url}/mcp/s/mixed")) == [("mine", ["add", "far.echo"])]
    assert "There is no tool 'count' of sums" in refusal(client, "sums", allowed_tools=["count"])


def test_a_toolset_for_others_is_as_good_as_none(client: openai.OpenAI, far: Peer) -> None:
    assert "No server is known as 'hidden'" in refusal(client, "hidden")


def test_several_servers_keep_their_tools_apart(client: openai.OpenAI, far: Peer, hub: Hub) -> None:
    assert listed(client, server("sums"), server("far", allowed_tools=["far.echo"])) == [
        ("sums", ["add"]),
        ("far", ["far.echo"]),
    ]
    steps = [calls(("add", {"a": 2, "b": 3}), (function_name("far.echo"), {"text": "over there"})), say("Both.")]
    response = client.responses.create(
        model=MODEL,
        input=script(*steps),
        tools=[server("sums"), server("far")],  # type: ignore[list-item]
    )
    made = [item for item in response.output if item.type == "mcp_call"]
    assert {(each.server_label, each.name, each.output.partition("\n")[0]) for each in made} == {
        ("sums", "add", "5"),
        ("far", "far.echo", "over there"),
    }


def test_a_model_searches_a_toolset_that_offers_search(client: openai.OpenAI, far: Peer, hub: Hub) -> None:
    mark = uuid.uuid4().hex
    steps = [
        calls(("search_tools", {"query": "repeat a text"})),
        calls(("describe_tool", {"name": "far.echo"})),
        calls(("call_tool", {"name": "far.echo", "arguments": {"text": mark}})),
        say("Done."),
    ]
    response = client.responses.create(model=MODEL, input=script(*steps), tools=[server("finder")])  # type: ignore[list-item]
    listing = next(item for item in response.output if item.type == "mcp_list_tools")
    assert sorted(tool.name for tool in listing.tools) == ["call_tool", "describe_tool", "search_tools"]
    made = [item for item in response.output if item.type == "mcp_call"]
    assert [(each.server_label, each.name) for each in made] == [
        ("finder", "search_tools"),
        ("finder", "describe_tool"),
        ("finder", "far.echo"),
    ]
    assert "far.echo" in str(made[0].output)
    assert str(made[2].output).startswith(mark)
    rows = until(lambda: hub.rows(tool="far.echo", arguments=f'$.text="{mark}"'))
    assert {row["tool_name"] for row in hub.rows(turn=rows[0]["turn_id"])} == {
        "search_tools",
        "describe_tool",
        "far.echo",
    }


@pytest.mark.parametrize("offered", ["responses", "messages"])
def test_a_provider_loads_what_a_search_finds(
    offered: str, client: openai.OpenAI, far: Peer, hub: Hub, providers: dict[str, ScriptedProvider]
) -> None:
    mark, peer = uuid.uuid4().hex, providers["openai"]
    named = {"scripted-large": {}, "scripted-stubborn": {}}
    hub.operate(rows.provide, offered, "compatible", peer.url, peer.key, named, tools_offered=offered)
    until(lambda: f"{offered}/scripted-large" in {model.id for model in client.models.list()})
    steps = [
        calls(("search_tools", {"query": "repeat a text"})),
        calls(("far.echo", {"text": mark})),
        calls(("far.echo", {"text": 7})),
        say("Done."),
    ]
    asked: Any = {"model": f"{offered}/scripted-large", "input": script(*steps), "tools": [server("finder")]}
    response = client.responses.create(**asked)
    made = [item for item in response.output if item.type == "mcp_call"]
    assert [(each.server_label, each.name, bool(each.error)) for each in made] == [
        ("finder", "search_tools", False),
        ("finder", "far.echo", False),
        ("finder", "far.echo", True),  # a loaded tool's arguments are checked as ever
    ]
    assert (response.output_text, str(made[1].output).startswith(mark)) == ("Done.", True)
    recorded = until(lambda: hub.rows(tool="far.echo", arguments=f'$.text="{mark}"'))
    turn = hub.rows(turn=recorded[0]["turn_id"])
    assert sorted((row["tool_name"], row["error_code"]) for row in turn) == [
        ("far.echo", ""),
        ("far.echo", "invalid_arguments"),
        ("search_tools", ""),
    ]
    with client.responses.stream(**asked) as events:
        assert events.get_final_response().output_text == "Done."
    # A provider that refuses: the conversation goes on with three tools, also in the next request.
    wrapped = calls(("call_tool", {"name": "far.echo", "arguments": {"text": mark}}))
    asked = {"model": f"{offered}/scripted-stubborn", "tools": [server("finder")]}
    first = client.responses.create(**asked, input=script(wrapped, say("So.")))
    then = client.responses.create(**asked, input=script(say("Still.")), previous_response_id=first.id)
    assert (first.output_text, then.output_text) == ("So.", "Still.")
    [notice] = first.x_mcp["notices"]  # type: ignore[attr-defined]
    assert notice.startswith(f"{offered}/scripted-stubborn refused to load tools ({offered})")
    assert "notices" not in then.x_mcp  # type: ignore[attr-defined]


def test_a_model_checks_which_tools_it_may_call(client: openai.OpenAI, far: Peer) -> None:
    steps = [calls(("describe_tool", {"check": ["far.echo", "count"]})), say("Done.")]
    response = client.responses.create(model=MODEL, input=script(*steps), tools=[server("finder")])  # type: ignore[list-item]
    [made] = [item for item in response.output if item.type == "mcp_call"]
    mine, missing = json.loads(str(made.output))["checked"]
    assert mine == {"name": "far.echo", "verdict": "yes"}
    assert (missing["verdict"], missing["code"]) == ("no", "tool_not_found")


def test_what_a_search_does_not_reach_is_not_called(client: openai.OpenAI, far: Peer) -> None:
    steps = [calls(("call_tool", {"name": "count", "arguments": {"name": "x"}})), say("Not there.")]
    response = client.responses.create(model=MODEL, input=script(*steps), tools=[server("finder")])  # type: ignore[list-item]
    [made] = [item for item in response.output if item.type == "mcp_call"]
    assert "There is no tool 'count' to call here. Find the names with search_tools." in str(made.error)


def test_a_call_by_search_waits_for_its_approval_and_a_search_does_not(client: openai.OpenAI, far: Peer) -> None:
    mark = uuid.uuid4().hex
    steps = [
        calls(("search_tools", {"query": "repeat a text"})),
        calls(("call_tool", {"name": "far.echo", "arguments": {"text": mark}})),
        say("Done."),
    ]
    asked: Any = {"model": MODEL, "tools": [server("finder", require_approval="always")]}
    first = client.responses.create(**asked, input=script(*steps))
    [request] = [item for item in first.output if item.type == "mcp_approval_request"]
    assert (request.name, mark in request.arguments) == ("far.echo", True)
    answer: Any = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
    then = client.responses.create(**asked, previous_response_id=first.id, input=[answer])
    [made] = [item for item in then.output if item.type == "mcp_call"]
    assert (made.name, str(made.output).startswith(mark)) == ("far.echo", True)


def test_tools_of_a_searched_toolset_can_be_named(client: openai.OpenAI, far: Peer) -> None:
    assert listed(client, server("finder", allowed_tools=["add"])) == [("finder", ["add"])]


def test_calls_that_the_client_sends_again_keep_the_names_of_functions(
    client: openai.OpenAI, far: Peer, providers: dict[str, ScriptedProvider]
) -> None:
    mark = uuid.uuid4().hex
    steps = [calls((function_name("far.echo"), {"text": mark})), say("Done.")]
    asked: Any = {"model": MODEL, "store": False, "tools": [server("far")]}
    items: list[Any] = [{"role": "user", "content": script(*steps)}]
    items += client.responses.create(**asked, input=items).output
    client.responses.create(**asked, input=[*items, {"role": "user", "content": script(say("Again."))}])
    told = providers["openai"].about(mark)[-1]["body"]["messages"]
    [call] = [call for message in told for call in message.get("tool_calls") or ()]
    assert call["function"]["name"] == function_name("far.echo")


def test_chat_completions_and_questions_know_them_too(client: openai.OpenAI, far: Peer) -> None:
    steps = [calls((function_name("far.echo"), {"text": "here"})), say("Done.")]
    asked: Any = {"model": MODEL, "messages": [{"role": "user", "content": script(*steps)}]}
    answer = client.chat.completions.create(**asked, tools=[server("far")])  # type: ignore[list-item]
    assert len(answer.x_mcp["invocations"]) == 1  # type: ignore[attr-defined]
    base = str(client.base_url).removesuffix("/v1/")
    told = client.get(f"{base}/api/tools?transport=streamable-http", cast_to=object)
    assert {each["connection"] for each in told["tools"]} == {"far"}  # type: ignore[index]
