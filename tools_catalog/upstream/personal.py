"""One upstream's lists for each person's account, where they depend on the user.

A list belongs to the session that it was read in, so it never outlives the account. No call of a person is made on an
older one than the connection allows, and the catalogue receives each that differs from the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from sessions_app.protocol import errors
from tools_catalog.upstream import listing
from tools_catalog.upstream.account import AccountNeeded, AccountRefused
from tools_catalog.upstream.further import ReadOffers
from tools_catalog.upstream.keeping import OfferKeeper
from tools_catalog.upstream.listing import Listed, Offers
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import ConnectionSpec

if TYPE_CHECKING:
    from tools_catalog.upstream.client import UpstreamClient


@dataclass(slots=True)
class _ShownToSession:
    """Of one session."""

    listed_at: float = float("-inf")
    offers: dict[str, Mapping[str, Listed]] = field(default_factory=dict)
    listing: asyncio.Lock = field(default_factory=asyncio.Lock)


class PersonalLists:
    """Of one connection of this process."""

    def __init__(
        self, spec: ConnectionSpec, keeper: OfferKeeper, scrub: Scrubber, readers: Mapping[str, ReadOffers]
    ) -> None:
        """`readers` read lists of further kinds."""
        self._spec = spec
        self._readers = readers
        self._keeper = keeper
        self._scrub = scrub
        self._held: WeakKeyDictionary[UpstreamClient, _ShownToSession] = WeakKeyDictionary()

    async def shown(self, session: UpstreamClient, principal: str, *, again: bool = False) -> Offers:
        """Return the list of a person's session, read now if that is too old, or `again`.

        Raises SessionLost, and a HubError where the tools cannot be listed.
        """
        held = self._held.setdefault(session, _ShownToSession())
        asked = asyncio.get_running_loop().time()
        if not again and asked - held.listed_at <= self._spec.refresh_seconds:
            return held.offers
        async with held.listing:
            if held.listed_at < asked:
                await self._read(session, principal, held, asked)
        return held.offers

    def changed(self) -> None:
        """Treat no list as fresh: the upstream announced a change."""
        for held in self._held.values():
            held.listed_at = float("-inf")

    async def _read(self, session: UpstreamClient, principal: str, held: _ShownToSession, began: float) -> None:
        offers: dict[str, Mapping[str, Listed]] = {}
        try:
            async with asyncio.timeout(self._spec.connect_seconds):
                for kind in listing.KINDS:
                    offers[kind] = await self._listed(session, kind, held)
                for kind in self._readers:
                    offers[kind] = await self._listed(session, kind, held)
        except TimeoutError as error:
            raise errors.ConnectionFailed(f"{self._spec.slug} did not list what it offers in time.") from error
        if session.era.has(listing.RESOURCE):
            tools = offers[listing.TOOL].values()
            offers[listing.RESOURCE] = listing.with_views(offers[listing.RESOURCE], offers[listing.TEMPLATE], tools)
        held.offers, held.listed_at = offers, began
        self._keeper.take(offers, principal)

    async def _listed(self, session: UpstreamClient, kind: str, held: _ShownToSession) -> Mapping[str, Listed]:
        try:
            if (reader := self._readers.get(kind)) is not None:
                return await reader(session, self._spec, self._scrub) or {}
            return listing.read(self._scrub.value(await session.list_offers(kind)), kind)
        except (AccountNeeded, AccountRefused):
            raise
        except (listing.ListingInvalid, errors.UpstreamError, errors.ResultInvalid) as error:
            if kind == listing.TOOL:
                raise errors.UpstreamError(str(error)) from error
            return held.offers.get(kind, {})  # its tools work; what it reads like stays as it was listed before
