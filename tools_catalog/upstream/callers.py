"""Sessions with an upstream that belong to callers: the upstream's state for one is invisible to others.

Each also declares the capabilities of its caller's client, which a session does once, at the beginning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from sessions_app.protocol import errors
from tools_catalog.call.context import ToolContext
from tools_catalog.upstream import bridge
from tools_catalog.upstream.account import AccountNeeded
from tools_catalog.upstream.bridge import Abilities
from tools_catalog.upstream.spec import ConnectionSpec

if TYPE_CHECKING:
    from tools_catalog.upstream.client import UpstreamClient

Open = Callable[["UpstreamClient", Abilities, str], Awaitable["UpstreamClient"]]
"""Opens a session like another one, for a client that can be asked so much, of this caller."""


class CallerSessions:
    """Of one connection. Opened when first needed, ended with it, or by age where there are too many."""

    def __init__(self, spec: ConnectionSpec, open_: Open) -> None:
        self._spec = spec
        self._open = open_
        self._sessions: dict[Any, asyncio.Task[UpstreamClient]] = {}

    async def session_for(self, main: UpstreamClient, context: ToolContext) -> UpstreamClient:
        """Return the session for a call; `main` where it keeps nothing of anybody. Raises ConnectionFailed."""
        if main.serves_all:
            return main
        can_ask = bridge.permitted(bridge.abilities(context), self._spec.asking, context.call.client_capabilities)
        is_apart = self._spec.separates_callers or self._spec.is_personal
        owner = context.call.caller_principal if is_apart else ""
        if not owner and self._spec.is_personal:  # what nobody calls must not go out as somebody
            raise AccountNeeded("This call is nobody's, so there is no account for it.", self._spec.slug)
        if not owner and not self._spec.asking:
            return main
        return await self.session_of(main, owner, can_ask)

    async def session_of(self, main: UpstreamClient, owner: str, can_ask: Abilities = frozenset()) -> UpstreamClient:
        """Return the session of a caller whose client has these capabilities. Raises ConnectionFailed."""
        key = (owner, can_ask)
        known = self._sessions.get(key)
        if known is not None and not _is_spent(known):
            return await asyncio.shield(known)
        if len(self._sessions) >= self._spec.max_sessions:
            await self._end_oldest()
        opening = asyncio.ensure_future(self._open(main, can_ask, owner))
        opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        self._sessions[key] = opening
        return await asyncio.shield(opening)

    async def end(self) -> None:
        """End all of them."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for opening in sessions:
            opening.cancel()
        await asyncio.gather(*sessions, return_exceptions=True)
        opened = [task.result() for task in sessions if not task.cancelled() and not task.exception()]
        await asyncio.gather(*(session.close() for session in opened))

    async def _end_oldest(self) -> None:
        idle = [
            (task.result().last_used, key)
            for key, task in self._sessions.items()
            if task.done() and not task.cancelled() and not task.exception() and not len(task.result().calls)
        ]
        if not idle:
            raise errors.ConnectionFailed(f"{self._spec.slug} has as many sessions as it may. Try again.")
        _, key = min(idle, key=lambda each: each[0])
        await self._sessions.pop(key).result().close()


def _is_spent(opening: asyncio.Task[UpstreamClient]) -> bool:
    if not opening.done():
        return False
    return opening.cancelled() or opening.exception() is not None or opening.result().closed.is_set()
