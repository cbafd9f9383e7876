"""Where listings of upstreams are stored: one after the other, on a thread and a connection of their own.

Thousands of offers take a minute: not on the thread that everything else asks the database from.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from channels.db import database_sync_to_async

from sessions_app.kit.database import giving_way, is_away
from tools_catalog.discovery import reconcile
from tools_catalog.upstream.listing import Offers

logger = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0


class ListingStorage:
    """Of one process. `goes_on` returns False once nothing more is to be stored."""

    def __init__(self, goes_on: Callable[[], bool]) -> None:
        self._goes_on = goes_on
        self._thread = ThreadPoolExecutor(1, "mcphub-discovery")

    async def for_all(self, connection_id: int, offers: Offers) -> None:
        await self.done(lambda: reconcile.reconcile(connection_id, offers, goes_on=self._goes_on))

    async def for_one(self, connection_id: int, principal: str, offers: Offers) -> None:
        await self.done(lambda: reconcile.reconcile_for(connection_id, principal, offers, goes_on=self._goes_on))

    async def done(self, store: Callable[[], None], again_seconds: float = _AGAIN_SECONDS) -> None:
        """Run `store` until the database was there for it: what an upstream lists is not stored again before it
        changes.
        """

        def store_and_give_way() -> None:
            with giving_way():
                store()

        while True:
            try:
                await database_sync_to_async(store_and_give_way, thread_sensitive=False, executor=self._thread)()
            except Exception as error:
                if not is_away(error) or not self._goes_on():
                    raise
                logger.warning("What an upstream offers could not be stored yet: %s", error)
            else:
                return
            await asyncio.sleep(again_seconds)
