"""Decodes what clients send: small bodies where they are, large ones in a thread, and none that would cost too much."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from sessions_app.protocol import json
from sessions_app.protocol.errors import HubError, ServerBusy
from sessions_app.protocol.json import Json

SMALL_BYTES = 64 * 1024
"""Below it the dearest body takes 26 ms on a busy machine, and most take less than the hop to a thread."""
_AT_ONCE = 2
_MOST = 64

_waiting: set[asyncio.Future[Json]] = set()


async def decoded(raw: bytes) -> Json:
    """Decode one JSON text; raise ParseError, or ServerBusy where too many large ones wait."""
    if len(raw) <= SMALL_BYTES:
        return json.loads(raw)
    if len(_waiting) >= _MOST:
        busy = ServerBusy("Too many large bodies wait to be decoded. Try again in a moment.")
        busy.retry_after_seconds = 1
        raise busy
    future = asyncio.get_running_loop().run_in_executor(_threads(), _large, raw)
    _waiting.add(future)
    future.add_done_callback(_waiting.discard)
    try:
        return await future
    except HubError as error:
        error.parted()
        raise
    finally:
        del future  # it keeps the error, whose frames are this one: a ring that would keep the body, see `parted`


def _large(raw: bytes) -> Json:
    json.refuse_many(raw)
    return json.loads(raw)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="mcphub-decoding")
