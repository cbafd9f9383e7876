"""Workspaces at MCP's doors: who comes by one sees and calls its own and everybody's, and nothing of another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests import workspace_operations
from tests.servers import Hub, until
from tests.wire.speech import LEGACY, Speaker, error_of, hello, request, unmarked


@pytest.fixture(scope="module")
def texts(hub: Hub) -> dict[str, str]:
    made = hub.operate(workspace_operations.make, ["red", "blue"])
    hub.settle()
    return made


def at(
    speaker: Speaker, path: str, method: str, params: dict[str, Any] | None = None, **headers: str | None
) -> httpx2.Response:
    params = params or {}
    body = speaker.modern_body(method, params)
    return speaker.post(body, path, **speaker.modern_headers(method, params, **headers))


def names(speaker: Speaker, path: str = "/mcp", method: str = "tools/list", member: str = "tools") -> set[str]:
    answer = at(speaker, path, method)
    assert answer.status_code == 200, answer.text
    key = "uri" if member == "resources" else "name"
    return {each[key] for each in answer.json()["result"][member]}


def call(speaker: Speaker, name: str, text: str = "hi", path: str = "/mcp") -> httpx2.Response:
    return at(speaker, path, "tools/call", {"name": name, "arguments": {"text": text}})


@pytest.fixture
def red(hub: Hub, texts: dict[str, str]) -> Iterator[Speaker]:
    with Speaker(hub.url, texts["red"]) as made:
        yield made


@pytest.fixture
def person(hub: Hub, texts: dict[str, str]) -> Iterator[Speaker]:
    with Speaker(hub.url, texts["red person"]) as made:
        yield made


@pytest.fixture
def stranger(hub: Hub, texts: dict[str, str]) -> Iterator[Speaker]:
    with Speaker(hub.url, texts["stranger"]) as made:
        yield made


@pytest.mark.parametrize(
    ("method", "member", "own", "others"),
    [
        ("tools/list", "tools", "red.echo", "blue.echo"),
        ("prompts/list", "prompts", "red.prompt", "blue.prompt"),
        ("resources/list", "resources", "docs://red/start", "docs://blue/start"),
    ],
)
def test_lists_hold_what_is_the_workspaces_own_and_everybodys(
    red: Speaker, person: Speaker, stranger: Speaker, method: str, member: str, own: str, others: str
) -> None:
    everybodys = names(stranger, "/mcp", method, member)
    assert own not in everybodys
    assert others not in everybodys
    for speaker, path in ((red, "/mcp"), (red, "/w/red/mcp"), (person, "/mcp"), (person, "/w/red/mcp")):
        assert names(speaker, path, method, member) == everybodys | {own}


def test_lists_in_a_session_are_narrowed_too(red: Speaker) -> None:
    opened = red.post(hello(LEGACY, red.name), "/w/red/mcp")
    session = opened.headers["mcp-session-id"]
    listed = red.post(request("tools/list"), "/w/red/mcp", mcp_session_id=session).json()["result"]["tools"]
    assert {"red.echo", "echo"} <= {tool["name"] for tool in listed}
    assert "blue.echo" not in {tool["name"] for tool in listed}


def test_what_is_of_another_workspace_is_not_there(red: Speaker, stranger: Speaker, hub: Hub) -> None:
    for speaker, name in ((red, "blue.echo"), (stranger, "red.echo"), (stranger, "blue.echo")):
        refused = error_of(call(speaker, name))
        nowhere = error_of(call(speaker, name.replace("echo", "nothing")))
        assert refused["data"]["errorCode"] == "tool_not_found"
        assert unmarked(refused)["message"].replace("echo", "nothing") == unmarked(nowhere)["message"]
        assert hub.row(client=speaker.name, tool=name)["error_code"] == "tool_not_found"
    for method, params in (
        ("prompts/get", {"name": "blue.prompt"}),
        ("resources/read", {"uri": "docs://blue/start"}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "blue.prompt"}, "argument": {"name": "x", "value": ""}},
        ),
    ):
        assert "error" in at(red, "/mcp", method, params).json(), method


@pytest.mark.parametrize("path", ["/w/blue/mcp", "/w/nowhere/mcp", "/w/blue/mcp/"])
def test_the_address_of_another_workspace_answers_as_one_that_is_not_there(
    red: Speaker, person: Speaker, stranger: Speaker, path: str
) -> None:
    for speaker in (red, person, stranger):
        answer, missing = at(speaker, path, "tools/list"), at(speaker, "/w/missing/mcp", "tools/list")
        assert (answer.status_code, unmarked(error_of(answer))) == (404, unmarked(error_of(missing)))
        assert speaker.post(hello(), path).status_code == 404


def test_a_toolset_of_another_workspace_answers_as_one_that_is_not_there(red: Speaker, stranger: Speaker) -> None:
    for speaker, slug in ((red, "blue-set"), (stranger, "red-set")):
        answer, missing = at(speaker, f"/mcp/s/{slug}", "tools/list"), at(speaker, "/mcp/s/missing", "tools/list")
        assert (answer.status_code, unmarked(error_of(answer))) == (404, unmarked(error_of(missing)))
    found = at(red, "/mcp/s/red-set", "tools/call", {"name": "search_tools", "arguments": {"query": "echo"}})
    shown = {tool["name"] for tool in found.json()["result"]["structuredContent"]["tools"]}
    assert "red.echo" in shown
    assert "blue.echo" not in shown


def test_the_record_says_in_which_workspace_a_call_was_made(red: Speaker, person: Speaker, hub: Hub) -> None:
    for speaker, name, path, workspace in (
        (red, "red.echo", "/mcp", "red"),
        (red, "echo", "/mcp", "red"),  # the caller came by it
        (person, "red.echo", "/mcp", "red"),  # the tool is its own
        (person, "echo", "/w/red/mcp", "red"),  # the address is its own
        (person, "echo", "/mcp", None),
    ):
        with Speaker(hub.url, speaker.key) as one:
            assert not call(one, name, path=path).json()["result"].get("isError")
            assert hub.row(client=one.name)["workspace"] == workspace
    at(red, "/mcp", "resources/read", {"uri": "docs://red/start"})
    assert hub.row(client=red.name, method="resources/read")["workspace"] == "red"


def test_a_rule_of_a_workspace_judges_calls_of_its_tools_alone(red: Speaker, hub: Hub) -> None:
    denied = call(red, "red.echo", "no").json()["result"]
    assert denied["isError"]
    assert "red says no" in denied["content"][0]["text"]
    assert not call(red, "echo", "no").json()["result"].get("isError")
    assert hub.rows(client=red.name, error_code="policy_denied")[0]["policy_rule"] == "red-rule"


def test_rest_shows_a_key_of_the_hub_nothing_of_workspaces(red: Speaker, stranger: Speaker) -> None:
    for speaker, own in ((red, {"red.echo"}), (stranger, set())):
        found = speaker.http.get("/api/tool-definitions/", headers=speaker.headers(), params={"limit": 200}).json()
        shown = {row["name"] for row in found["results"]}
        assert {name for name in shown if name.endswith(".echo") and name[:4] in ("red.", "blue")} == own
        servers = speaker.http.get("/v0.1/servers", headers=speaker.headers()).text
        assert "blue-set" not in servers
        assert ("red-set" in servers) is bool(own)


def test_no_door_beside_django_shows_what_another_workspace_calls(texts: dict[str, str], hub: Hub) -> None:
    """`tests/mcphub/test_workspace_canaries.py` opens Django's."""
    from mcphub import routing

    streams = {path for served in routing.SERVED.values() for path in served}
    doors = sorted({*routing.CONSUMERS, *(f"{prefix}x" for prefix, _ in routing.PREFIXES)} - streams)
    assert "/metrics" in doors
    with Speaker(hub.url, texts["blue"]) as blue:
        call(blue, "blue.echo", "canary of blue")
    auditor = hub.operate(workspace_operations.auditor, "red")
    with Speaker(hub.url, auditor) as speaker:
        until(lambda: speaker.modern("server/discover").status_code == 200)
        seen = {door: speaker.http.get(door, headers=speaker.headers()) for door in doors}
    assert [door for door, answer in seen.items() if "blue" in answer.text or answer.status_code >= 500] == []
    assert seen["/metrics"].status_code == 403
    with Speaker(hub.url, hub.key) as whole:
        everything = whole.http.get("/metrics", headers=whole.headers()).text
    assert 'tool="blue.echo"' in everything  # or the walk above could not fail


def test_who_leaves_the_workspace_is_out_at_once(person: Speaker, hub: Hub) -> None:
    with Speaker(hub.url, hub.operate(workspace_operations.make, ["green"])["green person"]) as leaver:
        until(lambda: "green.echo" in at(leaver, "/w/green/mcp", "tools/list").text)
        hub.operate(workspace_operations.leave, "green-member")
        until(lambda: at(leaver, "/w/green/mcp", "tools/list").status_code == 404)
        assert "green.echo" not in names(leaver)
