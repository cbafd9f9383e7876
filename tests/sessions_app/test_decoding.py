"""What comes from outside, decoded beside the event loop where it is large."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sessions_app.kit.decoding import SMALL_BYTES, Decoding
from sessions_app.protocol import errors
from tools_catalog.upstream.transports import base

LARGE = b"[" + b"1," * SMALL_BYTES + b"1]"


def test_the_event_loop_goes_on_while_a_large_text_is_decoded() -> None:
    def decode(raw: bytes) -> int:
        assert gone_on.wait(10)
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
        taken = [asyncio.create_task(decoding.decoded(LARGE, lambda raw: release.wait(10))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(errors.ServerBusy):
            await decoding.decoded(LARGE, len)
        assert await decoding.decoded(b"1", len) == 1
        release.set()
        await asyncio.gather(*taken)

    asyncio.run(go())


@pytest.mark.parametrize(("raw", "fails"), [(LARGE, True), (b'{"jsonrpc":"2.0","x":"%b"}' % LARGE, False)])
def test_a_large_message_of_an_upstream_is_decoded_in_a_thread_of_upstreams(raw: bytes, fails: bool) -> None:
    async def go() -> None:
        if fails:
            with pytest.raises(errors.ResultInvalid, match="is no JSON-RPC"):
                await base.decoded(raw)
        else:
            assert (await base.decoded(raw))["x"] == LARGE.decode()

    asyncio.run(go())
    assert any(thread.name.startswith("mcphub-decoding-answers") for thread in threading.enumerate())
