"""Calls that want a person's yes: held, answered as pending, attached to, released once, by every door and era."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire import approving
from tests.wire.conftest import TOOLBOX, make_keys
from tests.wire.speech import Speaker, late_error_of
from tests.wire.task_clients import Follower
from tests.wire.toolbox import Apart, Box

COUNT = "count"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_LIMITS": "approval_hold_seconds=0.2"}
    with Hub(tmp_path_factory.mktemp("approvals"), environment=environment, **TOOLBOX) as running:
        for tool in ("count", "hold", "errand"):
            running.operate(approving.demand, tool)
        running.settle()
        yield running


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that holds a call until somebody has decided."""
    environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_LIMITS": "approval_hold_seconds=120"}
    with Hub(tmp_path_factory.mktemp("patient"), environment=environment, **TOOLBOX) as running:
        running.operate(approving.demand, COUNT)
        running.settle()
        yield running


@pytest.fixture(scope="module")
def keys(hub: Hub) -> dict[str, str]:
    return make_keys(hub)


@pytest.fixture
def speaker(hub: Hub, keys: dict[str, str]) -> Iterator[Speaker]:
    with Speaker(hub.url, keys["wire"]) as made:
        yield made


def approval_of(result: dict[str, Any]) -> str:
    told = result["_meta"]["mcphub/approval"]
    assert told["status"] == "pending"
    assert not result.get("isError")
    return str(told["approvalId"])


def test_a_call_without_its_yes_is_answered_as_pending_and_does_not_run(speaker: Speaker, hub: Hub, box: Box) -> None:
    result = speaker.modern_call(COUNT, {"name": box.name}).json()["result"]
    id_ = approval_of(result)
    assert "send exactly the same call again" in result["content"][0]["text"]
    assert id_ in result["content"][0]["text"]
    assert not box.has("counted")
    row = hub.row(client=speaker.name)
    assert (row["status"], row["tool_name"]) == ("ok", COUNT)
    assert row["result"]["_meta"]["mcphub/approval"]["approvalId"] == id_


def test_retries_attach_and_after_the_yes_the_call_runs_once(speaker: Speaker, hub: Hub, box: Box) -> None:
    call = {"name": box.name}
    first, again = (approval_of(speaker.modern_call(COUNT, call).json()["result"]) for _ in range(2))
    assert first == again
    assert hub.operate(approving.decide, first, True) == "approved"
    made = speaker.modern_call(COUNT, call).json()["result"]
    assert made["content"][0]["text"] == "call number 1"
    repeated = speaker.modern_call(COUNT, call).json()["result"]
    assert repeated["content"][0]["text"] == "call number 1"
    assert repeated["_meta"]["mcphub/duplicateOf"] == made["_meta"]["mcphub/invocationId"]
    assert box.times("counted") == 1
    until(lambda: hub.operate(approving.row, first)["status"] == "used")


def test_in_a_session_too(speaker: Speaker, hub: Hub, box: Box) -> None:
    session = speaker.open_session()
    id_ = approval_of(speaker.call(session, COUNT, {"name": box.name}).json()["result"])
    hub.operate(approving.decide, id_, True)
    made = speaker.call(session, COUNT, {"name": box.name}).json()["result"]
    assert made["content"][0]["text"] == "call number 1"


def test_many_retries_at_once_run_the_call_once(speaker: Speaker, hub: Hub, box: Box) -> None:
    call = {"name": box.name}
    hub.operate(approving.decide, approval_of(speaker.modern_call(COUNT, call).json()["result"]), True)
    racing = [Apart(lambda: speaker.modern_call(COUNT, call)) for _ in range(8)]
    texts = {each.answer().json()["result"]["content"][0]["text"] for each in racing}
    assert texts == {"call number 1"}
    assert box.times("counted") == 1


def test_a_denied_call_tells_the_model_why_and_asks_nobody_again(speaker: Speaker, hub: Hub, box: Box) -> None:
    id_ = approval_of(speaker.modern_call(COUNT, {"name": box.name}).json()["result"])
    hub.operate(approving.decide, id_, False, reason="Not on a Friday.")
    for _ in range(2):
        result = speaker.modern_call(COUNT, {"name": box.name}).json()["result"]
        assert result["isError"]
        assert "Not on a Friday." in result["content"][0]["text"]
    assert not box.has("counted")


def test_other_arguments_are_another_question(speaker: Speaker, hub: Hub, box: Box) -> None:
    id_ = approval_of(speaker.modern_call(COUNT, {"name": box.name}).json()["result"])
    hub.operate(approving.decide, id_, True)
    assert approval_of(speaker.modern_call(COUNT, {"name": f"{box.name}2"}).json()["result"]) != id_


def test_another_callers_yes_is_no_yes(speaker: Speaker, keys: dict[str, str], hub: Hub, box: Box) -> None:
    id_ = approval_of(speaker.modern_call(COUNT, {"name": box.name}).json()["result"])
    hub.operate(approving.decide, id_, True)
    with Speaker(hub.url, keys["other"]) as other:
        assert approval_of(other.modern_call(COUNT, {"name": box.name}).json()["result"]) != id_


def test_edited_arguments_are_called_with_and_both_are_on_record(speaker: Speaker, hub: Hub, box: Box) -> None:
    id_ = approval_of(speaker.modern_call(COUNT, {"name": "unwanted"}).json()["result"])
    assert hub.operate(approving.decide, id_, True, arguments={"name": 7}) == "arguments"
    assert hub.operate(approving.decide, id_, True, arguments={"name": box.name}) == "approved"
    speaker.modern_call(COUNT, {"name": "unwanted"})
    assert box.times("counted") == 1
    row = hub.operate(approving.row, id_)
    assert (row["arguments"], row["edited"]) == ({"name": "unwanted"}, {"name": box.name})


def test_who_asked_cannot_approve(speaker: Speaker, hub: Hub, box: Box) -> None:
    id_ = approval_of(speaker.modern_call(COUNT, {"name": box.name}).json()["result"])
    principal = hub.row(client=speaker.name)["principal"]
    assert hub.operate(approving.decide, id_, True, by=principal) == "own"
    assert id_ in hub.operate(approving.waiting, COUNT)


def test_an_expired_question_is_asked_anew(speaker: Speaker, hub: Hub, box: Box) -> None:
    id_ = approval_of(speaker.modern_call(COUNT, {"name": box.name}).json()["result"])
    hub.operate(approving.let_expire, id_)
    assert hub.operate(approving.row, id_)["status"] == "expired"
    assert hub.operate(approving.decide, id_, True) == "expired"
    assert approval_of(speaker.modern_call(COUNT, {"name": box.name}).json()["result"]) != id_


def test_an_idempotency_key_of_another_waiting_call_is_refused(speaker: Speaker, hub: Hub, box: Box) -> None:
    meta = {"mcphub/idempotencyKey": box.name}
    approval_of(speaker.modern_call(COUNT, {"name": box.name}, **meta).json()["result"])
    answer = speaker.modern_call(COUNT, {"name": f"{box.name}-"}, **meta).json()
    assert answer["error"]["data"]["errorCode"] == "duplicate_request"


def test_an_idempotency_key_repeats_the_call_longer_than_its_approval_lasts(
    speaker: Speaker, hub: Hub, box: Box
) -> None:
    call, meta = {"name": box.name}, {"mcphub/idempotencyKey": box.name}
    id_ = approval_of(speaker.modern_call(COUNT, call, **meta).json()["result"])
    hub.operate(approving.decide, id_, True)
    made = speaker.modern_call(COUNT, call, **meta).json()["result"]
    hub.operate(approving.let_expire, id_)
    repeated = speaker.modern_call(COUNT, call, **meta).json()["result"]
    assert repeated["_meta"]["mcphub/duplicateOf"] == made["_meta"]["mcphub/invocationId"]
    assert approval_of(speaker.modern_call(COUNT, call).json()["result"]) != id_  # without the key it is another call
    assert box.times("counted") == 1


def test_a_grant_lets_further_calls_run(speaker: Speaker, hub: Hub, box: Box) -> None:
    hub.operate(approving.demand, "hold")
    box.release()
    id_ = approval_of(speaker.modern_call("hold", {"name": box.name}).json()["result"])
    hub.operate(approving.decide, id_, True, grant="hour")
    for _ in range(2):
        assert "mcphub/approval" not in speaker.modern_call("hold", {"name": box.name}).json()["result"]["_meta"]
    assert box.times("began") == 2


def test_over_rest_keys_read_approvals_and_decide_none(speaker: Speaker, hub: Hub, box: Box) -> None:
    id_ = approval_of(speaker.modern_call(COUNT, {"name": box.name}).json()["result"])
    with httpx2.Client(
        base_url=hub.url, headers={"authorization": f"Bearer {hub.key}"}, timeout=PATIENCE_SECONDS
    ) as rest:
        found = rest.get(f"/api/approvals/{id_}/")
        assert found.status_code == 200, found.text
        assert (found.json()["status"], found.json()["arguments"]) == ("pending", {"name": box.name})
        assert id_ in [each["id"] for each in rest.get("/api/approvals/?status=pending").json()["results"]]
        assert rest.post(f"/api/approvals/{id_}/approve/", json={}).status_code == 403
    assert id_ in hub.operate(approving.waiting, COUNT)


def test_a_task_waits_for_its_yes(speaker: Speaker, hub: Hub, box: Box) -> None:
    follower = Follower(speaker)
    (hub.data / "toolbox").mkdir(exist_ok=True)
    box.release()
    made = follower.call("errand", name=box.name)
    assert made["status"] == "working"
    [id_] = until(lambda: hub.operate(approving.waiting, "errand"))
    assert not box.has("began")
    hub.operate(approving.decide, id_, True)
    assert follower.end(made["taskId"])["status"] == "completed"
    assert box.times("began") == 1


def test_a_call_that_waits_in_a_task_is_approved_as_it_is(speaker: Speaker, hub: Hub, box: Box) -> None:
    """Its intent is on record with these arguments, and what runs is what the record says."""
    (hub.data / "toolbox").mkdir(exist_ok=True)
    box.release()
    Follower(speaker).call("errand", name=box.name)
    [id_] = until(lambda: hub.operate(approving.waiting, "errand"))
    assert hub.operate(approving.decide, id_, True, arguments={"name": f"{box.name}-"}) == "task"
    assert hub.operate(approving.decide, id_, False) == "denied"
    assert not box.has("began")


def test_a_held_call_runs_when_somebody_says_yes(patient: Hub, tmp_path: Any) -> None:
    box = Box(patient)
    with Speaker(patient.url, make_keys(patient)["wire"]) as speaker:
        held = Apart(lambda: speaker.modern_call(COUNT, {"name": box.name}))
        [id_] = until(lambda: patient.operate(approving.waiting, COUNT))
        assert not box.has("counted")
        patient.operate(approving.decide, id_, True)
        assert held.answer().json()["result"]["content"][0]["text"] == "call number 1"


def test_a_rule_that_came_while_the_call_was_held_decides_about_it(patient: Hub) -> None:
    box = Box(patient)
    with Speaker(patient.url, make_keys(patient)["wire"]) as speaker:
        held = Apart(lambda: speaker.modern_call(COUNT, {"name": box.name}))
        [id_] = until(lambda: patient.operate(approving.waiting, COUNT))
        condition = f"has(args.name) && args.name == '{box.name}' || has(args.text) && args.text == 'probe'"
        patient.operate(operations.create, "tools_catalog.McpPolicyRule", name="late", condition=condition)
        until(lambda: speaker.modern_call("echo", {"text": "probe"}).json()["result"].get("isError"))
        patient.operate(approving.decide, id_, True)
        refused = held.answer().json()["result"]
        assert refused["isError"]
        assert patient.rows(client=speaker.name, error_code="policy_denied")[0]["policy_rule"] == "late"
        assert not box.has("counted")
        patient.operate(operations.delete, "tools_catalog.McpPolicyRule")
        patient.settle()


def test_a_rule_that_was_removed_while_the_call_was_held_still_lets_the_yes_count(patient: Hub) -> None:
    box = Box(patient)
    with Speaker(patient.url, make_keys(patient)["wire"]) as speaker:
        rule = {"effect": "ask", "condition": f"has(args.text) && args.text.startsWith('{box.name}')"}
        patient.operate(operations.create, "tools_catalog.McpPolicyRule", name="gone", **rule)
        patient.settle()
        held = Apart(lambda: speaker.modern_call("echo", {"text": box.name}))
        [id_] = until(lambda: patient.operate(approving.waiting_with, {"text": box.name}))
        patient.operate(operations.delete, "tools_catalog.McpPolicyRule")
        patient.settle()
        patient.operate(approving.decide, id_, True)
        assert held.answer().json()["result"]["content"][0]["text"] == box.name
        row = patient.rows(client=speaker.name, tool="echo")[0]
        assert (row["status"], row["policy_rule"]) == ("ok", None)


def test_a_right_that_was_taken_away_while_the_call_was_held_is_missed(patient: Hub) -> None:
    box = Box(patient)
    with Speaker(patient.url, patient.operate(operations.issue_key, "losing", ["tools:list", "tools:call"])) as speaker:
        until(lambda: speaker.modern("server/discover").status_code == 200)
        held = Apart(lambda: speaker.modern_call(COUNT, {"name": box.name}))
        [id_] = until(lambda: patient.operate(approving.waiting, COUNT))
        patient.operate(operations.update, "sessions_app.ApiKey", {"name": "losing"}, scopes=["tools:list"])
        patient.operate(approving.decide, id_, True)
        assert late_error_of(held.answer())["data"]["errorCode"] == "forbidden"
        assert not box.has("counted")
