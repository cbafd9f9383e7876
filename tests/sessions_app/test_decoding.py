"""What comes from outside, decoded beside the event loop where it is large."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sessions_app.kit.decoding import SMALL_BYTES, Decoding
from sessions_app.protocol import errors
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.upstream.transports.reading import messages_of

LARGE = b"[" + b"1," * SMALL_BYTES + b"1]"


def test_the_event_loop_goes_on_while_a_large_text_is_decoded() -> None:
    def decode(raw: bytes) -> int:
        assert gone_on.wait(PATIENCE_SECONDS)
        return len(raw)

    async def go() -> None:
        decoding = asyncio.create_task(Decoding("test", at_once=1).decoded(LARGE, decode))
        await asyncio.sleep(0)
        gone_on.set()
        assert await decoding == len(LARGE)

    gone_on = threading.Event()
    asyncio.run(go())


def test_a_small_text_takes_no_thread() -> None:
    found = asyncio.run(Decoding("test", at_once=1).decoded(b"1", lambda raw: threading.current_thread().name))
    assert found == threading.current_thread().name


def test_of_those_that_wait_no_more_than_the_bound_are_taken() -> None:
    release = threading.Event()

    async def go() -> None:
        decoding = Decoding("test", at_once=1, most=2)
        taken = [
            asyncio.create_task(decoding.decoded(LARGE, lambda raw: release.wait(PATIENCE_SECONDS))) for _ in range(2)
        ]
        await asyncio.sleep(0)
        with pytest.raises(errors.ServerBusy):
            await decoding.decoded(LARGE, len)
        assert await decoding.decoded(b"1", len) == 1
        release.set()
        await asyncio.gather(*taken)

    asyncio.run(go())


def test_large_texts_of_one_caller_leave_room_for_anothers() -> None:
    release = threading.Event()

    async def go() -> None:
        decoding = Decoding("test", at_once=1, most=5)
        flood = [
            asyncio.create_task(decoding.decoded(LARGE, lambda raw: release.wait(PATIENCE_SECONDS), "greedy"))
            for _ in range(9)
        ]
        await asyncio.sleep(0)
        other = asyncio.create_task(decoding.decoded(LARGE, len, "other"))
        await asyncio.sleep(0)
        release.set()
        assert await other == len(LARGE)
        refused = [each for each in await asyncio.gather(*flood, return_exceptions=True) if each is not True]
        assert [type(each) for each in refused] == [errors.ServerBusy] * 5

    asyncio.run(go())


@pytest.mark.parametrize(("raw", "fails"), [(LARGE, True), (b'{"jsonrpc":"2.0","x":"%b"}' % LARGE, False)])
def test_a_large_message_of_an_upstream_is_decoded_in_a_thread_of_upstreams(raw: bytes, fails: bool) -> None:
    async def go() -> None:
        if fails:
            with pytest.raises(errors.ResultInvalid, match="no JSON-RPC"):
                await messages_of(raw)
        else:
            [message] = await messages_of(raw)
            assert message["x"] == LARGE.decode()

    asyncio.run(go())
    assert any(thread.name.startswith("mcphub-decoding-answers") for thread in threading.enumerate())
