"""What a call asks its client is on record beside it, and of the answer a digest: in each era, whoever asks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import operations
from tests.servers import Hub, until
from tests.wire.input_requests import ALL, NAMED, answer_to, calling, modern_call, round_of, state_of
from tests.wire.speech import Speaker
from tests.wire.toolbox import Box

SURE = {"action": "accept", "content": {"sure": True}}


def beside(hub: Hub, speaker: Speaker) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the row of the one call, and those of its questions in their order."""
    call = hub.row(client=speaker.name, method="tools/call")
    return call, hub.rows(asked_by=call["invocation_id"])[::-1]


def test_in_a_session_the_question_has_a_row_with_its_words_and_the_answers_digest(speaker: Speaker, hub: Hub) -> None:
    for _ in range(2):
        session = speaker.open_session(elicitation={})
        with calling(speaker, session, "test_elicitation", {"message": "Who?"}) as (_, heard):
            asked = next(heard)
            speaker.post(answer_to(asked, NAMED), mcp_session_id=session)
            next(heard)
    calls = hub.rows(client=speaker.name, method="tools/call")
    [first], [second] = (hub.rows(asked_by=call["invocation_id"]) for call in calls)
    assert (first["method"], first["target"], first["status"]) == ("elicitation/create", "test_elicitation", "ok")
    assert first["arguments"] == asked["params"]
    assert first["result"]["action"] == "accept"
    assert first["result"]["answer"].startswith("redacted:")
    assert first["result"] == second["result"]
    assert "ada" not in json.dumps([first["result"], first["error"]])
    assert (first["session_id"], first["principal"]) == (calls[0]["session_id"], calls[0]["principal"])


def test_sampling_and_roots_have_rows_too(speaker: Speaker, hub: Hub) -> None:
    session = speaker.open_session(**ALL)
    results = {
        "roots/list": {"roots": [{"uri": "file:///a"}]},
        "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "m"},
        "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
    }
    with calling(speaker, session, "test_input_required_result_multiple_inputs") as (_, heard):
        for asked in (next(heard), next(heard), next(heard)):
            speaker.post(answer_to(asked, results[asked["method"]]), mcp_session_id=session)
        next(heard)
    _, questions = beside(hub, speaker)
    assert {row["method"] for row in questions} == set(results)
    assert {row["status"] for row in questions} == {"ok"}


@pytest.mark.parametrize("answer", [{"error": {"code": -1, "message": "The person said no"}}, None])
def test_a_question_without_an_answer_has_a_row_with_the_reason(
    speaker: Speaker, hub: Hub, answer: dict[str, Any] | None
) -> None:
    session = speaker.open_session(elicitation={})
    with calling(speaker, session, "test_elicitation", {"message": "Who?"}, id="gone") as (_, heard):
        asked = next(heard)
        if answer is None:
            word = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "gone"}}
            speaker.post(word, mcp_session_id=session)
            assert next(heard)["method"] == "notifications/cancelled"
        else:
            speaker.post({"jsonrpc": "2.0", "id": asked["id"], **answer}, mcp_session_id=session)
        next(heard)
    _, [row] = beside(hub, speaker)
    assert (row["status"], row["error_code"]) == ("error", "cancelled" if answer is None else "execution_error")


def test_without_a_session_each_new_answer_has_a_row(speaker: Speaker, hub: Hub, box: Box) -> None:
    arguments = {"name": box.name}
    first = modern_call(speaker, "agree", arguments)
    assert round_of(first)["inputRequests"]
    modern_call(speaker, "agree", arguments, inputResponses={"elicitation_1": SURE}, requestState=state_of(first))
    done, asked = hub.rows(client=speaker.name, method="tools/call")
    assert asked["result"]["inputRequests"]
    assert hub.rows(asked_by=asked["invocation_id"]) == []
    [row] = hub.rows(asked_by=done["invocation_id"])
    assert (row["method"], row["result"]["action"]) == ("elicitation/create", "accept")
    assert row["arguments"]["message"] == asked["result"]["inputRequests"]["elicitation_1"]["params"]["message"]


def test_the_end_of_the_session_and_of_the_key_end_the_question_on_record(speaker: Speaker, hub: Hub) -> None:
    session = speaker.open_session(elicitation={})
    with calling(speaker, session, "test_elicitation", {"message": "Who?"}) as (_, heard):
        next(heard)
        assert speaker.http.delete("/mcp", headers=speaker.headers(mcp_session_id=session)).status_code == 204
        next(heard)
    assert hub.row(client=speaker.name, method="elicitation/create")["error_code"] == "execution_error"

    key = hub.operate(operations.issue_key, "asked", ["tools:call"])
    with Speaker(hub.url, key) as other:
        until(lambda: other.modern("server/discover").status_code == 200)
        session = other.open_session(elicitation={})
        with calling(other, session, "test_elicitation", {"message": "Who?"}) as (_, heard):
            next(heard)
            hub.operate(operations.revoke_key, "asked", "lost")
            row = hub.row(client=other.name, method="elicitation/create")
    assert (row["status"], row["error_code"]) == ("error", "cancelled")
