"""What the chat doors of one process share: the snapshot of providers, the engine, the connections. Made with the
first request, or at the start of the server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from channels.db import database_sync_to_async

from invocations.origin import Origin
from mcphub import runtime
from mcphub.chat import approvals, keysettings
from mcphub.chat.keysettings import KeySettings
from mcphub.chat.loop import Engine
from mcphub.chat.providers import health
from mcphub.chat.providers.client import ProviderClient
from mcphub.chat.providers.snapshot import Choice, Providers
from mcphub.chat.talk import Talks
from sessions_app import bus
from sessions_app.caller import Caller
from sessions_app.models import Transport

logger = logging.getLogger(__name__)

PROVIDERS_CHANGED = "chat_providers_changed"


class Chat:
    """One a hub."""

    def __init__(self, hub: runtime.Hub) -> None:
        self.hub = hub
        self.client = ProviderClient(tells=True)
        self.engine = Engine(hub.calls, self.client)
        self.talks = Talks(hub)
        self._providers = Providers()
        self._policies: dict[str, str] = {}
        self._of_keys: dict[int, KeySettings] = {}
        self._stale = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def providers(self) -> Providers:
        """Give the providers and models of this moment."""
        return self._providers

    def preferred(self, provider: str) -> Choice | None:
        """Give the model of a provider that a session prefers; None where it says nothing, or that was switched off."""
        return self._providers.choose(provider=provider) if provider in self._providers.providers else None

    def approval_policies(self) -> dict[str, str]:
        """Give what operators demand of calls by models, by the tool's name."""
        return self._policies

    def key_settings(self, caller: Caller) -> KeySettings:
        """Give what an operator set for the requests of a caller's key."""
        return self._of_keys.get(caller.key_id or 0, keysettings.NOTHING)

    async def start(self) -> None:
        self.hub.follower.on([PROVIDERS_CHANGED, *bus.FOLLOWED], self._hear)
        await self._load()
        self._task = asyncio.create_task(self._follow(), name="mcphub-chat")
        self.talks.start()
        self.hub.closing.append(self.stop)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.talks.stop()
        await self.client.aclose()

    async def _load(self) -> None:
        self._providers = await database_sync_to_async(Providers.load)()
        for provider in self._providers.providers.values():
            self.client.breaker(provider)  # so that it follows, though nobody asked it here
        states = await database_sync_to_async(health.load)()
        if self.client.health is not None:
            self.client.health.follow(states)
        self._policies = await database_sync_to_async(approvals.load_policies)()
        self._of_keys = await database_sync_to_async(keysettings.load)()

    def _hear(self, event: bus.Event) -> None:
        # The others tell after an outage of the bus that anything may have changed.
        self._stale.set()

    async def _follow(self) -> None:
        while True:
            await self._stale.wait()
            self._stale.clear()
            try:
                await self._load()
            except Exception:
                logger.exception("The providers could not be read; chat goes on with those it has")
                await asyncio.sleep(1)
                self._stale.set()


_made: dict[str, Any] = {}


async def of(hub: runtime.Hub) -> Chat:
    """Give the chat of a running hub."""
    found = _made.get("chat")
    if found is None or found.hub is not hub:
        lock = _made.setdefault("lock", (hub, asyncio.Lock()))
        if lock[0] is not hub:
            lock = _made["lock"] = (hub, asyncio.Lock())
        async with lock[1]:
            found = _made.get("chat")
            if found is None or found.hub is not hub:
                made = Chat(hub)
                await made.start()
                found = _made["chat"] = made
    chat: Chat = found
    return chat


async def origin(hub: runtime.Hub, caller: Caller, *, client_name: str = "", client_address: str = "") -> Origin:
    """Give where a question comes from, for the audit of the calls that it leads to."""
    transport = Transport.CHAT.value
    session_id = await hub.sessions.implicit(caller, transport=transport, client_name=client_name)
    return Origin(
        caller=caller, session_id=session_id, transport=transport, client_name=client_name,
        client_address=client_address,
    )  # fmt: skip
