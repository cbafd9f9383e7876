"""The upstreams of this process. Follows what the catalogue says of them; imports no SDK until one is used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from sessions_app.protocol.errors import ConnectionFailed
from tools_catalog.backends.base import ToolContext
from tools_catalog.upstream import children
from tools_catalog.upstream.connection import Connection
from tools_catalog.upstream.link import Approval, Link, Offer, Surroundings
from tools_catalog.upstream.spec import STDIO, ConnectionSpec

__all__ = ["Approval", "Link", "Offer", "Pool", "Surroundings", "here"]

logger = logging.getLogger(__name__)


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = WeakKeyDictionary()


def here() -> Pool:
    """Give the pool of the running loop; raise ConnectionFailed where no hub runs on it."""
    found = _pools.get(asyncio.get_running_loop())
    if found is None:
        raise ConnectionFailed("No hub runs in this process, so it has no connections.")
    return found


class Pool:
    """One a process and event loop. Empty, it holds nothing and costs nothing."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._connections: dict[str, Connection] = {}
        self._leaving: set[asyncio.Task[Any]] = set()
        self._is_stopped = False
        self._has_cleaned = False
        _pools[asyncio.get_running_loop()] = self

    def follow(self, specs: Mapping[str, ConnectionSpec], undiscovered: Iterable[str] = ()) -> None:
        """Hold these upstreams and no others. One whose words changed is connected anew, while its calls
        under way end on the old connection; the others stay.

        Those of `undiscovered` are connected once now, to learn what they offer.
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
                connection = self._connections[slug] = Connection(spec, self._around)
                connection.start()
        for slug in undiscovered:
            if slug in self._connections:
                self._connections[slug].want()

    async def request(
        self, slug: str, method: str, params: dict[str, Any], context: ToolContext, offer: Offer
    ) -> dict[str, Any]:
        """Send an upstream a request about what it offers; give the result as it came. Raises a HubError."""
        connection = self._connections.get(slug)
        if connection is None:
            raise ConnectionFailed(f"The connection {slug} is switched off. Tell the hub's operator.", connection=slug)
        return await connection.request(method, params, context, offer)

    def subscribe(self, wanted: Mapping[str, frozenset[str]]) -> None:
        """Be told of these resources, by the name of their connection, and of no others."""
        for slug, connection in self._connections.items():
            connection.subscribe(wanted.get(slug, frozenset()))

    def refresh(self, slug: str) -> None:
        """List the tools of a connection again, connecting it for that."""
        if (connection := self._connections.get(slug)) is not None:
            connection.refresh()

    def find(self, slug: str) -> Connection | None:
        return self._connections.get(slug)

    def links(self) -> list[Link]:
        return [connection.link for connection in self._connections.values()]

    async def stop(self) -> None:
        """End all connections, and every child process."""
        self._is_stopped = True
        connections, self._connections = list(self._connections.values()), {}
        await asyncio.gather(*(connection.stop() for connection in connections), *self._leaving)

    def _leave(self, connection: Connection) -> None:
        self._own(asyncio.create_task(connection.retire(), name=f"mcphub-upstream-{connection.spec.slug}-retire"))

    def _own(self, task: asyncio.Task[Any]) -> None:
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
