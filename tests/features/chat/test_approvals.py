"""Calls in chat completions that wait for a yes: the wire has no form for it, so the turn ends and says so."""

from __future__ import annotations

import uuid
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.features.chat import rows, wire
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import calls, say, script
from tests.servers import Hub

ALWAYS = [{"type": "mcp", "server_label": "hub", "allowed_tools": ["count"], "require_approval": "always"}]


def ask(raw: httpx2.Client, name: str, **more: Any) -> wire.Reading:
    text = script(calls(("count", {"name": name})), say("Counted."))
    body = {"model": "openai/scripted-large", "messages": [{"role": "user", "content": text}], "tools": ALWAYS, **more}
    reading = wire.read(raw, body)
    assert reading.violations == []
    return reading


def decide(raw: httpx2.Client, id_: str, **answer: Any) -> httpx2.Response:
    return raw.post(f"/approvals/{id_}", json=answer)


def demand_nothing(hub: Hub) -> None:
    """Take back what an operator demanded, for whoever shares the hub and asks next."""
    hub.operate(operations.delete, "invocations.McpToolApproval")
    hub.settle()


@pytest.mark.parametrize("stream", [False, True])
def test_a_turn_ends_and_the_next_one_makes_the_call_once(raw: httpx2.Client, hub: Hub, stream: bool) -> None:
    name = uuid.uuid4().hex
    options: dict[str, Any] = {"stream": True, "stream_options": {"include_x_mcp": True}} if stream else {}
    first = ask(raw, name, **options)
    told = (first.body_json or next(chunk for chunk in first.chunks if "x_mcp" in chunk))["x_mcp"]
    id_ = told["approval_requests"][0]["id"]
    assert (first.finish, told["stop_reason"], id_ in first.text) == ("stop", "approval_required", True)
    assert name not in str(hub.rows(tool="count"))

    assert decide(raw, id_, approve=True).json()["status"] == "approved"
    second = ask(raw, name)
    assert second.text == "Counted."
    assert raw.get(f"/approvals/{id_}").json()["status"] == "used"
    assert [row["status"] for row in hub.rows(tool="count") if row["arguments"] == {"name": name}] == ["ok"]
    assert ask(raw, name).body_json["x_mcp"]["stop_reason"] == "approval_required"


def test_a_no_is_told_to_the_model_of_the_next_turn(
    raw: httpx2.Client, hub: Hub, providers: dict[str, ScriptedProvider]
) -> None:
    """It holds for the turn that hears of it: the user of a later one may have changed his mind."""
    name = uuid.uuid4().hex
    id_ = ask(raw, name).body_json["x_mcp"]["approval_requests"][0]["id"]
    decide(raw, id_, approve=False, reason="not on Sundays")
    second = ask(raw, name)
    assert (second.text, "approval_requests" in second.body_json["x_mcp"]) == ("Counted.", False)
    assert "not on Sundays" in providers["openai"].about(name)[-1]["body"]["messages"][-1]["content"]
    [row] = [row for row in hub.rows(tool="count") if row["arguments"] == {"name": name}]
    assert (row["status"], row["error_code"]) == ("error", "execution_error")
    third = ask(raw, name).body_json["x_mcp"]
    assert third["approval_requests"][0]["id"] != id_


def test_other_arguments_have_no_approval(raw: httpx2.Client) -> None:
    id_ = ask(raw, uuid.uuid4().hex).body_json["x_mcp"]["approval_requests"][0]["id"]
    decide(raw, id_, approve=True)
    assert ask(raw, uuid.uuid4().hex).body_json["x_mcp"]["stop_reason"] == "approval_required"


def test_what_was_decided_stays_decided(raw: httpx2.Client) -> None:
    id_ = ask(raw, uuid.uuid4().hex).body_json["x_mcp"]["approval_requests"][0]["id"]
    assert decide(raw, id_, approve=False, reason="no").json()["status"] == "denied"
    assert decide(raw, id_, approve=False).status_code == 200
    changed = decide(raw, id_, approve=True)
    assert (changed.status_code, changed.json()["error"]["code"]) == (409, "approval_decided")
    assert decide(raw, id_).status_code == 400
    assert decide(raw, "mcpr_unknown", approve=True).status_code == 404


def test_an_operator_demands_more_than_the_client(raw: httpx2.Client, hub: Hub) -> None:
    never = [{"type": "mcp", "server_label": "hub", "allowed_tools": ["hold"], "require_approval": "never"}]
    hub.operate(rows.demand_approval, "hold")
    hub.settle()  # before it the call is made, and nobody lets go of it
    text = script(calls(("hold", {"name": "x"})), say("Held."))
    body = {"model": "openai/scripted-large", "messages": [{"role": "user", "content": text}], "tools": never}
    try:
        answer = raw.post("/chat/completions", json=body)
        assert answer.json()["x_mcp"]["stop_reason"] == "approval_required"
    finally:
        demand_nothing(hub)


def test_what_the_operator_demands_another_approves_and_the_client_goes_on(raw: httpx2.Client, hub: Hub) -> None:
    tools = [{**ALWAYS[0], "require_approval": "never"}]
    name = uuid.uuid4().hex
    hub.operate(rows.demand_approval, "count")
    hub.settle()
    try:
        id_ = ask(raw, name, tools=tools).body_json["x_mcp"]["approval_requests"][0]["id"]
        refused = decide(raw, id_, approve=True)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "approval_by_another")
        assert "Another person" in refused.json()["error"]["message"]
        for person in ("user:7", "user:8"):  # nobody is known to answer for the key, which a command made
            hub.operate(rows.approve_as, person, id_)
        assert raw.get(f"/approvals/{id_}").json()["status"] == "approved"
        assert ask(raw, name, tools=tools).text == "Counted."
        assert [row["status"] for row in hub.rows(tool="count") if row["arguments"] == {"name": name}] == ["ok"]
    finally:
        demand_nothing(hub)


def test_a_request_that_nobody_answered_in_time_is_over(raw: httpx2.Client, hub: Hub) -> None:
    name = uuid.uuid4().hex
    id_ = ask(raw, name).body_json["x_mcp"]["approval_requests"][0]["id"]
    hub.operate(rows.let_approval_expire, id_)
    late = decide(raw, id_, approve=True)
    assert (late.status_code, late.json()["error"]["code"]) == (409, "approval_expired")
    assert "Ask the model again" in late.json()["error"]["message"]
    assert raw.get(f"/approvals/{id_}").json()["status"] == "expired"
    again = ask(raw, name).body_json["x_mcp"]["approval_requests"][0]["id"]
    assert again != id_
    assert name not in str(hub.rows(tool="count"))


def test_a_yes_holds_for_a_time_only(raw: httpx2.Client, hub: Hub) -> None:
    name = uuid.uuid4().hex
    id_ = ask(raw, name).body_json["x_mcp"]["approval_requests"][0]["id"]
    decide(raw, id_, approve=True)
    hub.operate(rows.let_approval_expire, id_)
    assert ask(raw, name).body_json["x_mcp"]["approval_requests"][0]["id"] != id_
    assert name not in str(hub.rows(tool="count"))
