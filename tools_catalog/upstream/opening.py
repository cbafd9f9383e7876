"""How sessions with an upstream are opened: with a probe for its era, and without one where it does not answer that.

A server that ends or falls silent at `server/discover` costs a child, or seconds, each time. So it is remembered, for
all processes and starts of the hub, until the address, the command or the server's own version changes, or a session
does not begin.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from sessions_app.protocol import errors, revisions
from tools_catalog.upstream import vendors
from tools_catalog.upstream.bridge import Abilities
from tools_catalog.upstream.client import UpstreamClient
from tools_catalog.upstream.http import StatusError
from tools_catalog.upstream.link import ConnectionEnvironment, Link
from tools_catalog.upstream.negotiation import NotOutlived, Probed
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import NO_ACCOUNT, ConnectionSpec

logger = logging.getLogger(__name__)


async def opened(make: Callable[[bool], UpstreamClient], *, is_unprobed: bool = False) -> UpstreamClient:
    """Open a session, and another one without a probe where the upstream does not outlive that. Raises as `open`.

    `make` makes a session, given whether it begins without a probe.
    """
    session = make(is_unprobed)
    try:
        await session.open()
    except NotOutlived:
        session = make(True)
        await session.open()
        session.probed = Probed.UNANSWERED
    return session


class SessionOpener:
    """Opens the sessions of one connection of this process."""

    def __init__(
        self,
        spec: ConnectionSpec,
        environment: ConnectionEnvironment,
        scrub: Scrubber,
        link: Link,
        *,
        list_changed: Callable[..., None],
        updated: Callable[[str], None],
    ) -> None:
        self._spec = spec
        self._environment = environment
        self._scrub = scrub
        self._link = link
        self._list_changed = list_changed
        self._updated = updated
        self.unprobed = spec.unprobed
        """The server that does not answer a probe, as far as is known here."""
        self.declares = spec.declares
        """Vendors' extensions of it, as far as is known here."""
        self._is_wary = False
        """The last attempt may have failed for its probe, so the next one has none."""
        self._made = 0
        """Sessions that the last attempt took."""
        self._unanswered = 0
        """Probes in a row."""

    async def main(self, can_ask: Abilities) -> UpstreamClient:
        """Open the session that everything begins with. Raises ConnectionFailed, EgressRefused."""
        try:
            session = await self._open(None, can_ask, "")
        except errors.HubError as error:
            await self._remember("")
            # One that says why it does not begin lives; of any other the next attempt does without the probe, for
            # there are servers that stay broken after one until somebody restarts them.
            is_told = isinstance(error.__cause__, errors.UpstreamError) and not isinstance(error.__cause__, StatusError)
            self._is_wary = not is_told and (self._is_wary or self._made > 1)
            raise
        if self._is_wary and session.probed is Probed.NOT:
            session.probed = Probed.UNANSWERED
        self._is_wary = False
        server = self._scrub.text(session.era.server) or "?"
        if session.probed is Probed.UNANSWERED:
            self._unanswered += 1
            # One of the newest handshake may be of both eras, and have ended by chance: it is believed the second time.
            if session.era.version != revisions.NEWEST_HANDSHAKE or self._unanswered > 1:
                await self._remember(server)
        elif session.probed is Probed.ANSWERED:
            self._unanswered = 0
            await self._remember("")
        elif server != self.unprobed:
            await self._remember("")  # another server than the one that is known: the next time it is asked
        await self._remember_extensions(session)
        return session

    async def like(self, main: UpstreamClient, can_ask: Abilities, owner: str) -> UpstreamClient:
        """Open another session with an upstream of a known era, for a caller. Raises as `main`."""
        return await self._open(main, can_ask, owner)

    async def _open(self, like: UpstreamClient | None, can_ask: Abilities, owner: str) -> UpstreamClient:
        made: list[UpstreamClient] = []
        account = None
        if self._spec.account != NO_ACCOUNT and self._environment.account is not None:
            account = self._environment.account(self._spec, owner if self._spec.is_personal else "")

        def make(is_unprobed: bool) -> UpstreamClient:
            session = UpstreamClient(
                self._spec,
                self._scrub,
                self._environment.version,
                list_changed=self._list_changed,
                updated=self._updated,
                like=like,
                can_ask=can_ask,
                person_done=self._environment.person_done,
                is_unprobed=is_unprobed,
                account=account,
            )
            made.append(session)
            return session

        try:
            return await opened(make, is_unprobed=bool(self.unprobed) or self._is_wary)
        except errors.HubError:
            self._link.stderr = self._scrub.text(str(made[-1].last_words))
            raise
        finally:
            self._made = len(made)

    async def _remember_extensions(self, session: UpstreamClient) -> None:
        """Keep which of the extensions that the connection passes this upstream declares."""
        passing = self._spec.asking.extensions
        found = vendors.declared_among(self._scrub.value(session.era.capabilities), passing)
        if found == self.declares:
            return
        self.declares = found
        if self._environment.declares is None:
            return
        try:
            await self._environment.declares(self._spec, vendors.as_capabilities(found))
        except Exception as error:
            logger.warning("The extensions of %s could not be kept: %s", self._spec.slug, error)

    async def _remember(self, server: str) -> None:
        """Keep that this server does not answer a probe; empty: that none is known."""
        if server == self.unprobed:
            return
        self.unprobed = server
        if self._environment.unprobed is None:
            return
        try:
            await self._environment.unprobed(self._spec, server)
        except Exception as error:
            logger.warning("What %s does with a probe could not be kept: %s", self._spec.slug, error)
