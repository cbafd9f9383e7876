"""Keys created or rotated a moment ago: a process may receive one before the bus announces it.

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
    """Looks up keys missing from this process's snapshot, for all waiting requests together."""

    def __init__(
        self, read: Callable[[Collection[int]], Awaitable[None]], spawn: Callable[[asyncio.Task[None]], None]
    ) -> None:
        self._read = read
        """Reads keys by id into the snapshot."""
        self._spawn = spawn
        self._asked: dict[bytes, tuple[str, asyncio.Future[bool]]] = {}
        """Digest -> prefix, and the future of its waiters."""
        self._is_looking = False

    async def has(self, digest: bytes, text: str) -> bool:
        """Return whether there is such a key after all; then the snapshot has it now. Raises the database's errors.

        False at once for texts that are not keys, and for keys beyond those that may wait.
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
                    if found := {known[text] for digest in asked if (text := digest.hex()) in known}:
                        await self._read(found)
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


def _hashes(prefixes: Collection[str]) -> dict[str, int]:
    """Return the ids of keys of those prefixes by the hashes, in hexadecimal, of the texts that they have or had."""
    from sessions_app.models import ApiKey

    rows = ApiKey.objects.usable().filter(prefix__in=prefixes).values_list("pk", "secret_hash", "previous_hash")
    return {text: pk for pk, *texts in rows for text in texts if text}
