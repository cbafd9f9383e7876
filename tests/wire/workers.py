"""What tests of two workers repeat until both have been met."""

from __future__ import annotations

from collections.abc import Iterator

from tests.servers import Hub
from tests.wire.speech import Speaker

ENOUGH = 24
"""Connections after which each worker was asked, but for one run in eight million."""


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
