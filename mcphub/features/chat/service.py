"""The shared state of one process's chat endpoints: the snapshot of providers, conversations, connections. Made with
the first request, or at the start of the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from channels.db import database_sync_to_async

from invocations.call_source import CallSource
from mcphub.features.chat import approvals
from mcphub.features.chat.conversations.turns import Conversations
from mcphub.features.chat.engine.events import TurnEvent
from mcphub.features.chat.engine.loop import TurnRun
from mcphub.features.chat.engine.metering import Metering
from mcphub.features.chat.engine.tool_selection import RequestedServer, tools_named
from mcphub.features.chat.engine.turn import Turn
from mcphub.features.chat.providers import health
from mcphub.features.chat.providers.client import ProviderClient
from mcphub.features.chat.providers.prices import Prices
from mcphub.features.chat.providers.snapshot import Providers, load_prices
from mcphub.features.quotas.quota import quotas_of
from mcphub.features.quotas.spending import Spending
from mcphub.process import runtime
from sessions_app import bus, transports
from sessions_app.caller import Caller

logger = logging.getLogger(__name__)

PROVIDERS_CHANGED = "chat_providers_changed"


@dataclass(frozen=True, slots=True)
class KeySettings:
    """The operator's settings for the chat requests of one key."""

    model: str | None = None
    """Id of the model that answers where a request names none."""
    tools: str = "none"
    """A `ChatKey.Tools`."""
    names: tuple[str, ...] = ()

    def servers(self) -> list[RequestedServer]:
        """Return the tools of a request that does not mention them."""
        if self.tools == "none":
            return []
        return [tools_named(None if self.tools == "all" else self.names)]


_NO_SETTINGS = KeySettings()


class Chat:
    """The chat of one running hub. `providers` and `prices` are replaced whole when their rows change."""

    def __init__(self, hub: runtime.Hub) -> None:
        self.hub = hub
        self.client = ProviderClient(shares_health=True)
        self.conversations = Conversations(hub)
        self.providers = Providers()
        self.prices = Prices()
        self._of_keys: dict[int, KeySettings] = {}
        self._stale = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def key_settings(self, caller: Caller) -> KeySettings:
        """Return the operator's settings for the requests of a caller's key."""
        return self._of_keys.get(caller.key_id or 0, _NO_SETTINGS)

    # Turns -----------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def turn(self, turn: Turn) -> AsyncIterator[AsyncGenerator[TurnEvent, None]]:
        """Begin a turn in its conversation and give its events, each once it is stored; the last is `TurnFinished`.

        Raises ChatError. A turn that is left before its end is recorded as failed or cancelled.
        """
        async with self.conversations.turn(turn):
            preferred = turn.session.provider_preference if turn.session is not None and not turn.asked_for else ""
            if preferred in self.providers.providers:  # it may have been switched off since the session began
                turn.choice = self.providers.choose(provider=preferred)
            metering = Metering(
                turn.caller,
                self.hub.ledger,
                self.hub.calls.stages.one(Spending),
                lambda: quotas_of(self.hub.configuration),
                lambda: self.prices,
            )
            await metering.admit(turn.choice.model)
            if turn.decided:
                # Only now, as nothing but the calls themselves can keep them from being made.
                await database_sync_to_async(approvals.settle)(turn.decided, turn.caller.principal)
            async with contextlib.aclosing(self._stored(turn, metering)) as events:
                yield events

    async def _stored(self, turn: Turn, metering: Metering) -> AsyncGenerator[TurnEvent, None]:
        async with contextlib.aclosing(TurnRun(turn, self.hub.calls, self.client, metering).events()) as events:
            async for event in events:
                await self.conversations.store(turn, event)
                yield event

    # Its life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        self.hub.follower.on([PROVIDERS_CHANGED, *bus.FOLLOWED], self._on_change)
        await self._load()
        self._task = asyncio.create_task(self._follow(), name="mcphub-chat")
        self.conversations.start()
        self.hub.closing.append(self.stop)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.conversations.stop()
        await self.client.aclose()

    async def _load(self) -> None:
        self.providers = await database_sync_to_async(Providers.load)()
        self.prices = await database_sync_to_async(load_prices)()
        for provider in self.providers.providers.values():
            self.client.breaker(provider)  # so that it follows the other workers before its first request here
        states = await database_sync_to_async(health.load)()
        if self.client.health is not None:
            self.client.health.follow(states)
        self._of_keys = await database_sync_to_async(_load_key_settings)()

    def _on_change(self, event: bus.BusMessage) -> None:
        # After an outage of the bus each of the events followed tells that anything may have changed.
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


def _load_key_settings() -> dict[int, KeySettings]:
    """Return the settings by the id of the key."""
    from mcphub.features.chat.models import ChatKey

    rows = ChatKey.objects.select_related("model__provider")
    return {
        row.key_id: KeySettings(row.model.public_id if row.model else None, row.tools, tuple(row.tool_names))
        for row in rows
    }


class _RunningChat:
    """The chat of this process. A process runs one hub at a time, each on an event loop of its own."""

    hub: runtime.Hub | None = None
    lock: asyncio.Lock
    chat: Chat | None = None


async def of(hub: runtime.Hub) -> Chat:
    """Return the chat of a running hub."""
    if _RunningChat.chat is not None and _RunningChat.chat.hub is hub:
        return _RunningChat.chat
    if _RunningChat.hub is not hub:
        _RunningChat.hub, _RunningChat.lock = hub, asyncio.Lock()
    async with _RunningChat.lock:
        if _RunningChat.chat is None or _RunningChat.chat.hub is not hub:
            made = Chat(hub)
            await made.start()
            _RunningChat.chat = made
    return _RunningChat.chat


async def call_source(
    hub: runtime.Hub, caller: Caller, *, client_name: str = "", client_address: str = ""
) -> CallSource:
    """Return the source of the calls that a question leads to, for the audit."""
    transport = transports.CHAT.name
    session_id = await hub.sessions.implicit(caller, transport=transport, client_name=client_name)
    return CallSource(
        caller=caller,
        session_id=session_id,
        transport=transport,
        client_name=client_name,
        client_address=client_address,
    )
