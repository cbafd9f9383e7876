"""Calls that one process of the hub passes on to another, over the socket between them. Whole hubs: test_one_child."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sessions_app.protocol import errors
from tests.servers import free_port
from tests.tools_catalog.backends.backend_peers import ScriptedContext
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.upstream import peers, tasks
from tools_catalog.upstream.asking import Asking
from tools_catalog.upstream.link import Approval, Offer
from tools_catalog.upstream.peers import PeerPort
from tools_catalog.upstream.received_calls import NotThere
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


def over_a_port(secret: str, other_secret: str) -> Any:
    """Pass a call on to a process of another machine, which has a secret of its own or the same; give its result."""

    async def perform(slug: str, method: str, params: dict[str, Any], context: Any, offer: Offer) -> dict[str, Any]:
        await context.notifier.progress(1, 2, "half")
        return DONE

    async def run() -> Any:
        here, there = Relay(perform), Relay(perform)
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            await here.start(Path(one), "here", secret)
            await there.start(Path(other), "there", other_secret)
            await there.open_port(PeerPort("127.0.0.1", free_port(), other_secret))
            try:
                caller = Caller()
                result = await here.request(there.peer_address, "up", "tools/call", {"name": "slow"}, caller, OFFER)
                return result, caller.sent
            finally:
                await there.stop()
                await here.stop()

    return asyncio.run(run())


@pytest.mark.program
def test_machines_with_the_same_secret_pass_calls_on_by_a_port() -> None:
    assert over_a_port("one", "one") == (DONE, [("progress", 1, 2, "half")])


@pytest.mark.program
def test_a_machine_with_another_secret_is_not_heard_and_hears_nothing() -> None:
    with pytest.raises(NotThere):
        over_a_port("one", "two")


@pytest.mark.program
@pytest.mark.parametrize("shows", ["nothing", "another certificate", "no TLS"])
def test_who_lacks_the_secret_gets_no_word_out_of_the_port(shows: str) -> None:
    performed: list[str] = []

    async def perform(slug: str, *_: Any) -> dict[str, Any]:
        performed.append(slug)
        return DONE

    async def run() -> bytes:
        relay, port = Relay(perform), free_port()
        await relay.open_port(PeerPort("127.0.0.1", port, "secret"))
        context = peers.calling("guessed") if shows == "another certificate" else ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            given = None if shows == "no TLS" else context
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=given)
            request = b'{"kind": "request", "slug": "up", "method": "tools/call", "params": {}}'
            try:
                writer.write(len(request).to_bytes(4, "big") + request)
                return await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
            finally:
                writer.close()
        except OSError:  # errors of TLS among them
            return b""
        finally:
            await relay.stop()
            peers.calling.cache_clear()

    assert asyncio.run(run()) == b""
    assert performed == []
