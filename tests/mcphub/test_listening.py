"""Signs of life on the streams that a process holds."""

from __future__ import annotations

import asyncio

import pytest

from mcphub.server.listening import EVERY_LIST, HEARTBEAT, Streams
from sessions_app.caller import Caller
from sessions_app.protocol.errors import ServerBusy

INTERVAL_SECONDS = 0.02
MANY = 1_000_000
"""Messages, far more than are sent until the beats have come."""


def caller(principal: str, key_id: int | None = None) -> Caller:
    return Caller(principal=principal, label=principal, scopes=frozenset(), key_id=key_id)


def test_a_stream_that_is_never_silent_hears_beats() -> None:
    async def main() -> None:
        streams = Streams(INTERVAL_SECONDS, 1, 1)
        streams.start()
        stream = streams.open(caller("caller"), "session", EVERY_LIST)
        stream.push(b"news")
        beats = 0
        for _ in range(MANY):
            if await anext(stream) == HEARTBEAT:
                beats += 1
            else:
                stream.push(b"news")
                await asyncio.sleep(0)
            if beats == 5:
                break
        await streams.stop()
        assert beats == 5

    asyncio.run(main())


def test_who_does_not_read_is_owed_one_beat_only() -> None:
    async def main() -> None:
        streams = Streams(INTERVAL_SECONDS, 2, 2)
        streams.start()
        slow, quick = (
            streams.open(caller("caller"), "slow", EVERY_LIST),
            streams.open(caller("caller"), "quick", EVERY_LIST),
        )
        for _ in range(10):
            assert await anext(quick) == HEARTBEAT
        await streams.stop()
        assert [message async for message in slow] == [HEARTBEAT]

    asyncio.run(main())


def test_a_stream_that_is_gone_makes_room_and_is_beaten_no_more() -> None:
    async def main() -> None:
        streams = Streams(INTERVAL_SECONDS, 2, 2)
        streams.start()
        gone, stays = (
            streams.open(caller("caller"), "gone", EVERY_LIST),
            streams.open(caller("caller"), "stays", EVERY_LIST),
        )
        with pytest.raises(ServerBusy):
            streams.open(caller("caller"), "late", EVERY_LIST)
        streams.remove(gone)
        late = streams.open(caller("caller"), "late", EVERY_LIST)
        assert [await anext(stays) for _ in range(3)] == [HEARTBEAT] * 3
        assert await anext(late) == HEARTBEAT
        await streams.stop()
        assert [message async for message in gone] == []

    asyncio.run(main())


def test_a_caller_at_its_bound_leaves_room_for_others() -> None:
    async def main() -> None:
        streams = Streams(INTERVAL_SECONDS, 3, 1)
        first = streams.open(caller("greedy"), "one", EVERY_LIST)
        with pytest.raises(ServerBusy, match="Close some"):
            streams.open(caller("greedy"), "two", EVERY_LIST)
        streams.open(caller("modest"), "three", EVERY_LIST)
        streams.remove(first)
        streams.remove(first)
        streams.open(caller("greedy"), "four", EVERY_LIST)
        with pytest.raises(ServerBusy):
            streams.open(caller("greedy"), "five", EVERY_LIST)

    asyncio.run(main())


def test_only_streams_of_the_callers_named_end() -> None:
    async def main() -> None:
        streams = Streams(INTERVAL_SECONDS, 3, 3)
        gone, stays = streams.open(caller("revoked"), None, EVERY_LIST), streams.open(caller("other"), None, EVERY_LIST)
        streams.end_of({"revoked"})
        assert [message async for message in gone] == []
        assert not stays.is_closed

    asyncio.run(main())


def test_the_end_of_one_way_in_leaves_the_others_of_a_person_alone() -> None:
    async def main() -> None:
        streams = Streams(INTERVAL_SECONDS, 3, 3)
        by_key, by_token = (streams.open(each, None, EVERY_LIST) for each in (caller("user:1", 5), caller("user:1")))
        streams.end_of({"key:5"})
        assert (by_key.is_closed, by_token.is_closed) == (True, False)
        again = streams.open(caller("user:1", 6), None, EVERY_LIST)
        streams.end_opened_by({"user:1"})
        assert (again.is_closed, by_token.is_closed) == (False, True)
        streams.end_of({"user:1"})
        assert again.is_closed

    asyncio.run(main())


def test_who_wants_no_more_is_sent_nothing_that_is_queued() -> None:
    async def main() -> None:
        streams = Streams(3600, 2, 2)
        gone, closed = (
            streams.open(caller("caller"), "gone", EVERY_LIST),
            streams.open(caller("caller"), "closed", EVERY_LIST),
        )
        for stream in (gone, closed):
            stream.push(b"news")
        gone.abandon()
        closed.close()
        assert [message async for message in gone] == []
        assert [message async for message in closed] == [b"news"]

    asyncio.run(main())
