"""The calling person is asked for a yes by their own client, in both eras, where a rule lets them decide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import operations
from tests.servers import Hub, until
from tests.wire import approving
from tests.wire.conftest import TOOLBOX, make_keys
from tests.wire.input_requests import answer_to, calling, modern_call, round_of, state_of
from tests.wire.speech import Speaker, error_of
from tests.wire.toolbox import Box, text_of

RULE = "tools_catalog.McpPolicyRule"
YES = {"action": "accept", "content": {"approve": True}}
NO = {"action": "accept", "content": {"approve": False, "reason": "Too early."}}
DECLINED, CLOSED = {"action": "decline"}, {"action": "cancel"}
SURE = {"action": "accept", "content": {"sure": True}}
FIRST = {"name": "first"}
FORMS = ["2025-06-18", "2025-11-25"]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_LIMITS": "approval_hold_seconds=0.2"}
    with Hub(tmp_path_factory.mktemp("callers"), environment=environment, **TOOLBOX) as running:
        rule = {"applies_to": "tool", "effect": "ask", "target": "count agree errand", "words": "Counting costs."}
        running.operate(operations.create, RULE, name="own", ask_decider="caller", **rule)
        running.operate(approving.demand, "side_by_side")
        yield running


@pytest.fixture(scope="module")
def keys(hub: Hub) -> dict[str, str]:
    made = make_keys(hub)
    with Speaker(hub.url, made["wire"]) as speaker:
        for tool in ("count", "side_by_side"):
            until(lambda tool=tool: "mcphub/approval" in modern_call(speaker, tool, FIRST, can={}).text)
    return made


@pytest.fixture
def speaker(hub: Hub, keys: dict[str, str]) -> Iterator[Speaker]:
    with Speaker(hub.url, keys["wire"]) as made:
        yield made


@pytest.fixture
def box(hub: Hub) -> Iterator[Box]:
    (hub.data / "toolbox").mkdir(exist_ok=True)
    made = Box(hub)
    yield made
    made.release()


def asked_of(round_: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    [(key, asked)] = round_["inputRequests"].items()
    return key, asked


def approval_in(result: dict[str, Any]) -> str:
    told = result["_meta"]["mcphub/approval"]
    assert told["status"] == "pending"
    assert not result.get("isError")
    return str(told["approvalId"])


def answered(speaker: Speaker, tool: str, arguments: Any, said: dict[str, Any], asked: Any) -> Any:
    """Answer the one question of a round."""
    responses = {asked_of(round_of(asked))[0]: said}
    return modern_call(speaker, tool, arguments, inputResponses=responses, requestState=state_of(asked))


# In a session ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", FORMS)
def test_a_session_s_person_is_asked_with_the_arguments_and_their_yes_runs_the_call(
    speaker: Speaker, hub: Hub, box: Box, version: str
) -> None:
    session = speaker.open_session(version, elicitation={})
    with calling(speaker, session, "count", {"name": box.name}) as (_, heard):
        asked = next(heard)
        assert asked["method"] == "elicitation/create"
        assert "Counting costs." in asked["params"]["message"]
        assert box.name in asked["params"]["message"]
        assert not box.has("counted")
        speaker.post(answer_to(asked, YES), mcp_session_id=session)
        assert next(heard)["result"]["content"][0]["text"] == "call number 1"
    row = hub.row(client=speaker.name, method="tools/call")
    assert (row["policy_rule"], row["policy_said"], row["arguments"]) == ("own", "ask", {"name": box.name})


@pytest.mark.parametrize("version", FORMS)
@pytest.mark.parametrize(("said", "words"), [(NO, "Too early."), (DECLINED, "said no")])
def test_a_session_s_person_says_no_and_the_call_does_not_run(
    speaker: Speaker, box: Box, version: str, said: dict[str, Any], words: str
) -> None:
    session = speaker.open_session(version, elicitation={})
    with calling(speaker, session, "count", {"name": box.name}) as (_, heard):
        speaker.post(answer_to(next(heard), said), mcp_session_id=session)
        refused = next(heard)["result"]
    assert refused["isError"]
    assert words in refused["content"][0]["text"]
    again = speaker.call(session, "count", {"name": box.name}).json()["result"]  # nobody is asked twice
    assert again["isError"]
    assert not box.has("counted")


@pytest.mark.parametrize("version", FORMS)
def test_who_closes_the_form_has_not_decided_and_is_asked_again(speaker: Speaker, box: Box, version: str) -> None:
    session = speaker.open_session(version, elicitation={})
    with calling(speaker, session, "count", {"name": box.name}) as (_, heard):
        speaker.post(answer_to(next(heard), CLOSED), mcp_session_id=session)
        approval_in(next(heard)["result"])
    with calling(speaker, session, "count", {"name": box.name}) as (_, heard):
        speaker.post(answer_to(next(heard), YES), mcp_session_id=session)
        assert next(heard)["result"]["content"][0]["text"] == "call number 1"


def test_a_client_that_answers_with_an_error_leaves_the_call_waiting(speaker: Speaker, hub: Hub, box: Box) -> None:
    session = speaker.open_session(elicitation={})
    with calling(speaker, session, "count", {"name": box.name}) as (_, heard):
        failed = {"jsonrpc": "2.0", "id": next(heard)["id"], "error": {"code": -1, "message": "Nobody is here."}}
        speaker.post(failed, mcp_session_id=session)
        id_ = approval_in(next(heard)["result"])
    assert hub.operate(approving.decide, id_, True) == "approved"
    assert text_of(speaker.call(session, "count", {"name": box.name})) == "call number 1"


def test_somebody_who_decides_elsewhere_takes_the_question_back(speaker: Speaker, hub: Hub, box: Box) -> None:
    session = speaker.open_session(elicitation={})
    with calling(speaker, session, "count", {"name": box.name}) as (_, heard):
        asked = next(heard)
        (id_,) = hub.operate(approving.waiting_with, {"name": box.name})
        assert hub.operate(approving.decide, id_, True) == "approved"
        withdrawn, made = next(heard), next(heard)
    assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", asked["id"])
    assert made["result"]["content"][0]["text"] == "call number 1"
    assert box.times("counted") == 1


def test_a_client_without_forms_is_told_pending(speaker: Speaker, box: Box) -> None:
    session = speaker.open_session("2025-03-26", elicitation={})
    approval_in(speaker.call(session, "count", {"name": box.name}).json()["result"])
    approval_in(modern_call(speaker, "count", {"name": box.name}, can={"sampling": {}}).json()["result"])
    assert not box.has("counted")


def test_where_another_person_decides_the_client_is_never_asked(speaker: Speaker, box: Box) -> None:
    session = speaker.open_session(elicitation={})
    approval_in(speaker.call(session, "side_by_side", {"name": box.name}).json()["result"])
    approval_in(modern_call(speaker, "side_by_side", {"name": box.name}).json()["result"])
    assert not box.has("began")


# Without a session -------------------------------------------------------------------------------


def test_a_stateless_person_is_asked_in_a_round_of_its_own(speaker: Speaker, hub: Hub, box: Box) -> None:
    arguments = {"name": box.name}
    first = modern_call(speaker, "count", arguments)
    key, asked = asked_of(round_of(first))
    assert asked["method"] == "elicitation/create"
    assert box.name in asked["params"]["message"]
    assert not box.has("counted")
    for _ in range(2):  # a retry of the answer is no second call
        made = answered(speaker, "count", arguments, YES, first)
        assert text_of(made) == "call number 1"
    again = modern_call(speaker, "count", arguments)
    assert text_of(again) == "call number 1"
    assert again.json()["result"]["_meta"]["mcphub/duplicateOf"]
    assert box.times("counted") == 1
    assert key.startswith("mcphub_approval_")


@pytest.mark.parametrize(("said", "words"), [(NO, "Too early."), (DECLINED, "said no")])
def test_a_stateless_person_says_no(speaker: Speaker, box: Box, said: dict[str, Any], words: str) -> None:
    arguments = {"name": box.name}
    refused = answered(speaker, "count", arguments, said, modern_call(speaker, "count", arguments))
    assert refused.json()["result"]["isError"]
    assert words in text_of(refused)
    assert modern_call(speaker, "count", arguments).json()["result"]["isError"]
    assert not box.has("counted")


def test_a_stateless_person_who_closes_the_form_is_asked_again(speaker: Speaker, box: Box) -> None:
    arguments = {"name": box.name}
    approval_in(
        answered(speaker, "count", arguments, CLOSED, modern_call(speaker, "count", arguments)).json()["result"]
    )
    made = answered(speaker, "count", arguments, YES, modern_call(speaker, "count", arguments))
    assert text_of(made) == "call number 1"


def test_a_yes_that_nobody_was_asked_for_is_none(speaker: Speaker, hub: Hub, box: Box) -> None:
    arguments = {"name": box.name}
    foreseen = modern_call(speaker, "count", arguments, inputResponses={"mcphub_approval": YES})
    key, _ = asked_of(round_of(foreseen))
    other = {"name": f"{box.name}-"}
    assert asked_of(round_of(modern_call(speaker, "count", other, inputResponses={key: YES})))[0] != key
    stolen = modern_call(speaker, "count", other, inputResponses={key: YES}, requestState=state_of(foreseen))
    assert (stolen.status_code, error_of(stolen)["code"]) == (400, -32602)
    assert not box.has("counted")


def test_a_yes_of_one_approval_is_no_yes_to_the_next(speaker: Speaker, hub: Hub, box: Box) -> None:
    """The state still holds the answer when its approval is over."""
    arguments = {"name": box.name}
    first = modern_call(speaker, "count", arguments)
    (id_,) = hub.operate(approving.waiting_with, arguments)
    hub.operate(approving.let_expire, id_)
    again = answered(speaker, "count", arguments, YES, first)
    assert asked_of(round_of(again))[0] != asked_of(round_of(first))[0]
    assert not box.has("counted")


# Rounds of a call that was approved ----------------------------------------------------------------


def test_a_call_that_asks_its_client_needs_one_yes_for_all_its_rounds(speaker: Speaker, hub: Hub, box: Box) -> None:
    arguments = {"name": box.name}
    agreed = answered(speaker, "agree", arguments, YES, modern_call(speaker, "agree", arguments))
    assert asked_of(round_of(agreed))[0] == "elicitation_1"
    done = answered(speaker, "agree", arguments, SURE, agreed)
    assert text_of(done) == "accept {'sure': True}"
    assert (box.times("began"), box.times("ended")) == (2, 1)
    assert hub.operate(operations.count, "invocations.McpApproval", arguments=arguments) == 1


def test_a_round_of_an_approved_call_is_answered_once(speaker: Speaker, hub: Hub, box: Box) -> None:
    arguments = {"name": box.name}
    asked = answered(speaker, "agree", arguments, YES, modern_call(speaker, "agree", arguments))
    assert text_of(answered(speaker, "agree", arguments, SURE, asked)) == "accept {'sure': True}"
    assert text_of(answered(speaker, "agree", arguments, SURE, asked)) == "accept {'sure': True}"  # a retry
    other = {"action": "accept", "content": {"sure": False}}
    refused = answered(speaker, "agree", arguments, other, asked)
    assert error_of(refused)["data"]["errorCode"] == "duplicate_request"
    assert "answered before" in error_of(refused)["message"]
    unanswered = modern_call(speaker, "agree", arguments, requestState=state_of(asked))
    assert error_of(unanswered)["data"]["errorCode"] == "duplicate_request"
    begun = modern_call(speaker, "agree", arguments)
    assert "Go on with the answers" in error_of(begun)["message"]
    assert box.times("ended") == 1


def test_other_arguments_are_asked_anew_whatever_the_round(speaker: Speaker, box: Box) -> None:
    asked = answered(speaker, "agree", {"name": box.name}, YES, modern_call(speaker, "agree", {"name": box.name}))
    other = {"name": f"{box.name}-"}
    taken = modern_call(speaker, "agree", other, inputResponses={"elicitation_1": SURE}, requestState=state_of(asked))
    assert (taken.status_code, error_of(taken)["code"]) == (400, -32602)
    assert asked_of(round_of(modern_call(speaker, "agree", other)))[0].startswith("mcphub_approval")
    assert not box.has("ended")


def test_a_round_outlasts_the_ten_minutes_of_its_yes(speaker: Speaker, hub: Hub, box: Box) -> None:
    """The person may take as long for the tool's question as for any."""
    arguments = {"name": box.name}
    answered(speaker, "agree", arguments, YES, modern_call(speaker, "agree", arguments))
    left = hub.operate(approving.seconds_left, arguments)
    assert 600 < left <= 900


# Tasks --------------------------------------------------------------------------------------------


def test_a_task_and_a_call_share_no_yes(speaker: Speaker, hub: Hub, box: Box) -> None:
    """Each takes its yes in a way of its own, so one yes for both would make two calls."""
    box.release()
    arguments = {"name": box.name}
    approval_in(modern_call(speaker, "errand", arguments, can={}).json()["result"])
    session = speaker.open_session("2025-11-25")
    params = {"name": "errand", "arguments": arguments, "task": {"ttl": 60_000}}
    speaker.in_session(session, "tools/call", params)
    ids = until(lambda: len(found := hub.operate(approving.waiting_with, arguments)) == 2 and found)
    for id_ in ids:
        assert hub.operate(approving.decide, id_, True) == "approved"
    until(lambda: box.has("ended"))
    modern_call(speaker, "errand", arguments, can={})
    assert box.times("ended") == 2
    modern_call(speaker, "errand", arguments, can={})
    assert box.times("ended") == 2


def test_the_record_names_what_was_asked_and_answered(speaker: Speaker, hub: Hub, box: Box) -> None:
    session = speaker.open_session(elicitation={})
    with calling(speaker, session, "count", {"name": box.name}) as (_, heard):
        speaker.post(answer_to(next(heard), YES), mcp_session_id=session)
        next(heard)
    questions = hub.rows(client=speaker.name, method="elicitation/create")
    assert [row["result"]["action"] for row in questions] == ["accept"]
    row = hub.operate(approving.row_with, {"name": box.name})
    assert (row["status"], row["decided_by"]) == ("used", "wire")
