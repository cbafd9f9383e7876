"""Descriptions and packs become tools that a client calls, with credentials and audit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import operations
from tests.features.importers.graphql_schema import SCHEMA
from tests.servers import Hub, until
from tests.wire import bitbucket
from tests.wire.conftest import make_keys
from tests.wire.piped import beside
from tests.wire.remote import connect
from tests.wire.service import Answer, Asked, Service
from tests.wire.speech import Speaker, request

SERVICE = "tools_catalog.HttpService"
ANSWER_IN_TEXT = ("_diff", ".get_file", "_log", ".unapprove_pull_request", ".stop_pipeline")
"""Tools of Bitbucket that promise no data: they answer in text, or with nothing."""
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
        }
    },
}


def answer(asked: Asked) -> Answer:
    if asked.path.startswith(("/2.0/", "/rest/")):
        return bitbucket.answer(asked)
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
    with Hub(tmp_path_factory.mktemp("sources"), packs=["bitbucket", "transcript"], environment=environment) as running:
        secrets = {"tickets": "tickets-key-123456", "books": "books-key-123456", "bitbucket-dc": "server-token-123"}
        for name, value in secrets.items():
            running.operate(operations.keep_secret, name, value, service.url, f"service:{name}", "headers.*")
        for slug, path in (("bitbucket", "/2.0"), ("bitbucket-dc", "/rest")):
            running.operate(operations.update, SERVICE, {"slug": slug}, url=service.url + path)
        running.settle()
        yield running


@pytest.fixture(scope="module")
def caller(own: Hub) -> Iterator[Speaker]:
    with Speaker(own.url, make_keys(own)["wire"]) as made:
        yield made


def test_openapi_from_an_address_to_an_audited_call(own: Hub, caller: Speaker, service: Service) -> None:
    words = ["catalog", "import", "openapi", f"{service.url}/openapi.json", "--service", "tickets"]
    assert own.command(*words, "--enable").startswith("1 new, 0 changed")
    until(lambda: "tickets_read" in caller.modern("tools/list").text)
    result = caller.modern_call("tickets_read", {"n": "a/b c"}).json()["result"]
    assert result["structuredContent"] == {"id": "/v1/tickets/a%2Fb%20c"}
    refused = caller.modern_call("tickets_read", {"n": ".."}).json()["result"]
    assert refused["isError"] is True
    rows = [row["error_code"] for row in own.rows(client=caller.name, tool="tickets_read")]
    assert rows == ["invalid_arguments", ""]


def test_graphql_from_its_endpoint_to_a_call(own: Hub, caller: Speaker, service: Service) -> None:
    words = [
        "catalog",
        "import",
        "graphql",
        f"{service.url}/graphql",
        "--service",
        "books",
        "--only",
        "query book",
        "--enable",
    ]
    assert own.command(*words).startswith("1 new")
    until(lambda: "books_book" in caller.modern("tools/list").text)
    result = caller.modern_call("books_book", {"id": "7"}).json()["result"]
    assert result["structuredContent"] == {"id": "7", "kind": "NOVEL"}
    failed = caller.modern_call("books_book", {"id": "none"}).json()["result"]
    assert failed["isError"] is True
    assert "There is no such book." in failed["content"][0]["text"]


def test_a_file_that_cannot_be_read_is_said(own: Hub, tmp_path: Path) -> None:
    there = tmp_path / "other.json"
    there.write_text("{")
    with pytest.raises(AssertionError, match="The document is not valid JSON"):
        own.command("catalog", "import", "openapi", str(there), "--service", "other", "--dry-run")


@pytest.mark.parametrize(("flag", "what"), [("--group", "group"), ("--toolset", "toolset")])
def test_new_tools_go_to_nobody_that_does_not_exist(own: Hub, service: Service, flag: str, what: str) -> None:
    words = ["catalog", "import", "openapi", f"{service.url}/openapi.json", "--service", "nowhere"]
    with pytest.raises(AssertionError, match=f"there is no {what} 'helprs'"):
        own.command(*words, flag, "helprs")


def listed(caller: Speaker) -> dict[str, Any]:
    return {tool["name"]: tool for tool in caller.modern("tools/list").json()["result"]["tools"]}


def test_bitbucket_says_what_is_missing_and_then_every_tool_of_the_cloud_works(
    own: Hub, caller: Speaker, service: Service
) -> None:
    missing = caller.modern_call("bitbucket.whoami").json()["result"]
    assert missing["isError"] is True
    assert "The secret bitbucket that the tool needs does not exist" in missing["content"][0]["text"]
    own.operate(operations.keep_secret, "bitbucket", "me@example.org:cloud-token-123", service.url, "service:bitbucket")
    until(lambda: not caller.modern_call("bitbucket.whoami").json()["result"].get("isError"))
    tools = {name: tool for name, tool in listed(caller).items() if name.startswith("bitbucket.")}
    assert len(tools) == 29
    for name, tool in tools.items():
        result = caller.modern_call(name, bitbucket.arguments(tool)).json()["result"]
        assert not result.get("isError"), (name, result)
        assert ("outputSchema" in tool) is not name.endswith(ANSWER_IN_TEXT), name
    merged = caller.modern_call(
        "bitbucket.merge_pull_request", bitbucket.arguments(tools["bitbucket.merge_pull_request"])
    )
    assert merged.json()["result"]["structuredContent"]["state"] == "MERGED"
    found = caller.modern_call("bitbucket.list_repositories", {"workspace": "team"}).json()["result"]
    assert found["structuredContent"]["items"][0]["main_branch"] == "main"
    assert found["structuredContent"]["more"] is False


def test_tools_of_the_data_center_register_by_type_and_version(own: Hub, caller: Speaker) -> None:
    assert not [name for name in listed(caller) if name.startswith("bitbucket_dc.")]
    own.operate(operations.update, SERVICE, {"slug": "bitbucket-dc"}, enabled=True, version="6.10")
    until(lambda: "bitbucket_dc.server" in listed(caller))
    assert "bitbucket_dc.get_file" not in listed(caller)
    refused = caller.modern_call("bitbucket_dc.get_file", {}).json()["error"]
    assert "requires version >=7.0, and bitbucket-dc has 6.10" in refused["message"]
    own.operate(operations.update, SERVICE, {"slug": "bitbucket-dc"}, version="8.19.2")
    until(lambda: "bitbucket_dc.get_file" in listed(caller))
    tools = {name: tool for name, tool in listed(caller).items() if name.startswith("bitbucket_dc.")}
    assert len(tools) == 22
    for name, tool in tools.items():
        result = caller.modern_call(name, bitbucket.arguments(tool)).json()["result"]
        assert not result.get("isError"), (name, result)
        assert ("outputSchema" in tool) is not name.endswith(ANSWER_IN_TEXT), name


def test_the_toolset_of_the_pack_holds_its_tools_only(own: Hub, caller: Speaker) -> None:
    body, headers = caller.modern_body("tools/list"), caller.modern_headers("tools/list")
    tools = caller.post(body, "/mcp/s/bitbucket", **headers).json()["result"]["tools"]
    assert tools
    assert all(tool["name"].startswith(("bitbucket.", "bitbucket_dc.")) for tool in tools)


def test_the_transcript_tool_is_there_and_refuses_what_is_no_video(own: Hub, caller: Speaker) -> None:
    tool = listed(caller)["get_transcript"]
    assert list(tool["inputSchema"]["properties"]) == ["url", "lang", "timestamps"]
    result = caller.modern_call("get_transcript", {"url": "https://example.org/"}).json()["result"]
    assert "neither the address of a YouTube video nor its id" in result["content"][0]["text"]


def test_the_transcript_tool_is_the_same_on_every_transport(own: Hub, caller: Speaker) -> None:
    ask = request("tools/call", {"name": "get_transcript", "arguments": {"url": "https://example.org/"}}, "t")

    def shown(listed: dict[str, Any]) -> dict[str, Any]:
        return next(tool for tool in listed["result"]["tools"] if tool["name"] == "get_transcript")

    session = caller.open_session()
    tool = shown(caller.in_session(session, "tools/list").json())
    told = caller.in_session(session, "tools/call", ask["params"]).json()["result"]["content"]
    with beside(own) as pipe:
        pipe.shake_hands()
        assert shown(pipe.ask(request("tools/list"))) == tool
        assert pipe.ask(ask)["result"]["content"] == told
    with connect(caller) as line:
        assert shown(line.ask(request("tools/list"))[2]) == tool
        kind, _, frame = line.ask(ask)
        assert (kind, frame["details"]["result"]["content"]) == ("error", told)
