"""Programs over MCP: what they call, what they may not, and what is on record."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests import operations
from tests.features.code_programs.answering import confined
from tests.features.fitting_results import operations as sizes
from tests.servers import Hub, postgres_database, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire import approving
from tests.wire.speech import Speaker, request

pytestmark = [pytest.mark.program, confined]

RULE = "tools_catalog.McpPolicyRule"


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.rig)])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    environment = {"MCPHUB_APPS": "tests.features.code_programs", "MCPHUB_LIMITS": "approval_hold_seconds=0.2"}
    with contextlib.ExitStack() as stack:
        if request.param == "postgresql":
            environment["MCPHUB_DATABASE_URL"] = stack.enter_context(postgres_database())
        bundle = Path(__file__).parent / "bundle.json"
        yield stack.enter_context(Hub(tmp_path_factory.mktemp("hub"), bundle=bundle, environment=environment))


@pytest.fixture
def speaker(hub: Hub) -> Iterator[Speaker]:
    # A key of its own for each test: of the refusals of one caller only the first in a minute have rows of their own.
    with Speaker(hub.url, hub.operate(operations.issue_key, "own", ["tools:list", "tools:call"])) as made:
        until(lambda: made.modern("server/discover").status_code == 200)
        yield made


def run(speaker: Speaker, code: str, path: str = "/mcp", **arguments: Any) -> dict[str, Any]:
    params = {"name": "run_code", "arguments": {"code": code, **arguments}}
    answer = speaker.post(
        speaker.modern_body("tools/call", params), path, **speaker.modern_headers("tools/call", params)
    )
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result


def texts(result: dict[str, Any]) -> list[str]:
    return [block["text"] for block in result["content"]]


def failed(result: dict[str, Any]) -> str:
    assert result["isError"]
    return str(result["_meta"]["mcphub/error"]["details"].get("programCode"))


def test_each_call_of_a_program_is_on_record_under_its_row(hub: Hub, speaker: Speaker) -> None:
    code = (
        "const pages = await Promise.all([1, 2, 3].map(page => tools.list_orders({page})));\n"
        "const prices = pages.flatMap(page => page.orders).map(order => order.price);\n"
        "print(await tools.cancel_order({number: input}));\n"
        "try { await tools.cancel_order({number: 101}) } catch (e) { print(e.code, e.message) }\n"
        "return prices.reduce((one, other) => one + other);"
    )
    result = run(speaker, code, input=7)
    assert texts(result) == ["Order 7 is cancelled.\nexecution_error There is no order 101.\n", "1305"]
    assert result["_meta"]["mcphub/program"] == {"calls": 5, "failedCalls": 1}
    parent = hub.rows(tool="run_code", limit=1)[0]
    rows = hub.rows(called_by=parent["invocation_id"])
    assert sorted(row["tool_name"] for row in rows) == ["cancel_order"] * 2 + ["list_orders"] * 3
    assert {(row["principal"], row["session_id"], row["client_name"]) for row in rows} == {
        (parent["principal"], parent["session_id"], parent["client_name"])
    }
    assert [row["error_code"] for row in rows if row["status"] == "error"] == ["execution_error"]
    assert parent["called_by"] is None
    assert parent["arguments"] == {"code": code, "input": 7}


def test_a_program_gets_results_whole_that_are_cut_for_models(hub: Hub, speaker: Speaker) -> None:
    hub.operate(sizes.fit, "list_orders", most_characters=1000, tables_as_csv=True)
    plain = speaker.modern_call("list_orders", {"page": 1}).json()["result"]
    assert "mcphub/fitted" in plain["_meta"]
    assert texts(run(speaker, "return (await tools.list_orders({page: 1})).orders.length")) == ["10"]
    hub.operate(operations.delete, "fitting.ResultSize")


def test_an_sdk_client_runs_a_program(hub: Hub) -> None:
    key = f"Bearer {hub.operate(operations.issue_key, 'sdk', ['tools:list', 'tools:call'])}"
    hub.settle()

    async def asked() -> str:
        async with (
            httpx2.AsyncClient(headers={"Authorization": key}, timeout=PATIENCE_SECONDS) as http,
            Client(streamable_http_client(f"{hub.url}/mcp", http_client=http)) as client,
        ):
            result = await client.call_tool(
                "run_code", {"code": "return (await tools.list_orders({page: 2})).orders[0].number"}
            )
            return str(result.content[0].text)  # type: ignore[union-attr]

    assert anyio.run(asked) == "10"


def test_rules_approvals_and_schemas_hold_for_the_calls_of_a_program(hub: Hub, speaker: Speaker) -> None:
    hub.operate(
        operations.create, RULE, name="few", applies_to="tool", target="list_orders", condition="args.page > 40"
    )
    hub.operate(approving.demand, "cancel_order")
    hub.settle()
    code = (
        "const codes = [];\n"
        "for (const [name, args] of [['list_orders', {page: 41}], ['list_orders', {page: 'x'}], ['none', {}],\n"
        "    ['cancel_order', {number: 1}], ['run_code', {code: 'return 1'}], ['list_orders', 'text']])\n"
        "  try { codes.push(await call(name, args)) } catch (e) { codes.push(e.code) }\n"
        "return codes"
    )
    try:
        found = until(lambda: (said := json.loads(texts(run(speaker, code))[-1])) and isinstance(said[0], str) and said)
        assert found == [
            *("policy_denied", "invalid_arguments", "tool_not_found", "approval_pending"),
            *("execution_error", "invalid_arguments"),
        ]
        (waiting,) = hub.operate(approving.waiting, "cancel_order")
        assert hub.operate(approving.decide, waiting, True) == "approved"
        assert texts(run(speaker, "return await tools.cancel_order({number: 1})")) == ['"Order 1 is cancelled."']
        codes = {
            row["error_code"] for row in hub.rows(called_by=hub.rows(tool="run_code", limit=100)[1]["invocation_id"])
        }
        assert codes >= {"policy_denied", "invalid_arguments"}
    finally:
        hub.operate(operations.delete, RULE)
        hub.operate(approving.demand, "cancel_order", "never")
        hub.settle()


def test_a_program_reaches_the_tools_of_its_toolset_and_groups_alone(hub: Hub, speaker: Speaker) -> None:
    hub.operate(operations.create, "tools_catalog.McpToolset", slug="reading", patterns="list_* run_code")
    hub.operate(operations.create, "tools_catalog.McpToolset", slug="plain", patterns="list_*")
    hub.settle()
    code = (
        "try { return await tools.cancel_order({number: 1}) } "
        "catch (e) { return [e.code, (await search('order')).length] }"
    )
    found = until(lambda: _answer(speaker, "/mcp/s/reading", code))
    assert json.loads(texts(found["result"])[0]) == ["tool_not_found", 1]
    without = _answer(speaker, "/mcp/s/plain", code)
    assert without is not None
    assert "result" not in without
    hub.operate(operations.show_to_group_only, "tools_catalog.McpToolDefinition", {"name": "run_code"}, "programmers")
    hub.settle()
    try:
        until(lambda: "error" in speaker.modern_call("run_code", {"code": "return 1"}).json())
    finally:
        hub.operate(operations.show_to_all, "tools_catalog.McpToolDefinition", {"name": "run_code"})
        hub.settle()
        until(lambda: "result" in speaker.modern_call("run_code", {"code": "return 1"}).json())


def _answer(speaker: Speaker, path: str, code: str) -> dict[str, Any] | None:
    params = {"name": "run_code", "arguments": {"code": code}}
    answer = speaker.post(
        speaker.modern_body("tools/call", params), path, **speaker.modern_headers("tools/call", params)
    )
    found: dict[str, Any] = answer.json()
    return found if "result" in found or "error" in found else None


def test_a_program_that_fails_says_how_and_what_was_done(hub: Hub, speaker: Speaker) -> None:
    result = run(speaker, "print('begun'); await tools.cancel_order({number: 2}); null.x")
    assert failed(result) == "program_exception"
    assert "1 call was made, and their changes stay" in texts(result)[0]
    assert texts(result)[0].endswith("It had printed:\nbegun\n")
    assert failed(run(speaker, "let x = ;")) == "program_syntax_error"
    assert hub.rows(tool="run_code", limit=1)[0]["error_code"] == "execution_error"


def test_declarations_come_in_pages_and_by_words(speaker: Speaker) -> None:
    whole = texts(speaker.modern_call("tool_types", {}).json()["result"])[0]
    assert "cancel_order(args: { number: number }): Promise<" in whole
    assert "list_orders(args?: { page?: number }): Promise<{ orders: { number: number;" in whole
    some = texts(speaker.modern_call("tool_types", {"names": ["list_orders"]}).json()["result"])[0]
    assert "cancel_order" not in some
    assert speaker.modern_call("tool_types", {"start": 99}).json()["result"]["isError"]


def test_a_client_that_goes_ends_the_program(hub: Hub, speaker: Speaker) -> None:
    session = speaker.open_session()
    params = {"name": "run_code", "arguments": {"code": "await tools.wait_for_order()"}}
    with speaker.streaming("POST", request("tools/call", params, "gone"), mcp_session_id=session):
        until(_programs)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "gone"}}
        speaker.post(cancelled, mcp_session_id=session)
        until(lambda: not _programs())
    until(lambda: {row["error_code"] for row in hub.rows(session=session, status="error")} == {"cancelled"})


def _programs() -> list[str]:
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal() and int(each.name) != os.getpid():
            with contextlib.suppress(OSError):
                words = (each / "cmdline").read_text().split("\0")
                if any(word.endswith("features/programs/child.py") for word in words) and "launcher" not in str(words):
                    found.append(each.name)
    return found
