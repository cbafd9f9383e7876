"""Keys that were made, or given a new text, a moment ago: a process may be asked by one before it heard of it.

Whoever makes a key uses it at once, and any worker may be the one that is asked. So before a worker refuses a key that
it does not know, it looks whether the database has it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection

from channels.db import database_sync_to_async

_PREFIX = re.compile(r"(mcph_[0-9a-f]{8})_")
_MOST_WAITING = 200
_PAUSE_SECONDS = 0.05
"""Guesses cost one look at the database in this time, however many they are."""


class UnheardKeys:
    """Looks for keys that the snapshot of this process lacks, for all who wait at one moment together."""

    def __init__(self, read_again: Callable[[], Awaitable[None]], spawn: Callable[[asyncio.Task[None]], None]) -> None:
        self._read_again = read_again
        """Makes the snapshot anew."""
        self._spawn = spawn
        self._asked: dict[bytes, tuple[str, asyncio.Future[bool]]] = {}
        """Digest -> prefix, and what those who gave it wait for."""
        self._is_looking = False

    async def has(self, digest: bytes, text: str) -> bool:
        """Whether there is such a key after all; then the snapshot has it now. Raises the database's errors.

        False at once for what does not look like a key, and for keys beyond those that may wait.
        """
        found = _PREFIX.match(text)
        if found is None or (digest not in self._asked and len(self._asked) >= _MOST_WAITING):
            return False
        asked = self._asked.setdefault(digest, (found[1], asyncio.get_running_loop().create_future()))
        if not self._is_looking:
            self._is_looking = True
            self._spawn(asyncio.create_task(self._look(), name="mcphub-unheard-keys"))
        return await asyncio.shield(asked[1])

    async def _look(self) -> None:
        try:
            while self._asked:
                asked, self._asked = self._asked, {}
                try:
                    known = await database_sync_to_async(_hashes)({prefix for prefix, _ in asked.values()})
                    if any(digest.hex() in known for digest in asked):
                        await self._read_again()
                except BaseException as error:
                    for _, future in asked.values():
                        _fail(future, error)
                    if not isinstance(error, Exception):
                        raise
                else:
                    for digest, (_, future) in asked.items():
                        if not future.done():
                            future.set_result(digest.hex() in known)
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._is_looking = False
            for _, future in self._asked.values():  # the hub stops: nobody looks for these any more
                future.cancel()
            self._asked.clear()


def _fail(future: asyncio.Future[bool], error: BaseException) -> None:
    if isinstance(error, asyncio.CancelledError):
        future.cancel()
    elif not future.done():
        future.set_exception(error)
        future.exception()  # whoever asked may have gone


def _hashes(prefixes: Collection[str]) -> set[str]:
    """Give the hashes, in hexadecimal, of the texts that keys of those prefixes have now, or had before."""
    from sessions_app.models import ApiKey

    rows = ApiKey.objects.usable().filter(prefix__in=prefixes).values_list("secret_hash", "previous_hash")
    return {text for row in rows for text in row if text}
