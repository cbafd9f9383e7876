"""The upstreams of this process. Follows their rows in the catalogue; imports no SDK until one is used."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from sessions_app.kit import tracing
from sessions_app.protocol import mcp_apps
from sessions_app.protocol.errors import AskFailed, ConnectionFailed, HubError
from tools_catalog.call.base import Json
from tools_catalog.call.context import ToolContext
from tools_catalog.upstream import children, vendors
from tools_catalog.upstream.connection import Connection
from tools_catalog.upstream.link import Approval, ConnectionEnvironment, HeldElsewhere, Link, Offer, SuspendedElsewhere
from tools_catalog.upstream.received_calls import NotThere
from tools_catalog.upstream.relay import Relay
from tools_catalog.upstream.spec import STDIO, ConnectionSpec
from tools_catalog.upstream.suspended_calls import GONE
from tools_catalog.upstream.transports.base import SessionLost

__all__ = ["Approval", "ConnectionEnvironment", "Link", "Offer", "Pool", "here"]

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 10.0
"""For a child that is on its way from one process to another; the call's own deadline may end sooner."""
_AGAIN_SECONDS = 0.1

_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = WeakKeyDictionary()


def here() -> Pool:
    """Return the pool of the running loop; raise ConnectionFailed where no hub runs on it."""
    found = _pools.get(asyncio.get_running_loop())
    if found is None:
        raise ConnectionFailed("No hub runs in this process, so it has no connections.")
    return found


class Pool:
    """One a process and event loop. Empty, it holds nothing and costs nothing."""

    def __init__(self, environment: ConnectionEnvironment) -> None:
        self.environment = environment
        self._connections: dict[str, Connection] = {}
        self._leaving: set[asyncio.Task[Any]] = set()
        self._last: dict[str, asyncio.Task[Any]] = {}
        """Name of a connection -> the end of the one that it replaced."""
        self._holders: dict[str, str] = {}
        """Name of a connection -> where the process that runs its one child was last reached."""
        self._listing: set[tuple[str, str]] = set()
        """Connections and persons with lists being read in the background."""
        self.relay = Relay(self._perform)
        self._is_stopped = False
        self._has_cleaned = False
        _pools[asyncio.get_running_loop()] = self

    def follow(self, specs: Mapping[str, ConnectionSpec], undiscovered: Iterable[str] = ()) -> None:
        """Hold these upstreams and no others. A connection with a changed row is connected anew, while its running
        calls end on the old connection; the others stay.

        Those of `undiscovered` are connected once now, to list their offers.
        """
        if self._is_stopped:
            return
        for slug, connection in list(self._connections.items()):
            if specs.get(slug) != connection.spec:
                del self._connections[slug]
                self._leave(connection)
        if not self._has_cleaned and any(spec.transport == STDIO for spec in specs.values()):
            self._has_cleaned = True
            self._own(asyncio.create_task(asyncio.to_thread(children.remove_orphans)))
        for slug, spec in specs.items():
            if slug not in self._connections:
                self._hold(spec)
            else:
                self._connections[slug].know(spec)
        for slug in undiscovered:
            if slug in self._connections:
                self._connections[slug].want()

    async def request(
        self, slug: str, method: str, params: dict[str, Any], context: ToolContext, offer: Offer
    ) -> dict[str, Any]:
        """Send an upstream a request about its offers; return the result as received. Raises a HubError."""
        connection = self._connections.get(slug)
        if connection is None:
            raise ConnectionFailed(f"The connection {slug} is switched off. Tell the hub's operator.", connection=slug)
        try:
            if connection.spec.is_single:
                return await self._request_of_the_one(connection, method, params, context, offer)
            return await connection.request(method, params, context, offer)
        except SuspendedElsewhere as suspended:
            return await self._go_on_elsewhere(suspended.process_id, slug, method, params, context, offer)

    async def _request_of_the_one(
        self, connection: Connection, method: str, params: dict[str, Any], context: ToolContext, offer: Offer
    ) -> dict[str, Any]:
        """Send it through whichever process runs the one child; run it here where none does."""
        slug, loop = connection.spec.slug, asyncio.get_running_loop()
        patience_ends = loop.time() + _PATIENCE_SECONDS
        while True:
            if address := self._holders.get(slug):
                try:
                    return await self.relay.request(address, slug, method, _traced(params), context, offer)
                except NotThere:
                    self._holders.pop(slug, None)
            try:
                return await connection.request(method, params, context, offer)
            except HeldElsewhere:
                if self._is_stopped or loop.time() > patience_ends:
                    raise
            if address := await self._holder(connection.spec.id):
                self._holders[slug] = address
            else:
                await asyncio.sleep(_AGAIN_SECONDS)  # it is on its way from one process to another

    async def _go_on_elsewhere(
        self, process_id: str, slug: str, method: str, params: dict[str, Any], context: ToolContext, offer: Offer
    ) -> dict[str, Any]:
        """Let the process that keeps the call go on with it. Raises AskFailed where that is gone."""
        try:
            address = await self.environment.address(process_id) if self.environment.address is not None else ""
            if address:
                return await self.relay.request(address, slug, method, _traced(params), context, offer)
        except NotThere:
            pass
        raise AskFailed(GONE)

    async def _perform(
        self, slug: str, method: str, params: dict[str, Any], context: ToolContext, offer: Offer
    ) -> dict[str, Any]:
        """Make a request that another process passed on. It is not passed on again."""
        connection = self._connections.get(slug)
        if connection is None:
            raise NotThere
        try:
            return await connection.request(method, params, context, offer)
        except HeldElsewhere as error:
            raise NotThere from error
        except SuspendedElsewhere as error:
            raise AskFailed(GONE) from error

    async def _holder(self, connection_id: int) -> str:
        """Return where the process that runs the one child takes calls; empty where none does."""
        environment = self.environment
        if environment.holder is None or environment.address is None:
            return ""
        process_id = await environment.holder(connection_id)
        return await environment.address(process_id) if process_id and process_id != environment.process_id else ""

    def subscribe(self, wanted: Mapping[str, frozenset[str]]) -> None:
        """Subscribe to these resources, by the name of their connection, and to no others."""
        for slug, connection in self._connections.items():
            uris = wanted.get(slug, frozenset())
            connection.subscribe(frozenset(mcp_apps.at_upstream(slug, uri) for uri in uris))

    def refresh(self, slug: str) -> None:
        """List the tools of a connection again, connecting it for that."""
        if (connection := self._connections.get(slug)) is not None:
            connection.refresh()

    def list_for(self, principal: str, slug: str = "", *, again: bool = False) -> None:
        """Read upstreams' lists for a person, in the background, where they depend on the user, the person has an
        account there, and the list is too old; of a `slug` that one alone.
        """
        for connection in self._connections.values():
            spec = connection.spec
            key = spec.slug, principal
            if spec.lists_per_person and slug in ("", spec.slug) and principal and key not in self._listing:
                self._listing.add(key)
                listing = self._list_for(connection, principal, again)
                # A session outlives the request that begins it, whose context has threads that end with it.
                context = contextvars.Context()
                self._own(asyncio.create_task(listing, name=f"mcphub-upstream-{spec.slug}-lists", context=context))

    async def _list_for(self, connection: Connection, principal: str, again: bool) -> None:
        account = self.environment.account
        try:
            if account is None or not await account(connection.spec, principal).is_connected():
                return
            if again or not await self._was_listed_to(connection.spec, principal):
                await connection.list_for(principal, again=again)
        except (HubError, SessionLost) as error:
            logger.warning("What %s offers to %s is not known: %s", connection.spec.slug, principal, error)
        except Exception:
            logger.exception("What %s offers to %s is not known", connection.spec.slug, principal)
        finally:
            self._listing.discard((connection.spec.slug, principal))

    async def _was_listed_to(self, spec: ConnectionSpec, principal: str) -> bool:
        asked = self.environment.was_listed_to
        return asked is not None and await asked(spec.id, principal, spec.refresh_seconds)

    def reconnect(self, slug: str) -> None:
        """Make a connection anew where there is one. Calls under way end on the old one."""
        connection = self._connections.get(slug)
        if connection is None or self._is_stopped or not connection.is_used:
            return
        self._leave(connection)
        self._hold(connection.spec)
        self._connections[slug].want()

    def extensions_of(self, slugs: Callable[[], Collection[str | None]]) -> dict[str, dict[str, Json]]:
        """Return members of capabilities for clients of these connections: the vendors' extensions of their upstreams.

        `slugs` is called only where some upstream has any.
        """
        found = {slug: here.declares for slug, here in self._connections.items() if here.declares}
        if not found:
            return {}
        shown = slugs()
        return vendors.agreed(declared for slug, declared in found.items() if slug in shown)

    def find(self, slug: str) -> Connection | None:
        return self._connections.get(slug)

    def lose(self, connection_id: int) -> None:
        """End the one child of a hub here: another process took this one for dead, and runs it."""
        for connection in self._connections.values():
            if connection.spec.id == connection_id:
                connection.lose("Another process of the hub runs its one child now.")

    def links(self) -> list[Link]:
        return [connection.link for connection in self._connections.values()]

    async def stop(self) -> None:
        """End all connections, and every child process."""
        self._is_stopped = True
        connections, self._connections = list(self._connections.values()), {}
        await self.relay.stop()
        await asyncio.gather(*(connection.stop() for connection in connections), *self._leaving)

    def _hold(self, spec: ConnectionSpec) -> None:
        connection = self._connections[spec.slug] = Connection(spec, self.environment)
        connection.start(self._last.get(spec.slug) if spec.is_single else None)

    def _leave(self, connection: Connection) -> None:
        slug = connection.spec.slug
        leaving = asyncio.create_task(connection.retire(), name=f"mcphub-upstream-{slug}-retire")
        self._last[slug] = leaving
        leaving.add_done_callback(lambda task: self._last.pop(slug) if self._last.get(slug) is task else None)
        self._own(leaving)

    def _own(self, task: asyncio.Task[Any]) -> None:
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


def _traced(params: dict[str, Any]) -> dict[str, Any]:
    """Return the params of a request that another process sends, with its parent span."""
    return dict(tracing.current().injected(params))
