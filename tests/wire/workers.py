"""What tests of two workers repeat until both have been met."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from tests.servers import Hub
from tests.wire.remote import connect
from tests.wire.speech import Speaker, hello, request
from tests.wire.toolbox import Box

ENOUGH = 24
"""Connections after which each worker was asked, but for one run in eight million."""

WAYS = ("HTTP+SSE", "remote profile")
"""Transports whose answers go out on a stream that another worker may hold."""


def anew(speaker: Speaker) -> Speaker:
    """The same client on a new connection, which either worker may get."""
    fresh = Speaker(speaker.url, speaker.key)
    fresh.name = speaker.name
    return fresh


def attempts(pair: Hub, **of: str) -> Iterator[int]:
    """Numbers, until each worker has made a call of those rows: who accepts a connection is the kernel's choice."""
    for number in range(200):
        if number >= 4 and len({row["process_id"] for row in pair.rows(**of)}) == 2:
            return
        yield number
    raise AssertionError("One worker made all 200 calls.")


@contextlib.contextmanager
def clients_of_both(pair: Hub, speaker: Speaker, count: int) -> Iterator[list[Speaker]]:
    """Open connections of one client, of which each worker has some."""
    with contextlib.ExitStack() as stack:
        opened: list[Speaker] = []
        while len(opened) < count or len({row["process_id"] for row in pair.rows(client=speaker.name)}) < 2:
            assert len(opened) < 200, "one worker has all connections"
            opened.append(stack.enter_context(anew(speaker)))
            assert opened[-1].modern_call("echo", {"text": "here"}).status_code == 200
        yield [*opened[: count - 1], opened[-1]]  # the last may be the first of its worker


@contextlib.contextmanager
def asked(speaker: Speaker, way: str, box: Box, number: int) -> Iterator[Callable[[], str]]:
    """Ask for `hold` on a stream of its own, through either worker; give what reads its answer from the stream."""
    call = request("tools/call", {"name": "hold", "arguments": {"name": box.name}}, id=number)
    with anew(speaker) as one, anew(speaker) as other:
        if way == "remote profile":
            with connect(one) as line:
                assert line.post(call, other).status_code == 202
                yield lambda: next(str(event) for event in iter(line.hear, None) if event[2]["requestId"] == number)
        else:
            with one.streaming("GET", path="/sse", content_type=None) as (_, heard):
                path = next(heard)["endpoint"]
                other.post(hello("2024-11-05", speaker.name, id=-1), path)
                assert next(heard)["id"] == -1
                assert other.post(call, path).status_code == 202
                yield lambda: next(str(message) for message in heard if message.get("id") == number)
