"""Decodes input from outside: small texts in place, large ones in threads of their own.

The interpreter's lock changes hands between the steps of a decoder, so the event loop waits for one step and not for
all. Clients, upstreams and services have separate threads: a flood on one side blocks no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sessions_app.kit.places import NoPlace, Places
from sessions_app.protocol import json
from sessions_app.protocol.errors import HubError, ServerBusy
from sessions_app.protocol.json import Json

Value = TypeVar("Value")

SMALL_BYTES = 64 * 1024
"""Below it the dearest body takes 26 ms on a busy machine, and most take less than the hop to a thread."""


class Decoding:
    """One way in. `most` texts are decoded or wait, in turns by caller; None: the senders have bounds."""

    def __init__(self, name: str, *, at_once: int, most: int | None = None) -> None:
        self._name = name
        self._at_once = at_once
        self._places = None if most is None else Places(at_once, most - at_once)
        self._threads: ThreadPoolExecutor | None = None

    async def decoded(self, raw: bytes, decode: Callable[[bytes], Value], caller: str = "") -> Value:
        """Return the result of `decode` for `raw`; raise its exception, or ServerBusy if too many large ones wait."""
        if len(raw) <= SMALL_BYTES:
            return decode(raw)
        await self._take(caller)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._at_once, thread_name_prefix=f"mcphub-decoding-{self._name}")
        future = asyncio.get_running_loop().run_in_executor(self._threads, decode, raw)
        if (places := self._places) is not None:
            future.add_done_callback(lambda _: places.give_back(caller))
        try:
            return await future
        except HubError as error:
            error.parted()
            raise
        finally:
            del future  # it keeps the error, whose frames are this one: a ring that would keep the body, see `parted`

    async def _take(self, caller: str) -> None:
        if self._places is None:
            return
        try:
            await self._places.take(caller)
        except NoPlace:
            busy = ServerBusy("Too many large bodies wait to be decoded. Try again in a moment.")
            busy.retry_after_seconds = 1
            raise busy from None


bodies = Decoding("bodies", at_once=2, most=64)
"""Bodies of clients."""
answers = Decoding("answers", at_once=2)
"""Answers and notifications of upstreams and services."""


async def body(raw: bytes, caller: str = "") -> Json:
    """Decode one JSON text of a client; raise ParseError, or ServerBusy where too many large ones wait."""
    return await bodies.decoded(raw, json.loads if len(raw) <= SMALL_BYTES else _large, caller)


def _large(raw: bytes) -> Json:
    json.refuse_many(raw)
    return json.loads(raw)
