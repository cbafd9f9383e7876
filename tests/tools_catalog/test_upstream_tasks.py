"""How tasks of the core form are read that an upstream tells of. What becomes of whole calls: tests/upstreams."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from sessions_app.protocol import errors
from tools_catalog.call.context import CallInfo, ToolContextParts
from tools_catalog.upstream import core_tasks

TASK = {"taskId": "t1", "status": "working"}


SILENT = ToolContextParts(
    call=CallInfo(invocation_id="i", tool_name="t", caller_label="", caller_principal="", client_capabilities={})
)


class Upstream:
    """Answers in turn what it is given, an exception by raising it; keeps the methods that it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(method)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return cast("dict[str, Any]", answer)

    def end(self) -> dict[str, Any]:
        """Follow a task of it to its end."""
        return asyncio.run(core_tasks.CoreTaskFollower("t1", self.send, SILENT).end())


def state(status: str, **more: Any) -> dict[str, Any]:
    return {"taskId": "t1", "status": status, "pollInterval": 0, **more}


@pytest.mark.parametrize(
    ("execution", "support"),
    [
        ({"taskSupport": "required"}, "required"),
        ({"taskSupport": "optional"}, "optional"),
        ({"taskSupport": "forbidden"}, "forbidden"),
        ({"taskSupport": ["required"]}, "forbidden"),
        ("required", "forbidden"),
        (None, "forbidden"),
    ],
)
def test_what_a_tool_says_of_tasks(execution: Any, support: str) -> None:
    assert core_tasks.support_of({"name": "a", "execution": execution}) == support


def test_of_an_upstream_without_tasks_no_tool_has_any() -> None:
    kept = {"name": "a", "execution": {"taskSupport": "forbidden"}}
    assert core_tasks.without_support(kept) == kept
    assert core_tasks.without_support({"name": "a", "execution": {"taskSupport": "required"}}) == {"name": "a"}
    assert core_tasks.without_support("nonsense") == "nonsense"


def test_a_task_that_nobody_asked_for_is_no_result() -> None:
    with pytest.raises(errors.ResultInvalid, match="asked for none"):
        core_tasks.read({"task": TASK, "content": []}, asked_for=False)
    with pytest.raises(errors.ResultInvalid, match="no id"):
        core_tasks.read({"task": {}, "content": []}, asked_for=True)
    assert core_tasks.is_task(core_tasks.read({"task": TASK, "content": []}, asked_for=True))


def test_a_result_instead_of_the_task_that_was_asked_for_is_the_result() -> None:
    whole = {"content": [{"type": "text", "text": "at once"}]}
    assert core_tasks.read(whole, asked_for=True) == whole


def test_a_look_that_fails_is_taken_again() -> None:
    upstream = Upstream(
        errors.TransportError("broke"),
        state("working"),
        state("completed"),
        errors.ConnectionFailed("broke"),
        state("completed"),
        {"content": []},
    )
    assert upstream.end() == {"content": [], "resultType": "complete"}


@pytest.mark.parametrize(
    ("answers", "error", "words"),
    [
        ((state("cancelled"),), errors.UpstreamError, "cancelled"),
        ((state("resting"),), errors.ResultInvalid, "resting"),
        ((state("completed"), {}), errors.ResultInvalid, "no result"),
        ((state("completed"), {"content": "nonsense"}), errors.ResultInvalid, "content"),
        ((state("failed", statusMessage="Out of paper."), {}), errors.UpstreamError, "Out of paper"),
        ((state("input_required"), errors.UpstreamError("It is not over.")), errors.UpstreamError, "not over"),
    ],
)
def test_what_is_no_good_end_is_an_error(answers: Any, error: type[Exception], words: str) -> None:
    upstream = Upstream(*answers)
    with pytest.raises(error, match=words):
        upstream.end()
    assert "tasks/cancel" not in upstream.asked


@pytest.mark.parametrize(
    ("asked_for", "seconds"),
    [(200, 0.2), (10**400, 5.0), (-(10**400), 0.05), (float("nan"), 0.05), (float("inf"), 5.0), ("soon", 0.05)],
)
def test_a_task_is_looked_at_neither_too_often_nor_too_rarely(asked_for: Any, seconds: float) -> None:
    watch = core_tasks.CoreTaskFollower("t1", Upstream().send, SILENT)
    assert watch.pause_after(state("working", pollInterval=asked_for)) == seconds
