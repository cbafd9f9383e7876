"""Calls that one process of the hub passes on to another, over the socket between them. Whole hubs: test_one_child."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sessions_app.protocol import errors
from tests.tools_catalog.backends.backend_peers import ScriptedContext
from tools_catalog.upstream import tasks
from tools_catalog.upstream.asking import Asking
from tools_catalog.upstream.link import Approval, Offer
from tools_catalog.upstream.relay import Relay

OFFER = Offer("tool", "slow", Approval("", "", trusts=True))
DONE = {"content": [{"type": "text", "text": "done"}]}


@dataclass
class Caller(ScriptedContext):
    """A call whose client can follow tasks, if `is_possible`. Its `said` tells when it became one."""

    is_possible: bool = True
    has_begun: bool = False

    @property
    def task(self) -> Caller:  # type: ignore[override]
        return self

    async def begin(self) -> None:
        self.has_begun = True
        self.sent.append(("task",))


def relayed(tmp_path: Path, caller: Caller, *looks: dict[str, Any]) -> Any:
    """Pass a call on to a process whose upstream answers with a task; give its result. `looks` are its states."""

    async def perform(slug: str, method: str, params: dict[str, Any], context: Any, offer: Offer) -> dict[str, Any]:
        states = list(looks)

        async def send(method: str, params: dict[str, Any]) -> dict[str, Any]:
            return {"taskId": "t1", "pollIntervalMs": 0, **states.pop(0)}

        return await tasks.TaskFollower("t1", send, context, Asking()).end()

    async def run() -> Any:
        here, there = Relay(perform), Relay(perform)
        await there.start(tmp_path, "there")
        try:
            return await here.request(there.address, "up", "tools/call", {"name": "slow"}, caller, OFFER)
        finally:
            await there.stop()
            await here.stop()

    return asyncio.run(run())


@pytest.mark.program
def test_a_relayed_call_whose_upstream_answers_with_a_task_becomes_a_task_of_its_client(tmp_path: Path) -> None:
    caller = Caller()
    working = {"status": "working", "statusMessage": "half"}
    result = relayed(tmp_path, caller, working, {"status": "completed", "result": DONE})
    assert result == {**DONE, "resultType": "complete"}
    assert caller.sent == [("task",), ("progress", 1, None, "half")]


@pytest.mark.program
@pytest.mark.parametrize("follows", [True, False])
def test_an_error_that_ends_the_upstreams_task_ends_the_task_of_the_client(tmp_path: Path, follows: bool) -> None:
    failed = {"status": "failed", "error": {"code": -32050, "message": "no such ticket"}}
    with pytest.raises(errors.UpstreamError, match="no such ticket") as caught:
        relayed(tmp_path, Caller(is_possible=follows), failed)
    assert caught.value.fails_task is follows
