"""Offers of the kinds that features add, read beside calls: once a connection is up, and when they are too old."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from sessions_app.protocol import errors
from sessions_app.protocol.json import Json
from tools_catalog.upstream.listing import Listed, ListingInvalid, Offers
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.upstream.transports.base import SessionLost

if TYPE_CHECKING:
    from tools_catalog.upstream.era import Era

logger = logging.getLogger(__name__)

READ_SECONDS: Final = 120.0
"""For the offers of one kind. What was not read by then stays as it was."""
_LEAST_SECONDS: Final = 60.0
"""Between two readings of a connection that lists its tools before each call."""


class OffersSession(Protocol):
    """A session with an upstream, as far as offers are read with it."""

    @property
    def era(self) -> Era: ...
    @property
    def cut(self) -> dict[str, str]:
        """Kind -> why its list was not read to its end."""
        ...

    async def ask(self, method: str, params: Mapping[str, Json]) -> dict[str, Json]: ...
    async def pages(self, kind: str, method: str, member: str) -> list[Json]: ...


ReadOffers = Callable[[OffersSession, ConnectionSpec, Scrubber], Awaitable[Mapping[str, Listed] | None]]
"""Returns the offers of one kind by their names there; None where nothing is to be changed."""


async def read(
    session: OffersSession, spec: ConnectionSpec, scrub: Scrubber, readers: Mapping[str, ReadOffers]
) -> Offers:
    """Return the offers of these kinds, without those that the upstream does not list."""
    found: dict[str, Mapping[str, Listed]] = {}
    for kind, reader in readers.items():
        try:
            async with asyncio.timeout(READ_SECONDS):
                listed = await reader(session, spec, scrub)
        except (TimeoutError, ListingInvalid, SessionLost, errors.HubError) as error:
            words = scrub.text(str(error)) or "it took too long"
            logger.warning("The upstream %s does not list its offers of the kind %s: %s", spec.slug, kind, words)
        else:
            if listed is not None:
                found[kind] = listed
    return found


class FurtherReader:
    """Of one connection of this process."""

    def __init__(
        self,
        spec: ConnectionSpec,
        scrub: Scrubber,
        readers: Mapping[str, ReadOffers],
        keep: Callable[[Offers], None],
        took: Callable[[Offers, float], None],
    ) -> None:
        """`keep` has offers compared with the catalogue, and does not wait for that. `took` gets them,
        and when they were read.
        """
        self._spec = spec
        self._took = took
        self._scrub = scrub
        self._readers = readers
        self._keep = keep
        self._due = asyncio.Event()
        self.is_reading = False

    def again(self) -> None:
        """Read soon: a list changed."""
        self._due.set()

    async def read_now(self, session: OffersSession) -> None:
        self.is_reading = True
        began = asyncio.get_running_loop().time()
        try:
            if found := await read(session, self._spec, self._scrub, self._readers):
                self._took(found, began)
                self._keep(found)
        except Exception:
            logger.exception("What %s offers could not be read", self._spec.slug)
        finally:
            self.is_reading = False

    async def read_on(self, session: OffersSession) -> None:
        """Read as long as the session lasts; cancelled at its end."""
        while self._readers:
            self._due.clear()
            await self.read_now(session)
            try:
                async with asyncio.timeout(max(self._spec.refresh_seconds, _LEAST_SECONDS)):
                    await self._due.wait()
            except TimeoutError:
                continue
