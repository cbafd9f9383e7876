"""The clients of the rigs, where they read answers."""

from __future__ import annotations

import pytest

from tests.rigs.clients import Entry

RESULT = {"content": [{"type": "text", "text": "Gone."}], "isError": True, "_meta": {"mcphub/invocationId": "one"}}


@pytest.mark.parametrize(
    ("code", "answers", "refusals"),
    [("interrupted", [("one", True, "Gone.", False)], []), ("server_busy", [], ["server_busy!"])],
)
def test_an_interrupted_call_of_the_remote_profile_has_ended_and_another_error_is_asked_about_again(
    code: str, answers: list[object], refusals: list[str]
) -> None:
    entry = Entry("a", "remote")
    entry.told({"code": "tool_error", "message": "Gone.", "details": {"errorCode": code, "result": RESULT}})
    assert (entry.answers, entry.refusals) == (answers, refusals)
