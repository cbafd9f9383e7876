"""Results that fit, at the doors: what clients get, what they read later, and what is on record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests import operations
from tests.features.fitting_results import operations as sizes
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import MODERN, Speaker, error_of

pytestmark = pytest.mark.program

FIELDS = "values[].{id: id, title: title}"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    bundle = Path(__file__).parent / "bundle.json"
    environment = {"MCPHUB_APPS": "tests.features.fitting_results"}
    with Hub(tmp_path_factory.mktemp("hub"), bundle=bundle, environment=environment) as running:
        running.operate(sizes.fit, "list_pulls", fields=FIELDS, most_characters=4000, fields_argument="result_fields")
        running.operate(sizes.fit, "story", most_characters=1000)
        running.settle()
        yield running


@pytest.fixture(scope="module")
def keys(hub: Hub) -> dict[str, str]:
    return {name: hub.operate(operations.issue_key, name, ["tools:list", "tools:call"]) for name in ("mine", "other")}


@pytest.fixture
def speaker(hub: Hub, keys: dict[str, str]) -> Iterator[Speaker]:
    with Speaker(hub.url, keys["mine"]) as made:
        yield made


def _listed(speaker: Speaker) -> dict[str, Any]:
    tools = speaker.modern("tools/list").json()["result"]["tools"]
    return {tool["name"]: tool for tool in tools}


def _cut(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [result] if "mcphub/fitted" in result.get("_meta", {}) else []


def call(speaker: Speaker, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = speaker.modern_call(tool, arguments)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result


def read(speaker: Speaker, uri: str) -> Any:
    answer = speaker.modern("resources/read", {"uri": uri})
    assert answer.status_code == 200, answer.text
    (content,) = answer.json()["result"]["contents"]
    return json.loads(content["text"]) if content["mimeType"] == "application/json" else content["text"]


def test_a_list_is_sent_by_the_operators_fields_with_whole_items_and_a_link_to_the_rest(speaker: Speaker) -> None:
    result = call(speaker, "list_pulls", count=500)
    shown = json.loads(result["content"][0]["text"])
    assert set(shown[0]) == {"id", "title"}
    assert [each["id"] for each in shown] == list(range(len(shown)))
    assert 50 < len(shown) < 500
    note, link = result["content"][1]["text"], result["content"][2]
    assert f"{len(shown)} of 500 items" in note
    assert FIELDS in note
    assert link["type"] == "resource_link"
    whole = read(speaker, link["uri"])
    assert len(whole["values"]) == 500
    assert whole["values"][0]["author"] == {"name": "person0", "mail": "person0@example.org"}


def test_what_is_structured_keeps_to_the_schema_or_is_left_out_with_the_reason(speaker: Speaker) -> None:
    assert "outputSchema" not in _listed(speaker)["list_pulls"]
    result = call(speaker, "list_pulls", count=2)
    assert "structuredContent" not in result
    assert "output schema" in result["_meta"]["mcphub/fitted"]["withoutStructuredContent"]
    chosen = "{values: values, total: total}"
    result = call(speaker, "list_pulls", count=2, result_fields=chosen)
    assert (result["structuredContent"]["total"], len(result["structuredContent"]["values"])) == (2, 2)
    # A client that shows its model the structured result alone shows the note, too.
    result = call(speaker, "list_pulls", count=500, result_fields=chosen)
    assert "structuredContent" not in result
    assert "no place for this note" in result["_meta"]["mcphub/fitted"]["withoutStructuredContent"]
    assert json.loads(result["content"][0]["text"])["total"] == 500


def test_a_caller_may_ask_for_fields_of_its_own(speaker: Speaker) -> None:
    result = call(speaker, "list_pulls", count=3, result_fields="values[].author.name")
    assert json.loads(result["content"][0]["text"]) == ["person0", "person1", "person2"]
    wrong = call(speaker, "list_pulls", count=3, result_fields="values[].{a: @, b: @}")
    assert "send each part of the result once" in wrong["content"][1]["text"].lower()


def test_parts_of_the_whole_are_read_by_path_range_and_search(speaker: Speaker) -> None:
    uri = call(speaker, "list_pulls", count=500)["content"][2]["uri"]
    assert [each["id"] for each in read(speaker, f"{uri}?path={quote('/values', '')}&start=498")] == [498, 499]
    (found,) = read(speaker, f"{uri}?path={quote('/values', '')}&search=person321")
    assert (found["path"], found["value"]["id"]) == ("/321", 321)
    refused = speaker.modern("resources/read", {"uri": f"{uri}?path=%2Fnowhere"})
    assert "Members there: values, total." in error_of(refused)["message"]


def test_a_text_is_sent_up_to_the_end_of_a_line(speaker: Speaker) -> None:
    result = call(speaker, "story", lines=1000)
    head = result["content"][0]["text"]
    assert head.endswith("and so it went on.\n")
    assert len(head) <= 1000
    uri = result["content"][2]["uri"]
    assert read(speaker, f"{uri}?search=Line%20777%3A") == [
        {"path": "line 778", "value": "Line 777: and so it went on."}
    ]
    assert read(speaker, f"{uri}?start=0&end=6") == "Line 0"


def test_what_fits_is_sent_as_it_is(speaker: Speaker) -> None:
    result = call(speaker, "story", lines=2)
    assert result["content"] == [{"type": "text", "text": "Line 0: and so it went on.\nLine 1: and so it went on."}]
    assert "mcphub/fitted" not in result.get("_meta", {})


def test_anothers_result_is_not_there(hub: Hub, keys: dict[str, str], speaker: Speaker) -> None:
    uri = call(speaker, "story", lines=1000)["content"][2]["uri"]
    with Speaker(hub.url, keys["other"]) as other:
        until(lambda: other.modern("server/discover").status_code == 200)
        refused = other.modern("resources/read", {"uri": uri})
        missing = other.modern("resources/read", {"uri": "mcphub://results/nowhere"})
        assert refused.status_code == missing.status_code
        one, two = error_of(refused), error_of(missing)
        assert one["code"] == two["code"]
        assert one["message"].replace(uri, "") == two["message"].replace("mcphub://results/nowhere", "")
        told = call(other, "read_result", uri=uri)
        assert told["isError"] is True
        assert "There is no such result" in told["content"][0]["text"]


@pytest.mark.parametrize("action", ["mask", "refuse"])
def test_reads_of_a_kept_result_pass_the_guardrails_of_the_moment(hub: Hub, speaker: Speaker, action: str) -> None:
    uri = call(speaker, "list_pulls", count=500)["content"][2]["uri"]
    part = f"{uri}?path={quote('/values/7/author', '')}"
    assert "person7@example.org" in json.dumps(read(speaker, part))
    fields = {"applies_to": "tool", "target": "list_pulls", "direction": "result", "action": action}
    guardrail = hub.operate(
        operations.create, "tools_catalog.McpGuardrail", name=f"mails-{action}", detectors="email", **fields
    )
    try:

        def withheld() -> bool:
            return "@example.org" not in speaker.modern("resources/read", {"uri": part}).text

        until(withheld)
        assert f"mails-{action}@" in hub.rows(client=speaker.name)[0]["guardrails"]
        # A range that begins within the address finds no part of it either.
        assert "example.org" not in speaker.modern("resources/read", {"uri": f"{part}%2Fmail&start=8"}).text
        by_tool = json.dumps(call(speaker, "read_result", uri=uri, path="/values/7/author"))
        assert "@example.org" not in by_tool
    finally:
        hub.operate(operations.delete, "tools_catalog.McpGuardrail", pk=guardrail)
        hub.settle()


def test_a_client_without_resources_reads_by_the_tool(speaker: Speaker) -> None:
    uri = call(speaker, "list_pulls", count=500)["content"][2]["uri"]
    result = call(speaker, "read_result", uri=uri, path="/values/7/author")
    assert json.loads(result["content"][0]["text"])["name"] == "person7"
    large = call(speaker, "read_result", uri=uri)
    assert len(large["content"][0]["text"]) <= 20_000
    assert "of 500 items at /values" in large["content"][1]["text"]


def test_the_record_has_what_the_client_got_and_the_digest_of_the_whole(hub: Hub, speaker: Speaker) -> None:
    result = call(speaker, "story", lines=1000)
    row = hub.row(client=speaker.name)
    assert row["result"]["content"] == result["content"]
    facts = row["result"]["_meta"]["mcphub/fitted"]
    assert facts["whole"]["characters"] > 29_000
    assert facts["whole"]["digest"].startswith("sha256:")
    assert facts["leftOut"][0]["unit"] == "characters"
    read(speaker, f"{facts['uri']}?start=0&end=6")
    row = hub.rows(client=speaker.name)[0]
    assert row["method"] == "resources/read"
    assert row["arguments"]["uri"].endswith("?start=0&end=6")
    assert "text" not in row["result"]["contents"][0]
    assert row["result"]["contents"][0]["characters"] == 6


def test_the_record_hides_what_its_rules_name_under_whichever_name_a_caller_asks_for_it(
    hub: Hub, speaker: Speaker
) -> None:
    rule = hub.operate(
        operations.create,
        "invocations.McpRedactionRule",
        tool_name="list_pulls",
        part="result",
        kind="path",
        place="$.structuredContent.values[*].author.mail",
    )
    try:
        asked = {"count": 30, "result_fields": "values[].{m: author.mail}"}

        def kept() -> str:
            assert "person7@example.org" in call(speaker, "list_pulls", **asked)["content"][0]["text"]
            return json.dumps(hub.rows(client=speaker.name)[0]["result"])

        recorded = until(lambda: [text for text in [kept()] if "@example.org" not in text])[0]
        assert "Not on record" in recorded
        uri = json.loads(recorded)["_meta"]["mcphub/fitted"]["uri"]
        assert "hides data" in call(speaker, "read_result", uri=uri)["content"][0]["text"]
        assert read(speaker, uri)["values"][7]["author"]["mail"] == "person7@example.org"
        assert "@example.org" not in json.dumps(hub.rows(client=speaker.name)[0])
    finally:
        hub.operate(operations.delete, "invocations.McpRedactionRule", pk=rule)
        hub.settle()


def test_tables_are_sent_as_csv_and_recorded_as_sent_unless_a_rule_hides_parts_of_them(
    hub: Hub, speaker: Speaker
) -> None:
    row = hub.operate(sizes.fit, "current_pulls", tables_as_csv=True)
    rule = {"tool_name": "current_pulls", "part": "result", "kind": "path"}
    made = None
    try:
        result = until(lambda: _cut(call(speaker, "current_pulls")))[0]
        table, legend = (block["text"] for block in result["content"])
        assert table.startswith('{"total":100}\n"values", 100 rows:\nid,title,body,author\n0,Change number 0,')
        assert "Tables are CSV." in legend
        assert "structuredContent" not in result
        assert result["_meta"]["mcphub/fitted"]["tables"] == "csv"
        assert table == hub.rows(client=speaker.name)[0]["result"]["content"][0]["text"]
        place = "$.structuredContent.values[*].author.mail"
        made = hub.operate(operations.create, "invocations.McpRedactionRule", place=place, **rule)

        def kept() -> str:
            assert "person7@example.org" in call(speaker, "current_pulls")["content"][0]["text"]
            return json.dumps(hub.rows(client=speaker.name)[0]["result"])

        until(lambda: [text for text in [kept()] if "@example.org" not in text and "Not on record" in text])
    finally:
        hub.operate(operations.delete, "fitting.ResultSize", pk=row)
        if made is not None:
            hub.operate(operations.delete, "invocations.McpRedactionRule", pk=made)
        hub.settle()


@pytest.mark.parametrize("mode", ["legacy", MODERN])
def test_the_official_sdk_takes_a_preview_and_reads_the_rest(
    hub: Hub, keys: dict[str, str], speaker: Speaker, mode: str
) -> None:
    async def run() -> None:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {keys['mine']}"}, timeout=PATIENCE_SECONDS) as http,
            Client(streamable_http_client(f"{hub.url}/mcp", http_client=http), mode=mode) as client,
        ):
            await client.list_tools()  # the SDK checks results against the schemas that it has seen
            result = await client.call_tool("list_pulls", {"count": 500})
            assert not result.is_error
            assert len(json.loads(result.content[0].text)) < 500
            link = result.content[2]
            read = await client.read_resource(f"{link.uri}?path=%2Fvalues&start=499")
            (last,) = json.loads(read.contents[0].text)
            assert last["id"] == 499

    anyio.run(run)


def test_a_session_of_each_revision_gets_the_preview(speaker: Speaker) -> None:
    for version in ("2024-11-05", "2025-06-18", "2025-11-25"):
        session = speaker.open_session(version)
        result = speaker.call(session, "list_pulls", {"count": 500}).json()["result"]
        assert "this is not the whole result" in result["content"][1]["text"]
        uri = re.search(r"mcphub://results/[\w-]+", result["content"][1]["text"])
        assert uri is not None
        whole = speaker.in_session(session, "resources/read", {"uri": uri[0]}).json()["result"]["contents"][0]["text"]
        assert len(json.loads(whole)["values"]) == 500


def test_a_toolset_with_prompts_and_resources_of_its_own_reads_results_too(hub: Hub, speaker: Speaker) -> None:
    hub.operate(operations.create, "tools_catalog.McpToolset", slug="few", reads="chosen", patterns="list_*")
    path = "/mcp/s/few"

    def at(method: str, params: dict[str, Any]) -> Any:
        body = speaker.modern_body(method, params)
        return speaker.post(body, path, **speaker.modern_headers(method, params))

    asked = {"name": "list_pulls", "arguments": {"count": 500}}
    result = until(lambda: [one for one in [at("tools/call", asked)] if one.status_code == 200])[0].json()["result"]
    assert at("resources/read", {"uri": result["content"][2]["uri"]}).status_code == 200


def test_of_the_bounds_of_a_tool_and_its_toolsets_the_smallest_applies_at_every_address(
    hub: Hub, speaker: Speaker
) -> None:
    hub.operate(operations.create, "tools_catalog.McpToolset", slug="short", patterns="story bulk")
    row = hub.operate(sizes.bound, 600, toolset="short")
    try:
        until(lambda: len(call(speaker, "story", lines=1000)["content"][0]["text"]) <= 600)
        assert "mcphub/fitted" in call(speaker, "bulk", lines=100)["_meta"]
        # The tool's own bound is smaller than another toolset's.
        hub.operate(operations.create, "tools_catalog.McpToolset", slug="long", patterns="list_*")
        other = hub.operate(sizes.bound, 400_000, toolset="long")
        hub.settle()
        assert len(call(speaker, "list_pulls", count=500)["content"][0]["text"]) <= 4000
        hub.operate(operations.delete, "fitting.ResultSize", pk=other)
        # Tools that come into the toolset later are bounded, too, and those that leave it no longer.
        hub.operate(operations.change, "tools_catalog.McpToolset", {"slug": "short"}, patterns="story")
        until(lambda: "mcphub/fitted" not in call(speaker, "bulk", lines=100).get("_meta", {}))
    finally:
        hub.operate(operations.delete, "fitting.ResultSize", pk=row)
        hub.settle()
    until(lambda: 600 < len(call(speaker, "story", lines=1000)["content"][0]["text"]) <= 1000)


def test_a_keys_bound_holds_for_all_its_calls_and_no_other_keys(
    hub: Hub, keys: dict[str, str], speaker: Speaker
) -> None:
    assert "outputSchema" in _listed(speaker)["current_pulls"]
    row = hub.operate(sizes.bound, 800, key="other")
    try:
        with Speaker(hub.url, keys["other"]) as other:
            (result,) = until(lambda: _cut(call(other, "current_pulls")))
            assert len(json.loads(result["content"][0]["text"])["values"]) < 100
            assert len(call(other, "story", lines=1000)["content"][0]["text"]) <= 800
            assert "outputSchema" not in _listed(other)["current_pulls"]
            assert other.modern("tools/list").json()["result"]["cacheScope"] == "private"
            part = call(other, "read_result", uri=result["_meta"]["mcphub/fitted"]["uri"], path="/values")
            assert len(part["content"][0]["text"]) <= 800
            assert "mcphub/fitted" not in part.get("_meta", {})
            assert "items at" in part["content"][1]["text"]
        assert "outputSchema" in _listed(speaker)["current_pulls"]
        assert speaker.modern("tools/list").json()["result"]["cacheScope"] == "private"
        whole = call(speaker, "current_pulls")
        assert len(whole["structuredContent"]["values"]) == 100
    finally:
        hub.operate(operations.delete, "fitting.ResultSize", pk=row)
        hub.settle()


# Doors that show definitions of tools ---------------------------------------------------------------


def _by_list(speaker: Speaker) -> dict[str, Any]:
    return _listed(speaker)["current_pulls"]


def _by_list_of_a_session(speaker: Speaker) -> dict[str, Any]:
    tools = speaker.in_session(speaker.open_session(), "tools/list").json()["result"]["tools"]
    return next(tool for tool in tools if tool["name"] == "current_pulls")


def _by_description(speaker: Speaker) -> dict[str, Any]:
    params = {"name": "describe_tool", "arguments": {"name": "current_pulls"}}
    headers = speaker.modern_headers("tools/call", params)
    answer = speaker.post(speaker.modern_body("tools/call", params), "/mcp/s/found", **headers)
    found: dict[str, Any] = answer.json()["result"]["structuredContent"]
    return found


def _by_rest(speaker: Speaker) -> dict[str, Any]:
    tools = speaker.http.get("/api/tools", headers=speaker.headers()).json()["tools"]
    found = next(tool for tool in tools if tool["name"] == "current_pulls")
    return {"outputSchema": found["output_schema"]} if found["output_schema"] is not None else {}


_DOORS = (_by_list, _by_list_of_a_session, _by_description, _by_rest)


def test_every_door_shows_output_schemas_to_the_same_keys(hub: Hub) -> None:
    names, scopes = ("whole", "bounded"), ["tools:list", "tools:call", "chat"]
    keys = {name: hub.operate(operations.issue_key, name, scopes) for name in names}
    hub.operate(operations.create, "tools_catalog.McpToolset", slug="found", mode="search", patterns="current_*")
    row = hub.operate(sizes.bound, 800, key="bounded")
    hub.settle()
    try:
        with Speaker(hub.url, keys["whole"]) as whole, Speaker(hub.url, keys["bounded"]) as bounded:
            assert [door.__name__ for door in _DOORS if "outputSchema" not in door(whole)] == []
            assert [door.__name__ for door in _DOORS if "outputSchema" in door(bounded)] == []
            assert _by_description(bounded) == {
                name: value for name, value in _by_description(whole).items() if name != "outputSchema"
            }
    finally:
        hub.operate(operations.delete, "fitting.ResultSize", pk=row)
        hub.settle()


def test_results_expire(hub: Hub, speaker: Speaker) -> None:
    uri = call(speaker, "story", lines=1000)["content"][2]["uri"]
    assert hub.operate(sizes.expire_all) == 0
    assert speaker.modern("resources/read", {"uri": uri}).status_code != 200
