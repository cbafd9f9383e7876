"""The way of an upstream's listing into the catalogue: beside calls, and in no time that the upstream has.

The hub stores one listing after the other, for all upstreams. An upstream that answered must not be called silent, nor
be connected anew, because the hub has many to store; and a call that has a new list needs no more than that.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tools_catalog.upstream.listing import Listed, Offers
from tools_catalog.upstream.spec import ConnectionSpec

logger = logging.getLogger(__name__)

FOR_ALL: Final = ""
"""In place of a person: the list that does not depend on one."""
KeepForAll = Callable[[int, Offers], Awaitable[None]]
KeepForOne = Callable[[int, str, Offers], Awaitable[None]]


class OfferKeeper:
    """Of one connection of this process. A list that waits to be stored is replaced by a newer one."""

    def __init__(self, spec: ConnectionSpec, for_all: KeepForAll | None, for_one: KeepForOne | None) -> None:
        """`for_all` and `for_one` compare a listing with the catalogue, and store it."""
        self._spec = spec
        self._for_all = for_all
        self._for_one = for_one
        self._due: dict[str, dict[str, Mapping[str, Listed]]] = {}
        """Person -> kind -> the offers to store."""
        self._storing: asyncio.Task[None] | None = None

    def take(self, offers: Offers, principal: str = FOR_ALL) -> None:
        """Store offers soon. Never waits."""
        if (self._for_one if principal else self._for_all) is None:
            return
        self._due.setdefault(principal, {}).update(offers)
        if self._storing is None or self._storing.done():
            # It outlives a call that listed, whose context has threads that end with it.
            self._storing = asyncio.create_task(
                self._store(), name=f"mcphub-upstream-{self._spec.slug}-offers", context=contextvars.Context()
            )

    async def end(self) -> None:
        """Store no more: what is left is listed again by the next connection."""
        if self._storing is not None:
            self._storing.cancel()
            await asyncio.gather(self._storing, return_exceptions=True)

    async def _store(self) -> None:
        while self._due:
            principal = next(iter(self._due))
            offers = self._due.pop(principal)
            try:
                if principal and self._for_one is not None:
                    await self._for_one(self._spec.id, principal, offers)
                elif self._for_all is not None:
                    await self._for_all(self._spec.id, offers)
            except Exception:
                logger.exception("What %s offers could not be compared with the catalogue", self._spec.slug)
