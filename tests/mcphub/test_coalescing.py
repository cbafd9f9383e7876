"""What is written in one turn of the event loop leaves in one piece, in order, and before the connection is closed."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from mcphub.process.coalescing import CoalescingTransport

LARGE = b"x" * 70_000


class Recorder(asyncio.Transport):
    """The end of the transports: keeps each piece that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.closed_after: int | None = None

    def write(self, data) -> None:
        assert self.closed_after is None, "written after the end"
        self.pieces.append(bytes(data))

    def close(self) -> None:
        self.closed_after = len(self.pieces)

    def is_closing(self) -> bool:
        return self.closed_after is not None

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_protocol(self, protocol) -> None: ...


def played(play) -> Recorder:
    """Have `play` write, in an event loop; give what came out within two turns after it."""

    async def scenario() -> Recorder:
        end = Recorder()
        await play(CoalescingTransport(end, asyncio.get_running_loop()), end)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return end

    return asyncio.run(scenario())


def test_the_head_and_the_body_leave_together():
    async def play(coalescing, end):
        coalescing.write(b"head ")
        coalescing.write(b"body")
        assert end.pieces == []

    assert played(play).pieces == [b"head body"]


def test_each_turn_has_its_own_piece():
    async def play(coalescing, end):
        coalescing.write(b"one")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        coalescing.write(b"two")

    assert played(play).pieces == [b"one", b"two"]


def test_much_is_not_kept_back():
    async def play(coalescing, end):
        coalescing.write(b"head ")
        coalescing.write(LARGE)
        assert end.pieces == [b"head " + LARGE]

    assert played(play).pieces == [b"head " + LARGE]


def test_what_waits_leaves_before_the_connection_is_closed():
    async def play(coalescing, end):
        coalescing.write(b"last words")
        coalescing.close()

    end = played(play)
    assert (end.pieces, end.closed_after) == ([b"last words"], 1)


def test_nothing_is_written_to_a_connection_that_was_lost():
    async def play(coalescing, end):
        coalescing.write(b"to nobody")
        end.close()

    assert played(play).pieces == []


@given(st.lists(st.one_of(st.binary(max_size=20), st.just(LARGE), st.none()), max_size=20))
def test_every_byte_leaves_in_order(writes):
    async def play(coalescing, end):
        for data in writes:
            if data is None:
                await asyncio.sleep(0)
            else:
                coalescing.write(data)

    assert b"".join(played(play).pieces) == b"".join(data for data in writes if data)
