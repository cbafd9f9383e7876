"""Decodes what comes from outside: small texts where they are, large ones in threads of their own.

The interpreter's lock changes hands between the steps of a decoder, so the event loop waits for one step and not for
all. Clients, upstreams and services have threads of their own: what floods one way in holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sessions_app.protocol import json
from sessions_app.protocol.errors import HubError, ServerBusy
from sessions_app.protocol.json import Json

Value = TypeVar("Value")

SMALL_BYTES = 64 * 1024
"""Below it the dearest body takes 26 ms on a busy machine, and most take less than the hop to a thread."""


class Decoding:
    """One way in. `most` texts are decoded or wait; None: whoever sends them has bounds of its own."""

    def __init__(self, name: str, *, at_once: int, most: int | None = None) -> None:
        self._name = name
        self._at_once = at_once
        self._most = most
        self._open: set[asyncio.Future[Any]] = set()
        self._threads: ThreadPoolExecutor | None = None

    async def decoded(self, raw: bytes, decode: Callable[[bytes], Value]) -> Value:
        """Give what `decode` makes of `raw`; raise what it raises, or ServerBusy where too many large ones wait."""
        if len(raw) <= SMALL_BYTES:
            return decode(raw)
        if self._most is not None and len(self._open) >= self._most:
            busy = ServerBusy("Too many large bodies wait to be decoded. Try again in a moment.")
            busy.retry_after_seconds = 1
            raise busy
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._at_once, thread_name_prefix=f"mcphub-decoding-{self._name}")
        future = asyncio.get_running_loop().run_in_executor(self._threads, decode, raw)
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        try:
            return await future
        except HubError as error:
            error.parted()
            raise
        finally:
            del future  # it keeps the error, whose frames are this one: a ring that would keep the body, see `parted`


bodies = Decoding("bodies", at_once=2, most=64)
"""What clients send."""
answers = Decoding("answers", at_once=2)
"""What upstreams and services answer, and tell."""


async def body(raw: bytes) -> Json:
    """Decode one JSON text of a client; raise ParseError, or ServerBusy where too many large ones wait."""
    return await bodies.decoded(raw, json.loads if len(raw) <= SMALL_BYTES else _large)


def _large(raw: bytes) -> Json:
    json.refuse_many(raw)
    return json.loads(raw)
